"""Train one cell of the protocol, let dev select, score the test part once, and make its record."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from wordwave.experiments.answers import packed
from wordwave.experiments.cells import Cell
from wordwave.experiments.protocol import Protocol, parts_of
from wordwave.experiments.provenance import commit, versions
from wordwave.plain import to_plain

if TYPE_CHECKING:
    from wordwave.experiments.store import Record
    from wordwave.tasks.classifier import TextClassifier


@dataclass(frozen=True)
class CellRun:
    """What a worker is given: runs any cell under a protocol."""

    protocol: Protocol

    def __call__(self, cell: Cell) -> Record:
        if cell.is_anchor:
            return run_anchor(self.protocol, cell)
        return run_model(self.protocol, cell)[0]


def run_model(protocol: Protocol, cell: Cell) -> tuple[Record, TextClassifier]:
    """The record and the trained model, on one thread."""
    import torch

    from wordwave.experiments.matched import widened
    from wordwave.models.classifier import count_parameters
    from wordwave.tasks.classify import prepare
    from wordwave.tasks.scores import score
    from wordwave.tasks.sentences import logits_of
    from wordwave.training.loop import Training

    torch.set_num_threads(1)
    config, parts = protocol.config(cell), parts_of(cell.dataset, cell.fold)
    prepared = prepare(config, parts)
    if cell.variant == "matched":
        waves = protocol.config(replace(cell, embedding="complex-order", variant="paper"))
        prepared = widened(prepared, waves)
    classifier = prepared.classifier
    training = Training(classifier.model, prepared.task, config.training)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in training.run():
        pass
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert prepared.test is not None
    progress, targets = training.progress, prepared.test.targets
    said = logits_of(classifier.model, prepared.test.sentences).argmax(-1)
    scores = score(targets, said, classifier.labels)
    record = {
        **protocol.key(cell),
        "config": to_plain(classifier.config),
        "metric": "accuracy",
        "test_accuracy": scores.accuracy,
        "test_macro_f1": scores.macro_f1,
        "n_test": scores.n,
        "right": packed((said == targets).tolist()),
        "dev_accuracy": progress.best_score,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "words_per_second": round(progress.n_words / cpu),
        "parameters": count_parameters(classifier.model),
        "vocabulary": len(classifier.encoder.vocabulary),
        "versions": versions(),
        "commit": commit(),
    }
    return record, classifier


def run_anchor(protocol: Protocol, cell: Cell) -> Record:
    """The record of a linear model or of fastText."""
    from wordwave.experiments.anchors import answers, fit_anchor

    parts = parts_of(cell.dataset, cell.fold)
    assert parts.test is not None
    start = time.perf_counter()
    predict, values, dev = fit_anchor(cell.encoder, parts, cell.seed)
    seconds = time.perf_counter() - start
    right = answers(predict, parts.test)
    return {
        **protocol.key(cell),
        "config": values,
        "metric": "accuracy",
        "test_accuracy": fmean(right),
        "n_test": len(right),
        "right": packed(right),
        "dev_accuracy": dev,
        "seconds": round(seconds, 2),
        "versions": versions(),
        "commit": commit(),
    }
