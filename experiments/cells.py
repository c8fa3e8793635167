"""The trainings that tables are made of. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from experiments.anchors import ANCHORS
from wordwave.models.config import EMBEDDINGS, ENCODERS, goes_with

DATASETS = ("mr", "subj", "cr", "mpqa", "sst2", "trec")
WAVES = "complex-order"
SENTENCES = "sst2-sentences"
"""SST-2 with the 6,920 whole sentences to learn from in the place of the 67,349 phrases."""
WITH_FOLDS = ("mr", "subj", "cr", "mpqa")

Rows = Literal["paper", "matched", "anchors"]

_SHARING: dict[str, dict[str, Any]] = {
    "dimension-sharing-period": {"share_frequency": "dim"},
    "word-sharing-period": {"share_frequency": "word"},
    "dimension-sharing-amplitude": {"share_amplitude": "dim"},
    "word-sharing-amplitude": {"share_amplitude": "word"},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "matched": {},  # its widths follow from the data; see experiments.training_runs
    "initial-phases": {"phase": True},
    "damping": {"damping": True},
    "magnitude-scores": {"score": "magnitude"},
    **_SHARING,
    "tied": {"share": "tied"},
    "real": {"share": "real"},
    **{f"{name}+tied": {**model, "share": "tied"} for name, model in _SHARING.items()},
}
"""What a variant changes in the model. Table 4 is made of them."""


@dataclass(frozen=True)
class Cell:
    """One training: a row of a table, on one fold of one data set, with one seed."""

    dataset: str
    encoder: str
    """Or the name of an anchor."""
    embedding: str
    variant: str = "paper"
    fold: int = 0
    seed: int = 0

    @property
    def is_anchor(self) -> bool:
        return self.encoder in ANCHORS


def table2_cells(
    *,
    datasets: Iterable[str] = DATASETS,
    encoders: Iterable[str] = ENCODERS,
    embeddings: Iterable[str] = EMBEDDINGS,
    rows: Iterable[Rows] = get_args(Rows),
    folds: int = 10,
    seeds: int = 1,
) -> list[Cell]:
    """Every row on every data set, once on all of them before the next fold or seed."""
    kinds = {(encoder, embedding) for encoder in encoders for embedding in embeddings}
    kinds = {k for k in kinds if goes_with(k[1], k[0])}
    ordered = sorted(kinds, key=lambda k: (ENCODERS.index(k[0]), EMBEDDINGS.index(k[1])))
    found = []
    for seed in range(seeds):
        for fold in range(folds):
            for dataset in datasets:
                if fold and dataset not in WITH_FOLDS:
                    continue
                if "paper" in rows:
                    found += [Cell(dataset, *kind, "paper", fold, seed) for kind in ordered]
                if "matched" in rows:
                    smaller = [k for k in ordered if not k[1].startswith("complex")]
                    found += [Cell(dataset, *kind, "matched", fold, seed) for kind in smaller]
                if "anchors" in rows:
                    drawn = [name for name in ANCHORS if seed == 0 or name == "fasttext-library"]
                    found += [Cell(dataset, name, "none", "paper", fold, seed) for name in drawn]
    return found


TABLE4 = (
    ("complex-order", "paper"),
    ("complex-order", "initial-phases"),
    *(("complex-order", name) for name in _SHARING),
    ("complex-vanilla", "paper"),
    *(("complex-order", f"{name}+tied") for name in _SHARING),
    ("complex-vanilla", "tied"),
    ("tpe", "paper"),
    ("complex-order", "tied"),
    ("complex-order", "real"),
    ("complex-order", "damping"),
    ("complex-order", "magnitude-scores"),
    ("tpe", "matched"),
)
"""Embedding and variant of its rows; the last five are not in the paper's table."""


def table4_cells(dataset: str = "sst2", seeds: int = 1) -> list[Cell]:
    """The ablation of the Transformer."""
    return [Cell(dataset, "transformer", *row, 0, seed) for seed in range(seeds) for row in TABLE4]
