"""Table 5 of the paper: translation, real and with waves, at equal parameters and updates.

Selection sees the dev part only; the test part is translated once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wordwave.experiments.parallel import run_missing
from wordwave.experiments.store import Record, Store
from wordwave.models.config import EmbeddingKind
from wordwave.plain import to_plain
from wordwave.recipes.translation import read_translation_recipe
from wordwave.tasks.translate_config import TranslateConfig

KEY = ("row", "seed", "config")
ROWS: dict[str, tuple[str, EmbeddingKind]] = {
    "AED": ("translate-tiny-aed", "none"),
    "Transformer + tpe": ("translate-tiny-real", "tpe"),
    "Transformer + rope": ("translate-tiny-real", "rope"),
    "complex-vanilla": ("translate-tiny-complex", "complex-vanilla"),
    "complex-order": ("translate-tiny-complex", "complex-order"),
}
"""The recipe and the embedding of each row; all have as many parameters within a hundredth."""


@dataclass(frozen=True)
class TranslationCell:
    """One training."""

    row: str
    seed: int
    config: TranslateConfig

    @property
    def name(self) -> str:
        row = self.row.lower().replace(" + ", "-")
        return f"{row}-{self.config.training.max_steps}-{self.seed}"


@dataclass(frozen=True)
class Table5:
    """What is run and where.

    Args:
        out: gets the records, the run folders, the table and the curves.
        data: `"multi30k"`, or `"built-in"` to try it without a download.
        rows: which of `ROWS`.
        steps: updates of every row instead of the recipe's.
        seeds: how many.
        changes: other training or model settings for all rows, such as {"batch_size": 1024}.
    """

    out: Path
    data: str = "multi30k"
    rows: tuple[str, ...] = tuple(ROWS)
    steps: int | None = None
    seeds: int = 1
    changes: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if row not in ROWS:
                raise ValueError(f"rows must be among {', '.join(ROWS)}, got {row!r}")
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    @property
    def store(self) -> Store:
        return Store(self.out / "records.jsonl", KEY)

    def cells(self) -> list[TranslationCell]:
        """All trainings."""
        return [
            TranslationCell(row, seed, self.config(row, seed))
            for seed in range(self.seeds)
            for row in self.rows
        ]

    def config(self, row: str, seed: int = 0) -> TranslateConfig:
        """The settings of a row."""
        recipe, embedding = ROWS[row]
        config = read_translation_recipe(recipe)
        changes = dict(self.changes)
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

    def run(self, n_jobs: int = 1) -> Iterator[Record]:
        """Run what is missing, one thread each; a record for each training as it ends."""
        yield from run_missing(self.cells(), self.train, self.store, key=_key, n_jobs=n_jobs)

    def records(self) -> list[Record]:
        """What is there of these trainings."""
        wanted = {self.store.key_of(_key(cell)) for cell in self.cells()}
        return [r for r in self.store.records() if self.store.key_of(r) in wanted]

    def train(self, cell: TranslationCell) -> Record:
        """Train in a run folder of its own, so that it goes on where it was."""
        import torch

        from wordwave.data.parallel_text import first_release_targets
        from wordwave.tasks.run_folder import check_same, finished
        from wordwave.tasks.translate import prepare, read_said, scored, train
        from wordwave.tasks.translate_config import load_pairs
        from wordwave.tasks.translator import Translator
        from wordwave.training.journal import read_journal

        torch.set_num_threads(1)
        folder = self.out / "runs" / cell.name
        check_same(folder, "translate", cell.config)
        result = finished(folder)
        if result is None:
            result = train(cell.config, prepare(cell.config, load_pairs(cell.config.data)), folder)
        first = first_release_targets(self.data)
        if first is not None:
            scores = scored(Translator.load(folder), read_said(folder), first)
            result = {**result, "test_first_release": scores.plain()}
        names = ("step", "seconds", "dev_likelihood", "dev_bleu")
        journal = read_journal(folder / "metrics.jsonl")
        curve = [{name: r.get(name) for name in names} for r in journal]
        return {**_key(cell), **result, "curve": curve, "torch": torch.__version__}


def _key(cell: TranslationCell) -> Record:
    return {"row": cell.row, "seed": cell.seed, "config": to_plain(cell.config)}
