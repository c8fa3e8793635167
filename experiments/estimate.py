"""How long cells will take: by what like ones took, by a short trial, or by a typical core."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from experiments.cells import Cell
from experiments.protocol import Protocol, parts_of
from wordwave.grid import Record

OVERHEAD = 4.0
"""Seconds to read a data set and its vectors, and to score."""
ANCHOR_SECONDS = 10.0
CALIBRATION_STEPS = 8

Kind = tuple[str, bool]
"""Encoder, and whether it is complex."""
WORDS = {
    "mr": 181_224,
    "subj": 194_896,
    "cr": 61_153,
    "mpqa": 26_416,
    "sst2": 633_724,
    "sst2-sentences": 133_555,
    "trec": 50_082,
}
"""Of each training part."""
SPEEDS: dict[Kind, float] = {
    ("fasttext", False): 88_000,
    ("fasttext", True): 50_000,
    ("cnn", False): 15_000,
    ("cnn", True): 5_400,
    ("lstm", False): 12_700,
    ("lstm", True): 4_100,
    ("transformer", False): 9_700,
    ("transformer", True): 4_200,
}
"""Words a second on one core: means over the runs in results/reproduce/records.jsonl."""


@dataclass
class Estimate:
    """Seconds of a cell on one core.

    Args:
        measures: look at the data and time some steps where no record says how long they take; else
            figures of a typical core serve, which need neither data nor time.
    """

    protocol: Protocol
    records: Sequence[Record]
    measures: bool = True
    _speeds: dict[Kind, float] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _set: dict[Cell, int] = field(default_factory=dict)

    def seconds(self, cell: Cell) -> float:
        """What like cells took; else words to read by words a second."""
        for like in self._like(cell):
            if like in self._seconds:
                return fmean(self._seconds[like])
        if cell.is_anchor:
            return ANCHOR_SECONDS
        known = self._epochs.get((cell.dataset, cell.encoder))
        epochs = fmean(known) if known else self._epochs_set(replace(cell, fold=0, seed=0))
        factor = 2.0 if cell.variant == "matched" else 1.0
        return OVERHEAD + factor * epochs * self.words(cell.dataset) / self.speed(cell)

    def _epochs_set(self, row: Cell) -> int:
        """Of the settings; folds and seeds share them, and a recipe is read once."""
        if row not in self._set:
            self._set[row] = self.protocol.config(row).training.epochs
        return self._set[row]

    def total(self, cells: Iterable[Cell], n_jobs: int) -> float:
        """Seconds until all are done by n_jobs at once."""
        return sum(map(self.seconds, cells)) / n_jobs

    def words(self, dataset: str) -> int:
        """Words of the training part."""
        if not self.measures:
            return WORDS[dataset]
        if dataset not in self._words:
            texts = parts_of(dataset).train.texts
            self._words[dataset] = sum(len(text.split()) for text in texts)
        return self._words[dataset]

    def speed(self, cell: Cell) -> float:
        """Words a second of the encoder over this field, by records or measured now."""
        kind = _kind(cell.encoder, cell.embedding)
        if kind not in self._speeds:
            known = [
                r["words_per_second"]
                for r in self._runs
                if "words_per_second" in r and _kind(r["encoder"], r["embedding"]) == kind
            ]
            if known:
                self._speeds[kind] = fmean(known)
            elif self.measures:
                self._speeds[kind] = measured_speed(self.protocol, cell)
            else:
                self._speeds[kind] = SPEEDS[kind]
        return self._speeds[kind]

    @cached_property
    def _runs(self) -> list[Record]:
        return [
            r
            for r in self.records
            if r.get("kind") == "run" and r["budget"] == self.protocol.budget
        ]

    @cached_property
    def _seconds(self) -> dict[tuple[object, ...], list[float]]:
        found: dict[tuple[object, ...], list[float]] = {}
        for r in self._runs:
            place = (r["dataset"], r["encoder"], r["embedding"], r["variant"])
            took = float(r.get("cpu_seconds") or r["seconds"]) + OVERHEAD
            found.setdefault(place, []).append(took)
            kind = (r["dataset"], *_kind(r["encoder"], r["embedding"]), r["variant"] == "matched")
            found.setdefault(kind, []).append(took)
        return found

    @cached_property
    def _epochs(self) -> dict[tuple[str, str], list[int]]:
        """Early stopping makes the epochs of a recipe an upper bound."""
        found: dict[tuple[str, str], list[int]] = {}
        for r in self._runs:
            if "epochs" in r:
                found.setdefault((r["dataset"], r["encoder"]), []).append(r["epochs"])
        return found

    @staticmethod
    def _like(cell: Cell) -> list[tuple[object, ...]]:
        return [
            (cell.dataset, cell.encoder, cell.embedding, cell.variant),
            (
                cell.dataset,
                *_kind(cell.encoder, cell.embedding),
                cell.variant == "matched",
            ),
        ]


def _kind(encoder: str, embedding: str) -> Kind:
    return encoder, embedding.startswith("complex")


def measured_speed(protocol: Protocol, cell: Cell) -> float:
    """Words a second over a few steps of training on the cell's own data."""
    import torch

    from wordwave.tasks.classification import prepare
    from wordwave.training.loop import Training
    from wordwave.training.task import Step

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    config = protocol.config(cell)
    parts = parts_of(cell.dataset)
    some = parts.train.subset(range(0, len(parts.train), max(1, len(parts.train) // 2000)))
    prepared = prepare(config, replace(parts, train=some, dev=None, test=None))
    steps = Training(prepared.classifier.model, prepared.task, config.training).run()
    words, start = 0, 0.0
    for n, report in enumerate(steps):
        if n == 1:  # the first step warms up
            start, words = time.process_time(), 0
        if isinstance(report, Step):
            words += report.n_words if n > 1 else 0
        if n > CALIBRATION_STEPS:
            break
    torch.set_num_threads(threads)
    return max(words, 1) / max(time.process_time() - start, 1e-6)
