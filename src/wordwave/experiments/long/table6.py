"""Table 6 of the paper: Transformer-XL on text8, real and with waves, at equal parameters.

Twice: at equal updates, and at equal time, where each row has the steps that the real model's
time allows it. Selection, also of the length of memory, sees the valid part only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from wordwave.experiments.long.choices import changed
from wordwave.experiments.long.long_table import LongCell, LongRecord, LongTable
from wordwave.experiments.store import Count
from wordwave.recipes import read_recipe
from wordwave.tasks.lm_config import LmConfig

if TYPE_CHECKING:
    from wordwave.data.corpora import TextParts
    from wordwave.experiments.store import Record
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


def row_configs(size: Size = "small") -> dict[str, LmConfig]:
    """The settings of each row, all with as many parameters within a hundredth."""
    real_name, complex_name, wider = RECIPES[size]
    real, waves = (read_recipe(name, LmConfig) for name in (real_name, complex_name))
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
            raise ValueError("budgets must name at least one, got none")
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def configs(self) -> dict[str, LmConfig]:
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
        from wordwave.tasks.language_model import prepare
        from wordwave.training.loop import Training

        config = self.configs()[row]
        prepared = prepare(config, load_text(config.data.data, config.data.unit))
        return Training(prepared.writer.model, prepared.task, config.training)

    def words_per_step(self, row: str) -> int:
        config = self.configs()[row]
        training = config.training
        return training.batch_size * training.accumulate * config.model.segment_length

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
        from wordwave.tasks.language_model import Result, check_same_run, prepare
        from wordwave.tasks.prepared import train
        from wordwave.tasks.run_folder import finished
        from wordwave.training.journal import read_journal

        torch.set_num_threads(1)
        folder = self.folder(cell)
        check_same_run(cell.config, folder)
        data = cell.config.data
        parts = load_text(data.data, data.unit)
        result = finished(folder, Result) or train(
            replace(prepare(cell.config, parts), scored=self.scored), folder
        )
        result = _with_best_memory(result, parts, self.scored, cell.config, folder)
        journal = read_journal(folder / "metrics.jsonl", ("seconds", "dev_minus_bpc"))
        curve = [
            {"step": r["step"], "seconds": r["seconds"], "bpc": -r["dev_minus_bpc"]}
            for r in journal
        ]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}

    def _settled(self, config: LmConfig) -> LmConfig:
        changes = dict(self.changes)
        if self.steps is not None:
            changes["max_steps"] = self.steps
        of_data = {k: changes.pop(k) for k in ("judge_on", "score_on") if k in changes}
        return replace(
            config,
            data=replace(config.data, data=self.data, **of_data),
            training=replace(config.training, **changes),
        )


def _with_best_memory(
    result: Record, parts: TextParts, scored: tuple[str, ...], config: LmConfig, folder: Path
) -> Record:
    """The figures with the memory that valid prefers: as long as in training, or as configured.

    A longer one tells more, but of distances that training has not seen.
    """
    from wordwave.tasks.language_model import head
    from wordwave.tasks.writer import Writer

    trained, longer = config.model.memory_length, config.model.evaluation_memory
    found = {**result, "memory": longer}
    if trained == longer:
        return found
    writer = Writer.load(folder)

    def bits(part: str) -> float:
        text = head(getattr(parts, part), config.data.score_on)
        return writer.bits(text, memory_length=trained).per_character

    valid = bits("valid")
    if valid >= result["valid_bpc"]:
        return found
    figures = {f"{part}_bpc": bits(part) for part in scored if part != "valid"}
    return {**found, "memory": trained, "valid_bpc": valid, **figures}
