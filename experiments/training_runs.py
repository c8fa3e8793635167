"""How one cell is trained and evaluated, and real models widened to the size of complex ones."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from experiments.cells import TrainingCell
from experiments.protocol import Protocol, load_cell_splits
from experiments.records import provenance
from experiments.statistics import pack_bits
from wordwave.config_io import to_dict
from wordwave.models.config import ModelConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Splits
    from wordwave.grid import Record
    from wordwave.tasks.classification_job import ClassificationJob
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.config import ClassificationConfig

M = TypeVar("M", bound=ModelConfig)
MAX_WIDTH_FACTOR = 8.0


@dataclass(frozen=True)
class CellRun:
    """Trains any cell under a protocol, in a worker process."""

    protocol: Protocol

    def __call__(self, cell: TrainingCell) -> Record:
        if cell.is_anchor:
            return run_anchor(self.protocol, cell)
        return run_model(self.protocol, cell)[0]


def run_model(protocol: Protocol, cell: TrainingCell) -> tuple[Record, TextClassifier]:
    """Train on one thread, evaluate once on the test set; the record and the model."""
    import torch

    from wordwave.models.utils import count_parameters
    from wordwave.tasks.classification_job import ClassificationJob
    from wordwave.tasks.classifier import logits_of
    from wordwave.tasks.scores import score

    torch.set_num_threads(1)
    splits = load_cell_splits(cell.dataset, cell.fold)
    job = ClassificationJob(protocol.config(cell)).prepare(splits)
    if cell.variant == "matched":
        waves = protocol.config(replace(cell, embedding="complex-order", variant="paper"))
        job = widen(job, waves)
    classifier, training = job.text_model, job.training()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in job.run(training):
        pass
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert job.test is not None
    progress, targets = training.progress, job.test.targets
    predictions = logits_of(classifier.model, job.test.sentences).argmax(-1)
    correct = (predictions == targets).tolist()
    scores = score(targets, predictions, classifier.labels)
    record = {
        **protocol.key(cell),
        "config": to_dict(classifier.config),
        "metric": "accuracy",
        "test_accuracy": scores.accuracy,
        "test_macro_f1": scores.macro_f1,
        "n_test": scores.n,
        "correct": pack_bits(correct),
        **without_searched(protocol, cell, splits, correct),
        "dev_accuracy": progress.best_score,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "words_per_second": round(progress.n_words / cpu),
        "parameters": count_parameters(classifier.model),
        "vocabulary": len(classifier.encoder.vocabulary),
        **provenance(),
    }
    return record, classifier


def without_searched(
    protocol: Protocol, cell: TrainingCell, splits: Splits, correct: list[bool]
) -> Record:
    """The accuracy without test examples that a search was validated on: fold 0's validation set
    is in the test sets of the other folds."""
    if protocol.search is None or protocol.search.key(cell)[0] != cell.dataset or not cell.fold:
        return {}
    searched, test = load_cell_splits(cell.dataset).dev, splits.test
    assert searched is not None
    assert test is not None
    known = {*zip(searched.texts, searched.labels, strict=True)}
    examples = zip(test.texts, test.labels, correct, strict=True)
    rest = [right for text, label, right in examples if (text, label) not in known]
    return {"n_unsearched": len(rest), "unsearched_accuracy": fmean(rest)}


def run_anchor(protocol: Protocol, cell: TrainingCell) -> Record:
    """The record of a linear model or of fastText."""
    from experiments.anchors import correct_predictions, fit_anchor

    splits = load_cell_splits(cell.dataset, cell.fold)
    assert splits.test is not None
    start = time.perf_counter()
    predict, settings, dev_accuracy = fit_anchor(cell.encoder, splits, cell.seed)
    seconds = time.perf_counter() - start
    correct = correct_predictions(predict, splits.test)
    return {
        **protocol.key(cell),
        "config": settings,
        "metric": "accuracy",
        "test_accuracy": fmean(correct),
        "n_test": len(correct),
        "correct": pack_bits(correct),
        "dev_accuracy": dev_accuracy,
        "seconds": round(seconds, 2),
        **provenance(),
    }


def scale_widths(model: M, factor: float) -> M:
    """All widths of a model times a factor."""
    # Attention needs heads of the same width, and sinusoidal positions pairs of dimensions.
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


def match_parameters(model: M, n_parameters: int, vocab_size: int, n_classes: int) -> M:
    """The model widened to a number of parameters, as nearly as possible (bisection)."""
    low, high = 1.0, MAX_WIDTH_FACTOR
    best, error = model, abs(model_size(model, vocab_size, n_classes) - n_parameters)
    for _ in range(16):
        middle = (low + high) / 2
        wider = scale_widths(model, middle)
        n = model_size(wider, vocab_size, n_classes)
        if abs(n - n_parameters) < error:
            best, error = wider, abs(n - n_parameters)
        low, high = (middle, high) if n < n_parameters else (low, middle)
    return best


def model_size(model: ModelConfig, vocab_size: int, n_classes: int) -> int:
    """Trainable parameters of a model, without allocating it."""
    import torch

    from wordwave.models.classifier import Classifier
    from wordwave.models.utils import count_parameters

    with torch.device("meta"):
        return count_parameters(Classifier(model, vocab_size, n_classes))


def widen(job: ClassificationJob, waves: ClassificationConfig) -> ClassificationJob:
    """A prepared job whose real model is widened to the number of parameters of `waves`.

    Pretrained vectors are kept; the added dimensions are initialized with noise of the same scale,
    except for words that are not in the training set, whose noise would never be trained: zero.
    """
    import torch

    from wordwave.models.classifier import Classifier
    from wordwave.tasks.classifier import TextClassifier

    old = job.text_model
    sizes = len(old.encoder.vocabulary), len(old.labels)
    wanted = model_size(replace(waves.model, dim=old.config.model.dim), *sizes)
    config = replace(old.config, model=match_parameters(old.config.model, wanted, *sizes))
    options: dict[str, Any] = {"sparse": config.training.row_sparse}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        if config.text.vectors is not None:
            vectors = old.model.embedding.vectors.detach()
            added = config.model.dim - vectors.shape[1]
            noise = torch.randn(len(vectors), added) * vectors.std()
            is_trained = torch.zeros(len(vectors), 1, dtype=torch.bool)
            is_trained[job.task.train.sentences.ids.long().unique()] = True
            noise *= is_trained
            options["vectors"] = torch.cat([vectors, noise], dim=1)
        model = Classifier(config.model, *sizes, **options)
    wide = copy(job)
    wide.text_model = TextClassifier(model, old.encoder, old.labels, config)
    return wide
