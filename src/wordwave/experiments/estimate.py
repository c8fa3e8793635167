"""How long cells will take: by what like ones took, or by a short trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from wordwave.experiments.cells import Cell
from wordwave.experiments.protocol import Protocol, parts_of
from wordwave.experiments.store import Record

OVERHEAD = 4.0
"""Seconds to read a data set and its vectors, and to score."""
ANCHOR_SECONDS = 10.0
CALIBRATION_STEPS = 8

Kind = tuple[str, bool]
"""Encoder, and whether it is complex."""


@dataclass
class Estimate:
    """Seconds of a cell on one core."""

    protocol: Protocol
    records: Sequence[Record]
    _speeds: dict[Kind, float] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)

    def seconds(self, cell: Cell) -> float:
        """What like cells took; else words to read by words a second."""
        for like in self._like(cell):
            if like in self._seconds:
                return fmean(self._seconds[like])
        if cell.is_anchor:
            return ANCHOR_SECONDS
        epochs = fmean(
            self._epochs.get(
                (cell.dataset, cell.encoder), [self.protocol.config(cell).training.epochs]
            )
        )
        factor = 2.0 if cell.variant == "matched" else 1.0
        return OVERHEAD + factor * epochs * self.words(cell.dataset) / self.speed(cell)

    def total(self, cells: Iterable[Cell], n_jobs: int) -> float:
        """Seconds until all are done by n_jobs at once."""
        return sum(map(self.seconds, cells)) / n_jobs

    def words(self, dataset: str) -> int:
        """Words of the training part."""
        if dataset not in self._words:
            texts = parts_of(dataset).train.texts
            self._words[dataset] = sum(len(text.split()) for text in texts)
        return self._words[dataset]

    def speed(self, cell: Cell) -> float:
        """Words a second of the encoder over this field, of a record or measured now."""
        kind = _kind(cell.encoder, cell.embedding)
        if kind not in self._speeds:
            known = [
                r["words_per_second"]
                for r in self._runs
                if "words_per_second" in r and _kind(r["encoder"], r["embedding"]) == kind
            ]
            self._speeds[kind] = fmean(known) if known else measured_speed(self.protocol, cell)
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

    from wordwave.tasks.classify import prepare
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
