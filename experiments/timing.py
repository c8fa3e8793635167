"""How long trainings take: Fig. 5 (seconds per epoch), and estimates before a grid is run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from experiments.cells import TrainingCell
from experiments.protocol import Protocol, load_cell_splits
from experiments.records import provenance
from experiments.summary import file_name, protocol_notes
from wordwave.models.config import ENCODERS
from wordwave.tables import Content, ResultTable
from wordwave.training.config import DEFAULT_EPOCHS

if TYPE_CHECKING:
    from wordwave.grid import Record

OVERHEAD = 4.0
"""Seconds to load a data set and its vectors, and to evaluate."""
ANCHOR_SECONDS = 10.0
CALIBRATION_STEPS = 8
WORDS = {
    "mr": 181_224,
    "subj": 194_896,
    "cr": 61_153,
    "mpqa": 26_416,
    "sst2": 633_724,
    "sst2-sentences": 133_555,
    "trec": 50_082,
}
"""Words of each training set."""
WORDS_PER_SECOND = {
    ("fasttext", False): 88_000.0,
    ("fasttext", True): 50_000.0,
    ("cnn", False): 15_000.0,
    ("cnn", True): 5_400.0,
    ("lstm", False): 12_700.0,
    ("lstm", True): 4_100.0,
    ("transformer", False): 9_700.0,
    ("transformer", True): 4_200.0,
}
"""On one core, by encoder and whether it is complex: means of results/reproduce/records.jsonl."""


@dataclass(frozen=True)
class EpochTiming:
    """Fig. 5: the speed of every encoder and embedding on one data set, in one process.

    The rows of an encoder take turns, so that other load on the machine slows all of them alike.
    """

    protocol: Protocol
    dataset: str
    rows: tuple[tuple[str, str], ...]
    """Encoder and embedding of each row."""
    rounds: int = 5
    steps: int = 20

    def key(self) -> Record:
        """One record for all rows."""
        cells = {
            " ".join(row): self.protocol.settings(TrainingCell(self.dataset, *row))
            for row in self.rows
        }
        return {
            "kind": "timing",
            "dataset": self.dataset,
            "encoder": "all",
            "embedding": "all",
            "variant": "paper",
            "fold": 0,
            "seed": 0,
            **self.protocol.common_key(),
            "settings": {"rounds": self.rounds, "steps": self.steps, "cells": cells},
        }

    def run(self) -> Iterator[Record | None]:
        """Yields `None` after each measurement, and the record at the end."""
        import torch

        torch.set_num_threads(1)
        splits = replace(load_cell_splits(self.dataset), dev=None, test=None)
        measured: list[Record] = []
        words = 0
        for encoder in dict.fromkeys(encoder for encoder, _ in self.rows):
            # The models of all encoders at once would take gigabytes.
            trainings = {
                row: _training(self.protocol, TrainingCell(self.dataset, *row), splits)
                for row in self.rows
                if row[0] == encoder
            }
            speeds: dict[tuple[str, str], list[float]] = {row: [] for row in trainings}
            for _ in range(self.rounds + 1):
                for row, training in trainings.items():
                    speeds[row].append(_speed(training, self.steps))
                    words = int(training.task.train.sentences.lengths.sum())
                    yield None
            measured += [_measured(row, t, speeds[row]) for row, t in trainings.items()]
        yield {**self.key(), "words_per_epoch": words, "measured": measured, **provenance()}

    @property
    def n_measurements(self) -> int:
        return len(self.rows) * (self.rounds + 1)


def _training(protocol: Protocol, cell: TrainingCell, splits: Any) -> Any:
    from wordwave.tasks.classification_job import ClassificationJob

    return ClassificationJob(protocol.config(cell)).prepare(splits).training()


def _speed(training: Any, n_steps: int) -> float:
    """Words per CPU second over some steps of an epoch."""
    from wordwave.training.loop import Progress

    if training.is_over:
        training.progress = Progress()
    before, start = training.progress.n_words, time.process_time()
    steps = training.run()
    for n, _ in enumerate(steps, start=1):
        if n >= n_steps:
            break
    steps.close()
    words = training.progress.n_words - before  # of steps that were taken at once, of all of them
    return words / max(time.process_time() - start, 1e-9)


def _measured(row: tuple[str, str], training: Any, speeds: list[float]) -> Record:
    from wordwave.models.utils import count_parameters

    return {
        "encoder": row[0],
        "embedding": row[1],
        "words_per_second": [max(1, round(s)) for s in speeds[1:]],  # the first round is warm-up
        "parameters": count_parameters(training.model),
    }


def epoch_seconds(record: Record) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Median, minimum and maximum seconds per epoch, by encoder and embedding."""
    found = {}
    for row in record["measured"]:
        times = [record["words_per_epoch"] / speed for speed in row["words_per_second"]]
        found[row["encoder"], row["embedding"]] = (median(times), min(times), max(times))
    return found


def find_timing(records: Iterable[Record], protocol: Protocol) -> Record | None:
    """The last measurement under the protocol."""
    common = protocol.common_key()

    def belongs(record: Record) -> bool:
        if record.get("kind") != "timing" or any(record[k] != v for k, v in common.items()):
            return False
        cells = {
            TrainingCell(record["dataset"], *name.split()): settings
            for name, settings in record["settings"]["cells"].items()
        }
        return all(protocol.covers(c) and protocol.settings(c) == s for c, s in cells.items())

    own = [record for record in records if belongs(record)]
    return own[-1] if own else None


def fig5_table(record: Record, protocol: Protocol) -> ResultTable:
    """Seconds per epoch, and as a multiple of the same encoder without positions."""
    seconds = epoch_seconds(record)
    parameters = {(r["encoder"], r["embedding"]): r["parameters"] for r in record["measured"]}
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        own = [row for row in seconds if row[0] == encoder]
        if own:
            rows.append([encoder])
        for row in own:
            middle, low, high = seconds[row]
            none = seconds.get((encoder, "none"))
            ratio = None if none is None else f"{middle / none[0]:.2f}×"
            rows.append(
                [row[1], f"{middle:.2f}", f"{low:.2f} to {high:.2f}", ratio, parameters[row]]
            )
    settings = record["settings"]
    notes = [
        f"Median of {settings['rounds']} rounds of {settings['steps']} steps each; the embeddings "
        "of an encoder take turns, all in one process on one core; "
        f"{record['words_per_epoch']:,} words per epoch.",
        "All embeddings have the same dimension; a complex one computes with twice as many real "
        "numbers.",
        *protocol_notes(protocol),
    ]
    return ResultTable(
        file_name("fig5", protocol),
        f"Fig. 5. Seconds per epoch on {record['dataset']}",
        ["", "seconds", "range", "vs. none", "parameters"],
        rows,
        notes,
    )


def timed_rows(cells: Iterable[TrainingCell]) -> tuple[tuple[str, str], ...]:
    """The paper's rows among cells: encoder and embedding."""
    return tuple(dict.fromkeys((c.encoder, c.embedding) for c in cells if c.variant == "paper"))


@dataclass
class Estimate:
    """CPU seconds of a cell on one core: from similar records, else from words per second.

    Args:
        measures: load the data, and time a few steps of what no record tells; else use constants
            of a typical core, which need neither data nor time.
    """

    protocol: Protocol
    records: Sequence[Record]
    measures: bool = True
    _speeds: dict[tuple[str, bool], float] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _epochs: dict[TrainingCell, int] = field(default_factory=dict)

    def seconds(self, cell: TrainingCell) -> float:
        """Of one training."""
        for similar in _similar(cell.dataset, cell.encoder, cell.embedding, cell.variant):
            if similar in self._recorded_seconds:
                return fmean(self._recorded_seconds[similar])
        if cell.is_anchor:
            return ANCHOR_SECONDS
        known = self._recorded_epochs.get((cell.dataset, cell.encoder))
        epochs = fmean(known) if known else self._max_epochs(replace(cell, fold=0, seed=0))
        factor = 2.0 if cell.variant == "matched" else 1.0
        return OVERHEAD + factor * epochs * self.words(cell.dataset) / self.speed(cell)

    def words(self, dataset: str) -> int:
        """Words of the training set."""
        if not self.measures:
            return WORDS[dataset]
        if dataset not in self._words:
            texts = load_cell_splits(dataset).train.texts
            self._words[dataset] = sum(len(text.split()) for text in texts)
        return self._words[dataset]

    def speed(self, cell: TrainingCell) -> float:
        """Words per second of the encoder, real or complex."""
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
                self._speeds[kind] = WORDS_PER_SECOND[kind]
        return self._speeds[kind]

    def _max_epochs(self, row: TrainingCell) -> int:
        """Of the configuration, which folds and seeds share."""
        if row not in self._epochs:
            self._epochs[row] = self.protocol.config(row).training.epochs or DEFAULT_EPOCHS
        return self._epochs[row]

    @cached_property
    def _runs(self) -> list[Record]:
        budget = self.protocol.budget
        return [r for r in self.records if r.get("kind") == "run" and r["budget"] == budget]

    @cached_property
    def _recorded_seconds(self) -> dict[tuple[object, ...], list[float]]:
        found: dict[tuple[object, ...], list[float]] = {}
        for r in self._runs:
            seconds = float(r.get("cpu_seconds") or r["seconds"]) + OVERHEAD
            for name in _similar(r["dataset"], r["encoder"], r["embedding"], r["variant"]):
                found.setdefault(name, []).append(seconds)
        return found

    @cached_property
    def _recorded_epochs(self) -> dict[tuple[str, str], list[int]]:
        """Early stopping makes the epochs of a recipe an upper bound."""
        found: dict[tuple[str, str], list[int]] = {}
        for r in self._runs:
            if "epochs" in r:
                found.setdefault((r["dataset"], r["encoder"]), []).append(r["epochs"])
        return found


def _similar(dataset: str, encoder: str, embedding: str, variant: str) -> list[tuple[object, ...]]:
    """Trainings that take about as long: the same row, then the same kind of encoder."""
    kind = _kind(encoder, embedding)
    return [(dataset, encoder, embedding, variant), (dataset, *kind, variant == "matched")]


def _kind(encoder: str, embedding: str) -> tuple[str, bool]:
    return encoder, embedding.startswith("complex")


def measured_speed(protocol: Protocol, cell: TrainingCell) -> float:
    """Words per CPU second over a few training steps on the cell's own data."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    splits = load_cell_splits(cell.dataset)
    some = splits.train.subset(range(0, len(splits.train), max(1, len(splits.train) // 2000)))
    training = _training(protocol, cell, replace(splits, train=some, dev=None, test=None))
    _speed(training, 1)  # warm-up
    speed = _speed(training, CALIBRATION_STEPS)
    torch.set_num_threads(threads)
    return max(speed, 1.0)
