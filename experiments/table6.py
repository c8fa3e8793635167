"""Table 6 of the paper: Transformer-XL on text8, real and with waves, at equal parameters.

Twice: at equal updates, and at equal time, where each row has the steps that the real model's
time allows it. Selection, also of the length of memory, sees the valid part only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from experiments.long_table import (
    MINUTES,
    Choices,
    LongCell,
    LongRecord,
    LongTable,
    Panel,
    changed,
    draw_curves,
    named,
)
from wordwave.errors import WordwaveError
from wordwave.grid import Count, Record
from wordwave.recipes import read_recipe
from wordwave.tables import Content, Grid
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
)
REFERENCE = ROWS[0]
RECIPES = {
    "small": ("lm-small-real", "lm-small-complex", 576),
    "paper": ("lm-paper", "lm-paper-complex", 2304),
}
"""Recipes of the real and the complex rows; the inner width RoPE has instead of relative terms."""
CHOSEN: dict[str, dict[str, Any]] = {
    "transformer-xl + rope": {"tied": True},
    "complex-vanilla": {"n_heads": 8, "tied": False},
}
"""Where small rows differ from their recipe: --choices found other settings best for them."""


TYPICAL_ALPHABET = 64
"""Characters, where no text says how many: few weights depend on it."""


def row_configs(size: Size = "small") -> dict[str, LanguageModelConfig]:
    """The settings of each row, all with as many parameters within a hundredth."""
    real_name, complex_name, wider = RECIPES[size]
    real, waves = (read_recipe(name, LanguageModelConfig) for name in (real_name, complex_name))
    counts = waves.model.wave_positions
    rows = {
        "transformer-xl": real,
        "transformer-xl + rope": replace(
            real, model=replace(real.model, position="rope", feed_forward_dim=wider)
        ),
        # The positions of complex-order, for a real model: are waves what makes the difference?
        "transformer-xl + tpe": replace(
            real, model=replace(real.model, embedding="tpe", wave_positions=counts)
        ),
        "complex-vanilla": replace(waves, model=replace(waves.model, embedding="complex-vanilla")),
        "complex-order": waves,
    }
    chosen = CHOSEN if size == "small" else {}
    return {row: changed(config, chosen.get(row, {})) for row, config in rows.items()}


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
    """What is run and where.

    Args:
        out: gets the records, the run folders and the tables.
        size: `"small"` for a CPU, `"paper"` for a GPU.
        data: what is learnt from.
        steps: steps of the real model instead of the recipe's.
        seeds: how many.
        budgets: at equal updates, at equal time, or both.
        changes: other training or data settings for all rows, such as {"batch_size": 8}.
    """

    size: Size = "small"
    data: str = "text8"
    steps: int | None = None
    seeds: int = 2
    budgets: tuple[Budget, ...] = ("updates", "time")
    changes: tuple[tuple[str, Any], ...] = ()
    figures: ClassVar[type] = _Table6Record
    choice_figures: ClassVar[type] = _ChoiceRecord
    scored: ClassVar[tuple[str, ...]] = ("valid", "test")
    """Parts of the text that finished models are scored on."""

    def __post_init__(self) -> None:
        if not self.budgets:
            raise WordwaveError("budgets must name at least one, got none")
        if self.seeds < 1:
            raise WordwaveError(f"seeds must be at least 1, got {self.seeds}")

    def configs(self) -> dict[str, LanguageModelConfig]:
        """Of each row, at equal updates."""
        return {row: self._settled(config) for row, config in row_configs(self.size).items()}

    def steps_of(self, budget: Budget) -> dict[str, int]:
        """How many steps each row has."""
        configs = self.configs()
        steps = {row: config.training.max_steps for row, config in configs.items()}
        if budget == "updates":
            return steps
        seconds = self.step_seconds()
        allowed = steps[REFERENCE] * seconds[REFERENCE]
        return {row: max(round(allowed / seconds[row]), 1) for row in ROWS}

    def cells(self) -> list[LongCell]:
        """All trainings, each once."""
        configs, cells = self.configs(), {}
        for seed in range(self.seeds):
            for budget in self.budgets:
                for row, steps in self.steps_of(budget).items():
                    training = replace(configs[row].training, max_steps=steps, seed=seed)
                    cell = LongCell(row, seed, replace(configs[row], training=training))
                    cells[cell.name] = cell
        return list(cells.values())

    def training(self, row: str) -> Training:
        from wordwave.data.corpora import load_text
        from wordwave.tasks.language_modelling import prepare
        from wordwave.training.loop import Training

        config = self.configs()[row]
        prepared = prepare(config, load_text(config.data.data, config.data.unit))
        return Training(prepared.writer.model, prepared.task, config.training)

    def words_per_step(self, row: str) -> int:
        config = self.configs()[row]
        training = config.training
        return training.batch_size * training.grad_accumulation * config.model.segment_length

    def n_parameters(self, row: str) -> int:
        import torch

        from wordwave.models.classifier import count_parameters
        from wordwave.models.transformer_xl import TransformerXL

        with torch.device("meta"):  # shapes alone, no memory
            letters = torch.zeros(TYPICAL_ALPHABET, dtype=torch.bool)
            model = TransformerXL(self.configs()[row].model, TYPICAL_ALPHABET, letters)
        return count_parameters(model)

    def train(self, cell: LongCell) -> Record:
        """Train in a run folder of its own, so that it goes on where it was."""
        import torch

        from wordwave.data.corpora import load_text
        from wordwave.tasks.language_modelling import Result, check_same_run, prepare
        from wordwave.tasks.run import finished, train
        from wordwave.training.run import read_metrics

        torch.set_num_threads(1)
        folder = self.folder(cell)
        check_same_run(cell.config, folder)
        data = cell.config.data
        parts = load_text(data.data, data.unit)
        result = finished(folder, Result) or train(
            replace(prepare(cell.config, parts), scored=self.scored), folder
        )
        result = _with_best_memory(result, parts, self.scored, cell.config, folder)
        journal = read_metrics(folder / "metrics.jsonl", ("seconds", "dev_minus_bpc"))
        curve = [
            {"step": r["step"], "seconds": r["seconds"], "bpc": -r["dev_minus_bpc"]}
            for r in journal
        ]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}

    def _settled(self, config: LanguageModelConfig) -> LanguageModelConfig:
        changes = dict(self.changes)
        if self.steps is not None:
            changes["max_steps"] = self.steps
        of_data = {k: changes.pop(k) for k in ("eval_chars", "test_chars") if k in changes}
        return replace(
            config,
            data=replace(config.data, data=self.data, **of_data),
            training=replace(config.training, **changes),
        )


def _with_best_memory(
    result: Record,
    parts: TextSplits,
    scored: tuple[str, ...],
    config: LanguageModelConfig,
    folder: Path,
) -> Record:
    """The figures with the memory that valid prefers: as long as in training, or as configured.

    A longer one tells more, but of distances that training has not seen.
    """
    from wordwave.tasks.language_model import LanguageModel
    from wordwave.tasks.language_modelling import head

    trained, longer = config.model.memory_length, config.model.eval_memory_length
    found = {**result, "memory": longer}
    if trained == longer:
        return found
    writer = LanguageModel.load(folder)

    def bits(part: str) -> float:
        text = head(getattr(parts, part), config.data.test_chars)
        return writer.bits(text, memory_length=trained).per_character

    valid = bits("valid")
    if valid >= result["valid_bpc"]:
        return found
    figures = {f"{part}_bpc": bits(part) for part in scored if part != "valid"}
    return {**found, "memory": trained, "valid_bpc": valid, **figures}


COLOURS = dict(zip(ROWS, ("#555555", "#2f9e66", "#9a6fd0", "#e0662f", "#2a6fdb"), strict=True))
PUBLISHED = {"transformer-xl": 1.29, "complex-vanilla": 1.30, "complex-order": 1.26}
"""The paper's figures: 6 layers of full size, the whole of text8."""
COLUMNS = ("row", "parameters", "steps", "seeds", "memory", "valid", "test", "±")


def table6_grid(table: Table6) -> Grid:
    """The rows at equal updates, and at equal time."""
    records = table.records()
    seconds = table.known_step_seconds()
    rows: list[list[Content]] = []
    for budget in table.budgets:
        rows.append([f"at equal {budget}"])
        steps = table.steps_of(budget)
        for row in ROWS:
            same = [r for r in records if (r["row"], _planned(r)) == (row, steps[row])]
            if same:
                rows.append(_cells(row, same, seconds.get(row)))
    notes = []
    if records:
        valid, test = records[0]["valid_characters"], records[0]["test_characters"]
        notes = [
            f"Bits per character on {table.data}: {valid:,} characters of the valid and {test:,} "
            "of the test part, with the memory that valid preferred; ±: standard deviation over "
            "seeds. Core minutes: steps times the CPU seconds of a step, measured in turns where "
            "rows were timed together.",
            "Of the size small each row has the settings that were best for it of as many short "
            "trainings, by the valid part (--choices); transformer-xl + tpe has those of "
            "transformer-xl, and the positions of complex-order.",
            "The paper's figures are of its full size on the official test part and compare with "
            "ours only in their order.",
        ]
    title = "Table 6. Transformer-XL, real and with waves"
    hidden = frozenset({"seeds", "memory"})
    return Grid("table6", title, [*COLUMNS, MINUTES, "paper"], rows, notes, only_in_files=hidden)


def _planned(record: Record) -> int:
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
    """Bits per character on the valid part, over steps and over minutes."""
    label = "bits per character, valid part"
    seconds = table.known_step_seconds()
    panels = [Panel(lambda point: point["bpc"], label, over) for over in (None, seconds)]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table6")


STEPS = 1000
SCORED = 100_000
"""Characters of the valid part that a choice is judged by."""
FIRST: dict[str, Any] = {
    "learning_rate": 0.00125,
    "warmup_fraction": 0.05,
    "beta2": 0.999,
    "max_grad_norm": 0.5,
    "dropout": 0.0,
    "n_heads": 4,
    "norm_first": True,
    "tied": True,
    "phase": False,
    "frequency_init": "sinusoidal",
    "frequency_range": None,
    "share_frequency": None,
    "readout": "concat",
    "score": "real",
}
"""What all rows have at first; waves are idle in all but complex-order."""
COMPLEX: dict[str, Any] = {
    "share": "none",
    "hidden_units": "complex",
    "dim": 88,
    "feed_forward_dim": 372,
}
SIZES: dict[str, dict[str, Any]] = {
    "transformer-xl": {"dim": 128, "feed_forward_dim": 512},
    "transformer-xl + rope": {"dim": 128, "feed_forward_dim": 576},
    "complex-vanilla": COMPLEX,
    "complex-order": COMPLEX | {"position": "relative", "wave_positions": "segment"},
}
"""What the layers of each row are at first; all sizes here have as many parameters."""
STILL: dict[str, Any] = {
    "phase": True,
    "frequency_init": "uniform",
    "frequency_range": (-0.003, 0.003),
}
"""Waves that hardly turn within a segment: what a character says is told by amplitude and phase."""
WIDER: dict[str, Any] = {"share": "real", "dim": 124, "feed_forward_dim": 504}
"""Real weights that act on both parts of complex numbers, and so may be more."""
REAL_UNITS: dict[str, Any] = {
    "share": "real",
    "hidden_units": "real",
    "dim": 104,
    "feed_forward_dim": 364,
}
"""Such weights in attention, and real units in feed-forward layers."""
WORDS: dict[str, Any] = REAL_UNITS | {"wave_positions": "word", "phase": True}
"""Waves that count within words, with phases, over the same layers."""
AFTER: dict[str, Any] = {"norm_first": False}
EIGHT: dict[str, Any] = {"n_heads": 8}
UNTIED: dict[str, Any] = {"tied": False}
RATES: dict[str, dict[str, Any]] = {
    f"rate {rate}": {"learning_rate": rate} for rate in (0.000625, 0.0025)
}
"""Of all rows, besides what they have at first."""
COMMON: dict[str, dict[str, Any]] = {
    "two heads": {"n_heads": 2},
    "eight heads": EIGHT,
    "norm after each sub-layer": AFTER,
    "predictions by vectors of their own": UNTIED,
    "dropout of a tenth": {"dropout": 0.1},
    "rate 0.0018": {"learning_rate": 0.0018},
    "beta2 of 0.98": {"beta2": 0.98},
    "warm-up of a tenth": {"warmup_fraction": 0.1},
    "gradients of length 1": {"max_grad_norm": 1.0},
}
REAL_ROWS: dict[str, dict[str, Any]] = COMMON | {
    "norm after, eight heads": AFTER | EIGHT,
    "norm after, own vectors": AFTER | UNTIED,
    "norm after, eight heads, own vectors": AFTER | EIGHT | UNTIED,
    "norm after, rate 0.0018": AFTER | {"learning_rate": 0.0018},
    "norm after, rate 0.0025": AFTER | {"learning_rate": 0.0025},
}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "transformer-xl": REAL_ROWS,
    "transformer-xl + rope": REAL_ROWS,
    "complex-vanilla": COMMON
    | {
        "real weights, wider": WIDER,
        "real weights and units": REAL_UNITS,
        "real weights and units, norm after": REAL_UNITS | AFTER,
        "real weights and units, norm after, eight heads": REAL_UNITS | AFTER | EIGHT,
        "real weights and units, norm after, eight heads, own vectors": REAL_UNITS
        | AFTER
        | EIGHT
        | UNTIED,
    },
    "complex-order": {
        "positions running through the text": {"wave_positions": "running"},
        "scores by magnitude": {"score": "magnitude"},
        "read-out by magnitude": {"readout": "magnitude"},
        "one frequency a dimension": {"share_frequency": "word"},
        "slow waves": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
        "initial phases": {"phase": True},
        "almost still waves with phases": STILL,
        "almost still waves with phases, read out by magnitude": STILL | {"readout": "magnitude"},
        "almost still waves with phases, real weights, wider": STILL | WIDER,
        "no relative terms": {"position": "none"},
        **{
            f"positions within words, phases, real weights and units{name}": WORDS | changes
            for name, changes in {
                "": {},
                ", norm after": AFTER,
                ", norm after, eight heads": AFTER | EIGHT,
                ", norm after, eight heads, own vectors": AFTER | EIGHT | UNTIED,
            }.items()
        },
    },
}
"""What each changes of its row: as many for every row but transformer-xl + tpe, which shares the
settings of transformer-xl."""


@dataclass(frozen=True)
class Table6Choices(Choices, Table6):
    """As Table 6, with choices for rows."""

    title: ClassVar[str] = "What the paper leaves open of Transformer-XL"
    figure: ClassVar[str] = "valid_bpc"
    scored: ClassVar[tuple[str, ...]] = ("valid",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size != "small":
            raise WordwaveError(f"choices are for the size 'small', got {self.size!r}")

    def configs(self) -> dict[str, LanguageModelConfig]:
        found: dict[str, LanguageModelConfig] = {}
        rows = super().configs()
        for row in CHOICES:
            config = changed(rows[row], FIRST | SIZES[row])
            own = replace(
                config,
                data=replace(config.data, test_chars=SCORED),
                model=replace(config.model, eval_memory_length=config.model.memory_length),
                training=replace(config.training, max_steps=self.steps or STEPS),
            )
            found[named(row)] = own
            for name, changes in {**RATES, **CHOICES[row]}.items():
                found[named(row, name)] = changed(own, changes)
        return found

    def notes(self, records: Sequence[Record]) -> list[str]:
        steps, n = records[0]["steps"], records[0]["valid_characters"]
        return [
            f"{steps:,} steps each on {self.data}, bits per character on {n:,} characters of the "
            "valid part, with the memory of training. Each choice changes its row as it was at "
            "first; the best of a row is what it has in Table 6."
        ]
