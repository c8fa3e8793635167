"""Fig. 5: seconds an epoch of every encoder and embedding, measured in turns in one run.

In turns, so that whatever else the machine does slows all rows alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.cells import Cell
from experiments.protocol import Protocol, commit, parts_of, versions
from experiments.statistics import named, terms_of
from wordwave.models.config import ENCODERS
from wordwave.tables import Content, Grid

if TYPE_CHECKING:
    from wordwave.grid import Record


@dataclass(frozen=True)
class Timing:
    """What is measured: cells on one data set, so many rounds of so many steps each."""

    protocol: Protocol
    dataset: str
    kinds: tuple[tuple[str, str], ...]
    """Encoder and embedding of each row."""
    rounds: int = 5
    steps: int = 20

    def key(self) -> Record:
        """One record for the whole run."""
        cells = {f"{e} {k}": self.protocol.how(Cell(self.dataset, e, k)) for e, k in self.kinds}
        how = {"rounds": self.rounds, "steps": self.steps, "cells": cells}
        whole = Cell(self.dataset, "all", "all")
        return {
            "kind": "timing",
            "dataset": self.dataset,
            "encoder": whole.encoder,
            "embedding": whole.embedding,
            "variant": whole.variant,
            "fold": 0,
            "seed": 0,
            **self.protocol.terms(),
            "how": how,
        }

    def run(self) -> Iterator[Record | None]:
        """Yields `None` after each measurement, at last the record."""
        import torch

        torch.set_num_threads(1)
        parts = replace(parts_of(self.dataset), dev=None, test=None)
        measured: list[Record] = []
        words = 0
        for encoder in dict.fromkeys(encoder for encoder, _ in self.kinds):
            # All models of all encoders at once would take gigabytes.
            trainings = {
                kind: self._training(Cell(self.dataset, *kind), parts)
                for kind in self.kinds
                if kind[0] == encoder
            }
            speeds: dict[tuple[str, str], list[float]] = {kind: [] for kind in trainings}
            for _ in range(self.rounds + 1):
                for kind, training in trainings.items():
                    speeds[kind].append(_speed(training, self.steps))
                    words = int(training.task.train.sentences.lengths.sum())
                    yield None
            measured += [_measured(kind, t, speeds[kind]) for kind, t in trainings.items()]
        yield {
            **self.key(),
            "words_per_epoch": words,
            "measured": measured,
            "versions": versions(),
            "commit": commit(),
        }

    @property
    def n_measurements(self) -> int:
        return len(self.kinds) * (self.rounds + 1)

    def _training(self, cell: Cell, parts: Any) -> Any:
        from wordwave.tasks.classification import prepare
        from wordwave.training.loop import Training

        config = self.protocol.config(cell)
        prepared = prepare(config, parts)
        return Training(prepared.classifier.model, prepared.task, config.training)


def _speed(training: Any, n_steps: int) -> float:
    """Words a second over some steps of an epoch, on this thread alone."""
    from wordwave.training.task import Progress, Step

    words, start = 0, time.process_time()
    if training.is_over:
        training.progress = Progress()
    steps = training.run()
    for n, report in enumerate(steps, start=1):
        words += report.n_words if isinstance(report, Step) else 0
        if n >= n_steps:
            break
    steps.close()
    return words / max(time.process_time() - start, 1e-9)


def _measured(kind: tuple[str, str], training: Any, speeds: list[float]) -> Record:
    from wordwave.models.classifier import count_parameters

    return {
        "encoder": kind[0],
        "embedding": kind[1],
        "words_per_second": [max(1, round(s)) for s in speeds[1:]],  # the first round warms up
        "parameters": count_parameters(training.model),
    }


def epoch_seconds(record: Record) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Median, least and most seconds of an epoch by encoder and embedding."""
    found = {}
    for row in record["measured"]:
        times = [record["words_per_epoch"] / speed for speed in row["words_per_second"]]
        found[row["encoder"], row["embedding"]] = (median(times), min(times), max(times))
    return found


def timing_in(records: Iterable[Record], protocol: Protocol) -> Record | None:
    """The last measurement of what the protocol would train."""
    terms = protocol.terms()
    own = [
        r
        for r in records
        if r.get("kind") == "timing"
        and all(r[k] == v for k, v in terms.items())
        and all(protocol.knows(c) and protocol.how(c) == how for c, how in _timed_cells(r))
    ]
    return own[-1] if own else None


def _timed_cells(record: Record) -> Iterator[tuple[Cell, Record]]:
    for name, how in record["how"]["cells"].items():
        yield Cell(record["dataset"], *name.split()), how


def fig5_table(record: Record, protocol: Protocol) -> Grid:
    """Seconds, and how many times those of the same encoder without positions."""
    seconds = epoch_seconds(record)
    parameters = {(r["encoder"], r["embedding"]): r["parameters"] for r in record["measured"]}
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        own = [kind for kind in seconds if kind[0] == encoder]
        if own:
            rows.append([encoder])
        for kind in own:
            middle, low, high = seconds[kind]
            plain = seconds.get((encoder, "none"))
            ratio = None if plain is None else f"{middle / plain[0]:.2f}×"
            spread = f"{low:.2f} to {high:.2f}"
            rows.append([kind[1], f"{middle:.2f}", spread, ratio, parameters[kind]])
    how = record["how"]
    notes = [
        f"Median of {how['rounds']} rounds of {how['steps']} steps each, the embeddings of "
        f"an encoder in turns, all in one run on one core; {record['words_per_epoch']:,} words "
        "an epoch.",
        "Each embedding has the same width in its own numbers: a complex one computes with twice "
        "as many real numbers.",
        *terms_of(protocol),
    ]
    return Grid(
        named("fig5", protocol),
        f"Fig. 5. Seconds an epoch on {record['dataset']}",
        ["", "seconds", "range", "to none", "parameters"],
        rows,
        notes,
    )


def timing_kinds(cells: Iterable[Cell]) -> tuple[tuple[str, str], ...]:
    """The rows of the paper among cells."""
    return tuple(dict.fromkeys((c.encoder, c.embedding) for c in cells if c.variant == "paper"))
