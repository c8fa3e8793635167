"""The trainings that the classification tables consist of. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from experiments.anchors import ANCHORS
from wordwave.embedding.config import COMPARED, EMBEDDING_KINDS
from wordwave.models.config import ENCODERS, goes_with

DATASETS = ("mr", "subj", "cr", "mpqa", "sst2", "trec")
SST2_SENTENCES = "sst2-sentences"
"""SST-2 trained on its 6,920 whole sentences instead of its 67,349 phrases."""
CROSS_VALIDATED = ("mr", "subj", "cr", "mpqa")
"""Data sets without a test set of their own: ten folds."""
COMPLEX_ORDER = "complex-order"

Rows = Literal["paper", "matched", "anchors", "variants"]

_SHARING: dict[str, dict[str, Any]] = {
    "dimension-sharing-period": {"share_frequency": "dim"},
    "word-sharing-period": {"share_frequency": "word"},
    "dimension-sharing-amplitude": {"share_amplitude": "dim"},
    "word-sharing-amplitude": {"share_amplitude": "word"},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "matched": {},  # its widths depend on the data; see experiments.training_runs
    "initial-phases": {"phase": True},
    "damping": {"damping": True},
    "magnitude-scores": {"score": "magnitude"},
    **_SHARING,
    "tied": {"share": "tied"},
    "real": {"share": "real"},
    **{f"{name}+tied": {**model, "share": "tied"} for name, model in _SHARING.items()},
    # What the paper describes, and Table 2 has beside its rows.
    "complex-head": {"readout": "logit-magnitude"},
    "narrow": {"padding": "narrow"},
    "rnn": {"encoder": "rnn"},
    "batch-norm": {"normalization": "batch"},
    "trainable-sinusoids": {"train_sinusoids": True},
    "real-layers": {"layers": "real", "readout": "concat", "share": "none", "score": "real"},
}
"""The model settings that each variant changes."""


TABLE2_VARIANTS: tuple[tuple[str, str, str], ...] = (
    *((encoder, COMPLEX_ORDER, "complex-head") for encoder in ENCODERS),
    *((encoder, "tpe", "trainable-sinusoids") for encoder in ENCODERS),
    *(("cnn", embedding, "narrow") for embedding in ("none", COMPLEX_ORDER)),
    *(("lstm", embedding, "rnn") for embedding in ("none", COMPLEX_ORDER)),
    *(("transformer", embedding, "batch-norm") for embedding in ("tpe", COMPLEX_ORDER)),
    *((encoder, COMPLEX_ORDER, "real-layers") for encoder in ("cnn", "transformer")),
)
"""Encoder, embedding and variant of what the paper describes without a row: the norms of a complex
dense layer as logits, sinusoids whose frequencies are learned, narrow windows, the basic RNN, batch
normalization of each part, and waves as real vectors of twice the width."""


@dataclass(frozen=True)
class TrainingCell:
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


def cell_of(record: Mapping[str, Any]) -> TrainingCell:
    """The cell that a record is the result of."""
    names = ("dataset", "encoder", "embedding", "variant", "fold", "seed")
    return TrainingCell(*(record[name] for name in names))


def table2_cells(
    *,
    datasets: Iterable[str] = DATASETS,
    encoders: Iterable[str] = ENCODERS,
    embeddings: Iterable[str] = COMPARED,
    rows: Iterable[Rows] = ("paper", "matched", "anchors"),
    folds: int = 10,
    seeds: int = 1,
) -> list[TrainingCell]:
    """Every row on every data set; all rows once before the next fold or seed."""
    kinds = {(encoder, embedding) for encoder in encoders for embedding in embeddings}
    kinds = {k for k in kinds if goes_with(k[1], k[0])}
    ordered = sorted(kinds, key=lambda k: (ENCODERS.index(k[0]), EMBEDDING_KINDS.index(k[1])))
    real = [k for k in ordered if not k[1].startswith("complex")]
    variants = [row for row in TABLE2_VARIANTS if row[:2] in kinds]
    cells = []
    for seed in range(seeds):
        # The linear anchors do not depend on a seed.
        anchors = [name for name in ANCHORS if seed == 0 or name == "fasttext-library"]
        for fold in range(folds):
            for dataset in datasets:
                if fold and dataset not in CROSS_VALIDATED:
                    continue
                if "paper" in rows:
                    cells += [TrainingCell(dataset, *k, "paper", fold, seed) for k in ordered]
                if "matched" in rows:
                    cells += [TrainingCell(dataset, *k, "matched", fold, seed) for k in real]
                if "variants" in rows:
                    cells += [TrainingCell(dataset, *row, fold, seed) for row in variants]
                if "anchors" in rows:
                    cells += [
                        TrainingCell(dataset, name, "none", "paper", fold, seed) for name in anchors
                    ]
    return cells


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


def table4_cells(dataset: str = "sst2", seeds: int = 1) -> list[TrainingCell]:
    """The ablation of the Transformer."""
    return [
        TrainingCell(dataset, "transformer", *row, 0, seed)
        for seed in range(seeds)
        for row in TABLE4
    ]


def table7_cells(
    datasets: Iterable[str], encoders: Iterable[str], seeds: int
) -> list[TrainingCell]:
    """Complex-order under each encoder on SST-2."""
    dataset = SST2_SENTENCES if SST2_SENTENCES in datasets else "sst2"
    return [
        TrainingCell(dataset, encoder, COMPLEX_ORDER, "paper", 0, seed)
        for seed in range(seeds)
        for encoder in encoders
    ]
