"""Table 5 of the paper: translation, real and with waves, at equal parameters and updates.

Selection sees the dev part only; the test part is translated once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

from wordwave.experiments.long.long_table import LongCell, LongRecord, LongTable
from wordwave.models.config import EmbeddingKind
from wordwave.recipes import read_recipe
from wordwave.tasks.translate_config import TranslateConfig

if TYPE_CHECKING:
    from wordwave.data.parallel_text import ParallelParts
    from wordwave.experiments.store import Record
    from wordwave.training.loop import Training

Size = Literal["full", "cpu"]
ROWS: dict[str, tuple[str, EmbeddingKind]] = {
    "AED": ("translate-tiny-aed", "none"),
    "Transformer + tpe": ("translate-tiny-real", "tpe"),
    "Transformer + rope": ("translate-tiny-real", "rope"),
    "complex-vanilla": ("translate-tiny-complex", "complex-vanilla"),
    "complex-order": ("translate-tiny-complex", "complex-order"),
    "complex-order, chosen": ("translate-tiny-complex-chosen", "complex-order"),
}
"""The recipe and the embedding of each row; all have as many parameters within a hundredth."""


CPU = {
    "max_steps": 8000,
    "batch_size": 1024,
    "accumulate": 1,
    "learning_rate": 0.003,
    "schedule": "one-cycle",
    "warm_up": 0.1,
    "beta2": 0.98,
    "dropout": 0.15,
    "judge_every": 400,
    "average": 5,
}
"""What one core can do in an hour a row; the recipes read eight times as many words."""


class _Score(TypedDict):
    value: float
    signature: str
    interval: Annotated[list[float], lambda ends: len(ends) == 2]


class _Scores(TypedDict):
    bleu: _Score
    tokenised_bleu: _Score
    chrf: _Score


class _Point(TypedDict):
    step: int
    dev_likelihood: float
    dev_bleu: float | None


class _FirstRelease(TypedDict, total=False):
    test_first_release: _Scores


class _Table5Record(LongRecord, _FirstRelease):
    test: _Scores
    bleu_counts: Annotated[
        list[Annotated[list[int], lambda counts: len(counts) == 10]],
        len,
    ]
    curve: list[_Point]


class _ChoiceRecord(LongRecord):
    dev_surprise: float


@dataclass(frozen=True)
class Table5(LongTable):
    """What is run and where.

    Args:
        out: gets the records, the run folders, the table and the curves.
        size: `"full"` for the recipes, `"cpu"` for shorter trainings on smaller batches.
        data: `"multi30k"`, or `"built-in"` to try it without a download.
        rows: which of `ROWS`.
        steps: updates of every row instead of the recipe's.
        seeds: how many.
        changes: other training or model settings for all rows, such as {"batch_size": 1024}.
    """

    size: Size = "full"
    data: str = "multi30k"
    rows: tuple[str, ...] = tuple(ROWS)
    steps: int | None = None
    seeds: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    figures: ClassVar[type] = _Table5Record
    choice_figures: ClassVar[type] = _ChoiceRecord

    def __post_init__(self) -> None:
        for row in self.rows:
            if row not in ROWS:
                raise ValueError(f"rows must be among {', '.join(ROWS)}, got {row!r}")
        if len(set(self.rows)) < max(len(self.rows), 1):
            raise ValueError(f"rows must name at least one, and each once, got {self.rows}")
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def cells(self) -> list[LongCell]:
        """All trainings."""
        return [
            LongCell(row, seed, self.config(row, seed))
            for seed in range(self.seeds)
            for row in self.rows
        ]

    def config(self, row: str, seed: int = 0) -> TranslateConfig:
        """The settings of a row."""
        recipe, embedding = ROWS[row]
        config = read_recipe(recipe, TranslateConfig)
        changes = {**(CPU if self.size == "cpu" else {}), **dict(self.changes)}
        if self.steps is not None:
            changes["max_steps"] = self.steps
        of_model = {k: changes.pop(k) for k in list(changes) if hasattr(config.model, k)}
        of_text = {k: changes.pop(k) for k in list(changes) if hasattr(config.text, k)}
        return TranslateConfig(
            replace(config.data, data=self.data),
            replace(config.text, **of_text),
            replace(config.model, embedding=embedding, **of_model),
            replace(config.training, seed=seed, **changes),
        )

    def configs(self) -> dict[str, TranslateConfig]:
        return {row: self.config(row) for row in self.rows}

    def training(self, row: str) -> Training:
        from wordwave.tasks.translate import prepare
        from wordwave.tasks.translate_config import load_pairs
        from wordwave.training.loop import Training

        config = self.configs()[row]
        prepared = prepare(config, load_pairs(config.data))
        return Training(prepared.translator.model, prepared.task, config.training)

    def words_per_step(self, row: str) -> int:
        training = self.configs()[row].training
        return training.batch_size * training.accumulate

    def n_parameters(self, row: str) -> int:
        import torch

        from wordwave.models.classifier import count_parameters
        from wordwave.models.translation import translation_model

        config = self.configs()[row]
        with torch.device("meta"):  # shapes alone, no memory
            return count_parameters(translation_model(config.model, config.text.bpe_size))

    def train(self, cell: LongCell) -> Record:
        from wordwave.tasks.translate import read_said, scored
        from wordwave.tasks.translate_config import first_release_targets, load_pairs
        from wordwave.tasks.translation_scores import bleu_counts
        from wordwave.tasks.translator import Translator

        pairs = load_pairs(cell.config.data)
        assert pairs.test is not None
        record = self.trained(cell, pairs)
        translator, said = Translator.load(self.folder(cell)), read_said(self.folder(cell))
        target = translator.pieces.target
        wanted = [target.tokenised(text) for text in pairs.test.targets]
        record["bleu_counts"] = bleu_counts([s.tokenised for s in said], wanted)
        first = first_release_targets(cell.config.data)
        if first is not None:
            record["test_first_release"] = scored(translator, said, first).plain()
        return record

    def trained(self, cell: LongCell, pairs: ParallelParts) -> Record:
        """Train in a run folder of its own, so that it goes on where it was."""
        import torch

        from wordwave.tasks.prepared import train
        from wordwave.tasks.run_folder import finished
        from wordwave.tasks.translate import Result, check_same_run, prepare
        from wordwave.training.journal import read_journal

        torch.set_num_threads(1)
        folder = self.folder(cell)
        check_same_run(cell.config, folder)
        result = finished(folder, Result) or train(prepare(cell.config, pairs), folder)
        names = ("step", "seconds", "dev_likelihood", "dev_bleu")
        journal = read_journal(folder / "metrics.jsonl")
        curve = [{name: r.get(name) for name in names} for r in journal]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}
