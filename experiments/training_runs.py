"""Real baselines with as many parameters as the waves they stand beside."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.cells import Cell
from experiments.protocol import Protocol, commit, parts_of, versions
from experiments.statistics import packed
from wordwave.config_io import to_dict
from wordwave.models.config import ModelConfig

if TYPE_CHECKING:
    from wordwave.grid import Record
    from wordwave.tasks.classification import PreparedClassifier
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.config import ClassificationConfig


WIDEST = 8.0


def scaled(model: ModelConfig, factor: float) -> ModelConfig:
    """All widths of a model times a factor."""
    # Attention needs heads of the same width, and trigonometric positions pairs of numbers.
    step = 2 * model.n_heads if model.encoder == "transformer" else 2

    def times(n: int, step: int = 1) -> int:
        return max(step, round(n * factor / step) * step)

    return replace(
        model,
        dim=times(model.dim, step),
        hidden_dim=times(model.hidden_dim) if model.hidden_dim else 0,
        n_filters=times(model.n_filters),
        state_dim=None if model.state_dim is None else times(model.state_dim),
        feed_forward_dim=times(model.feed_forward_dim),
    )


def nearest(model: ModelConfig, n_parameters: int, vocab_size: int, n_classes: int) -> ModelConfig:
    """The model, wider, with that many parameters as nearly as can be."""
    low, high = 1.0, WIDEST
    best, missed = model, abs(count(model, vocab_size, n_classes) - n_parameters)
    for _ in range(16):
        middle = (low + high) / 2
        tried = scaled(model, middle)
        n = count(tried, vocab_size, n_classes)
        if abs(n - n_parameters) < missed:
            best, missed = tried, abs(n - n_parameters)
        low, high = (middle, high) if n < n_parameters else (low, middle)
    return best


def count(model: ModelConfig, vocab_size: int, n_classes: int) -> int:
    """Trainable numbers of a model, which is drawn up but takes no memory."""
    import torch

    from wordwave.models.classifier import Classifier, count_parameters

    with torch.device("meta"):
        return count_parameters(Classifier(model, vocab_size, n_classes))


def widened(prepared: PreparedClassifier, waves: ClassificationConfig) -> PreparedClassifier:
    """A prepared real model made as large as the wave model of `waves`.

    Pretrained vectors keep their place; the numbers added to them start as noise of their size,
    but for words that training never meets, whose noise would stay: theirs are zero.
    """
    import torch

    from wordwave.models.classifier import Classifier
    from wordwave.tasks.classifier import TextClassifier

    old = prepared.classifier
    sizes = len(old.encoder.vocabulary), len(old.labels)
    wanted = count(replace(waves.model, dim=old.config.model.dim), *sizes)
    config = replace(old.config, model=nearest(old.config.model, wanted, *sizes))
    options: dict[str, Any] = {"sparse": config.training.row_sparse}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        if config.text.vectors is not None:
            vectors = old.model.embedding.meaning.detach()
            more = config.model.dim - vectors.shape[1]
            noise = torch.randn(len(vectors), more) * vectors.std()
            met = torch.zeros(len(vectors), 1, dtype=torch.bool)
            met[prepared.task.train.sentences.ids.long().unique()] = True
            noise *= met
            options["vectors"] = torch.cat([vectors, noise], dim=1)
        model = Classifier(config.model, *sizes, **options)
    return replace(prepared, classifier=TextClassifier(model, old.encoder, old.labels, config))


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

    from wordwave.models.classifier import count_parameters
    from wordwave.tasks.classification import prepare, score
    from wordwave.tasks.classifier import logits_of
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
        "config": to_dict(classifier.config),
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
    from experiments.anchors import answers, fit_anchor

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
