"""Table 6 of the paper: Transformer-XL on text8, real and complex, at equal parameters.

Twice: at equal updates, and at equal time, where each row has as many updates as fit in the time of
the real model. Checkpoints and the memory length are selected on the validation set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from experiments import paper
from experiments.long_table import (
    CORE_MINUTES,
    LongCell,
    LongRecord,
    LongTable,
    Panel,
    draw_curves,
)
from wordwave.config_io import with_settings
from wordwave.errors import WordwaveError
from wordwave.grid import Count, Record
from wordwave.recipes import read_recipe
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import LanguageModelConfig

if TYPE_CHECKING:
    from wordwave.data.corpora import TextSplits
    from wordwave.training.loop import Training


Size = Literal["small", "paper"]
Budget = Literal["updates", "time"]
ROWS = (
    "transformer-xl",
    "transformer-xl + rope",
    "transformer-xl + tpe",
    "complex-vanilla",
    "complex-order",
    "complex-order, as in the paper",
)
REFERENCE = ROWS[0]
RECIPES = {
    "small": ("lm-small-real", "lm-small-complex", 576),
    "paper": ("lm-paper", "lm-paper-complex", 2304),
}
"""Recipes of the real and the complex rows, and the feed-forward width of RoPE, which has no
relative attention weights."""
AS_IN_THE_PAPER: dict[Size, dict[str, Any]] = {
    "small": {
        "phase": False,
        "wave_positions": "segment",
        "share": "none",
        "hidden_units": "complex",
        "dim": 88,
        "feed_forward_dim": 372,
    },
    "paper": {"phase": False, "wave_positions": "segment"},
}
"""What the paper's own form changes of complex-order."""
CHOSEN: dict[str, dict[str, Any]] = {
    "transformer-xl + rope": {"tied": True},
    "complex-vanilla": {"n_heads": 8, "tied": False},
}
"""The settings of small rows that differ from their recipe, selected by --choices."""


TYPICAL_ALPHABET = 64
"""Characters, for an estimate of the model size without data."""


def row_configs(size: Size = "small") -> dict[str, LanguageModelConfig]:
    """The configuration of each row; parameters agree within one percent."""
    real_name, complex_name, rope_width = RECIPES[size]
    real, waves = (read_recipe(name, LanguageModelConfig) for name in (real_name, complex_name))
    positions = waves.model.wave_positions
    rows = {
        "transformer-xl": real,
        "transformer-xl + rope": with_settings(real, position="rope", feed_forward_dim=rope_width),
        # The positions of complex-order in a real model: do waves make the difference?
        "transformer-xl + tpe": with_settings(real, embedding="tpe", wave_positions=positions),
        "complex-vanilla": with_settings(waves, embedding="complex-vanilla"),
        "complex-order": waves,
        # Words replaced by waves, nothing else: positions in the segment, no phases, complex units.
        "complex-order, as in the paper": with_settings(waves, **AS_IN_THE_PAPER[size]),
    }
    chosen = CHOSEN if size == "small" else {}
    return {row: with_settings(config, **chosen.get(row, {})) for row, config in rows.items()}


class _Point(TypedDict):
    step: int
    bpc: float


class _ChoiceRecord(LongRecord):
    valid_bpc: float
    valid_characters: Count


class _Table6Record(_ChoiceRecord):
    memory: int
    test_bpc: float
    test_characters: Count
    curve: list[_Point]


@dataclass(frozen=True)
class Table6(LongTable):
    """The trainings of Table 6.

    Args:
        out: folder of the records, the run folders, the table and the curves.
        size: `"small"` for a CPU, `"paper"` for a GPU.
        data: name of the corpus, or a text file.
        steps: updates of the real model, instead of the recipe's.
        seeds: number of seeds.
        budgets: at equal updates, at equal time, or both.
        rows: which of `ROWS`; all are timed, for the updates at equal time.
        changes: other settings for all rows, such as (("batch_size", 8),).
    """

    size: Size = "small"
    data: str = "text8"
    steps: int | None = None
    seeds: int = 2
    budgets: tuple[Budget, ...] = ("updates", "time")
    rows: tuple[str, ...] = ROWS
    changes: tuple[tuple[str, Any], ...] = ()
    config_type: ClassVar[type] = LanguageModelConfig
    record_type: ClassVar[type] = _Table6Record
    choice_record_type: ClassVar[type] = _ChoiceRecord
    evaluated: ClassVar[tuple[str, ...]] = ("valid", "test")
    """The splits that finished models are evaluated on."""

    def __post_init__(self) -> None:
        if not self.budgets:
            raise WordwaveError("budgets must name at least one, got none")
        if self.seeds < 1:
            raise WordwaveError(f"seeds must be at least 1, got {self.seeds}")

    def configs(self) -> dict[str, LanguageModelConfig]:
        """The configuration of each row at equal updates."""
        steps = {} if self.steps is None else {"max_steps": self.steps}
        settings: dict[str, Any] = {"data": self.data, **dict(self.changes), **steps}
        rows = row_configs(self.size)
        return {row: with_settings(config, **settings) for row, config in rows.items()}

    def steps_of(self, budget: Budget) -> dict[str, int]:
        """Updates of each row."""
        configs = self.configs()
        steps = {row: config.training.max_steps for row, config in configs.items()}
        if budget == "updates":
            return steps
        seconds = self.step_seconds()
        allowed = steps[REFERENCE] * seconds[REFERENCE]
        return {row: max(round(allowed / seconds[row]), 1) for row in ROWS}

    def cells(self) -> list[LongCell]:
        configs, cells = self.configs(), {}
        for seed in range(self.seeds):
            for budget in self.budgets:
                for row, steps in self.steps_of(budget).items():
                    if row not in self.rows:
                        continue
                    training = replace(configs[row].training, max_steps=steps, seed=seed)
                    cell = LongCell(row, seed, replace(configs[row], training=training))
                    cells[cell.name] = cell
        return list(cells.values())

    def training(self, row: str) -> Training:
        from wordwave.tasks.language_modelling import LanguageModelJob

        job = LanguageModelJob(self.configs()[row])
        return job.prepare(job.load_data()).training()

    def tokens_per_step(self, row: str) -> int:
        config = self.configs()[row]
        training = config.training
        return training.batch_size * training.grad_accumulation * config.model.segment_length

    def n_parameters(self, row: str) -> int:
        import torch

        from wordwave.models.transformer_xl import TransformerXL
        from wordwave.models.utils import count_parameters

        with torch.device("meta"):  # shapes only, no memory
            letters = torch.zeros(TYPICAL_ALPHABET, dtype=torch.bool)
            model = TransformerXL(self.configs()[row].model, TYPICAL_ALPHABET, letters)
        return count_parameters(model)

    def train(self, cell: LongCell) -> Record:
        import torch

        from wordwave.tasks.language_modelling import LanguageModelJob
        from wordwave.training.run import read_metrics

        torch.set_num_threads(1)
        folder = self.folder(cell)
        job = LanguageModelJob(cell.config)
        job.scored = self.evaluated
        job.check_config(folder)
        splits = job.load_data()
        result = job.finished(folder) or job.prepare(splits).train(folder)
        result = with_best_memory_length(result, splits, self.evaluated, cell.config, folder)
        metrics = read_metrics(folder / "metrics.jsonl", ("seconds", "dev_minus_bpc"))
        curve = [
            {"step": r["step"], "seconds": r["seconds"], "bpc": -r["dev_minus_bpc"]}
            for r in metrics
        ]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}


def with_best_memory_length(
    result: Record,
    splits: TextSplits,
    evaluated: tuple[str, ...],
    config: LanguageModelConfig,
    folder: Path,
) -> Record:
    """The result with the better memory length on the validation set: that of training, or the
    longer one of the configuration, which adds context at distances not seen in training."""
    from wordwave.tasks.language_model import LanguageModel
    from wordwave.tasks.language_modelling import head

    trained, longer = config.model.memory_length, config.model.eval_memory_length
    found = {**result, "memory": longer}
    if trained == longer:
        return found
    model = LanguageModel.load(folder)

    def bits(split: str) -> float:
        text = head(getattr(splits, split), config.data.test_chars)
        return model.bits(text, memory_length=trained).per_character

    valid = bits("valid")
    if valid >= result["valid_bpc"]:
        return found
    others = {f"{split}_bpc": bits(split) for split in evaluated if split != "valid"}
    return {**found, "memory": trained, "valid_bpc": valid, **others}


COLOURS = dict(
    zip(ROWS, ("#555555", "#2f9e66", "#9a6fd0", "#e0662f", "#2a6fdb", "#00a0b0"), strict=True)
)
PUBLISHED = {
    "transformer-xl": 1.29,
    "complex-vanilla": 1.30,
    "complex-order": 1.26,
    "complex-order, as in the paper": 1.26,
}
"""The paper's bits per character: 6 layers of full size, all of text8."""
COLUMNS = ("row", "parameters", "updates", "seeds", "memory", "valid", "test", "±")


def table6_table(table: Table6) -> ResultTable:
    """The rows at equal updates, and at equal time."""
    records = table.records()
    seconds = table.known_step_seconds()
    rows: list[list[Content]] = []
    for budget in table.budgets:
        rows.append([f"at equal {budget}"])
        steps = table.steps_of(budget)
        for row in ROWS:
            same = [r for r in records if (r["row"], _max_steps(r)) == (row, steps[row])]
            if same:
                rows.append(_cells(row, same, seconds.get(row)))
    notes = []
    if records:
        blank: list[Content] = [None] * len(COLUMNS)
        rows.append(["reported by others, from the paper's Table 6"])
        rows += [[name, *blank, value] for name, value in paper.reported("table6").items()]
        valid, test = records[0]["valid_characters"], records[0]["test_characters"]
        notes = [
            f"Bits per character on {table.data}: {valid:,} characters of the validation and "
            f"{test:,} of the test set, with the memory length that is better on the validation "
            "set; ±: standard deviation over seeds. Core minutes: updates times the CPU seconds of "
            "a step, measured in turns where rows were timed together.",
            "At size small, each row has the best of an equal number of hyperparameter choices, "
            "by short trainings on the validation set (--choices); transformer-xl + tpe has those "
            "of transformer-xl, and the positions of complex-order.",
            "complex-order counts positions within words, and has phases and real hidden units, "
            "which the paper has not; “as in the paper”, words are replaced by waves of positions "
            "in the segment, with the learning rate and norms of complex-order.",
            "The paper's bits per character are of its full size on the official test set: compare "
            "the order of rows only.",
        ]
    title = "Table 6. Transformer-XL, real and complex"
    hidden = frozenset({"seeds", "memory"})
    columns = [*COLUMNS, CORE_MINUTES, "paper"]
    return ResultTable("table6", title, columns, rows, notes, only_in_files=hidden)


def _max_steps(record: Record) -> int:
    steps: int = record["config"]["training"]["max_steps"]
    return steps


def _cells(row: str, same: list[Record], step_seconds: float | None) -> list[Content]:
    test = [r["test_bpc"] for r in same]
    return [
        row,
        same[0]["parameters"],
        same[0]["steps"],
        len(same),
        " ".join(map(str, sorted({r["memory"] for r in same}))),
        f"{fmean(r['valid_bpc'] for r in same):.4f}",
        f"{fmean(test):.4f}",
        f"{stdev(test):.4f}" if len(test) > 1 else None,
        None if step_seconds is None else f"{same[0]['steps'] * step_seconds / 60:.1f}",
        f"{PUBLISHED[row]:.2f}" if row in PUBLISHED else None,
    ]


def draw_table6(table: Table6) -> list[Path]:
    """Bits per character on the validation set, over updates and over minutes."""
    label = "bits per character, validation set"
    seconds = table.known_step_seconds()
    panels = [Panel(lambda point: point["bpc"], label, over) for over in (None, seconds)]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table6")
