"""The scores of predicted classes: accuracy, F1 and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.memory import check_memory, confusion_bytes


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class."""

    n: int
    """Number of examples."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class _Scores:
    n: int
    """Number of examples."""
    accuracy: float
    """With several labels subset accuracy: of examples whose labels are all predicted, and no
    other."""
    interval: tuple[float, float]
    """95% confidence interval of the accuracy (Wilson)."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


@dataclass(frozen=True)
class ClassificationScores(_Scores):
    """The scores of predicted classes."""

    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""
    confusion: list[list[int]]
    """Rows: true classes; columns: predicted classes."""


@dataclass(frozen=True)
class MultiLabelScores(_Scores):
    """The scores of predicted labels, of which each example may have several."""

    micro_f1: float
    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""


def _accuracy(is_correct: Tensor) -> tuple[int, float, tuple[float, float]]:
    """How many predictions there are, the share of correct ones, and its 95% interval.

    Shape: (N,)
    """
    from scipy.stats import binomtest

    n, n_correct = len(is_correct), int(is_correct.sum())
    if n == 0:
        raise WordwaveError("there must be at least one example to score, got none")
    interval = binomtest(n_correct, n).proportion_ci(method="wilson")
    return n, n_correct / n, (float(interval.low), float(interval.high))


def score(targets: Tensor, predicted: Tensor, labels: list[str]) -> ClassificationScores:
    """Compare predicted with true classes. Shape: targets (N,), predicted (N,)"""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    accuracy = _accuracy(targets == predicted)
    check_memory(
        confusion_bytes(len(labels)),
        f"scoring {len(labels):,} classes",
        "the confusion matrix has a cell for each pair of classes; merge classes",
    )
    numbers = list(range(len(labels)))
    *figures, counts = precision_recall_fscore_support(
        targets, predicted, labels=numbers, zero_division=0
    )
    classes = [
        ClassScores(int(n), *map(float, three)) for n, *three in zip(counts, *figures, strict=True)
    ]
    return ClassificationScores(
        *accuracy,
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
        confusion=confusion_matrix(targets, predicted, labels=numbers).tolist(),
    )


def score_label_sets(targets: Tensor, predicted: Tensor, labels: list[str]) -> MultiLabelScores:
    """Compare predicted with true labels. Shape: targets, predicted (N, n_classes), bool"""
    accuracy = _accuracy((targets == predicted).all(1))
    counts = torch.stack([(targets & predicted).sum(0), predicted.sum(0), targets.sum(0)]).double()

    def ratios(correct: Tensor, predicted: Tensor, true: Tensor) -> list[Tensor]:
        divided = (correct / predicted, correct / true, 2 * correct / (predicted + true))
        return [part.nan_to_num(0.0) for part in divided]

    classes = [
        ClassScores(int(n), *map(float, three))
        for n, *three in zip(counts[2], *ratios(*counts), strict=True)
    ]
    return MultiLabelScores(
        *accuracy,
        micro_f1=float(ratios(*counts.sum(1))[2]),
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
    )


def score_labels(labels: Sequence[str], predicted: Sequence[str]) -> ClassificationScores:
    """Compare predicted with true classes, by their names."""
    names = sorted({*labels, *predicted})
    numbers = {name: i for i, name in enumerate(names)}
    targets, found = (torch.tensor([numbers[x] for x in some]) for some in (labels, predicted))
    return score(targets, found, names)


def describe_scores(scores: dict[str, Any]) -> str:
    """Scores as `plain` gives them, in one line for people."""
    low, high = scores["interval"]
    is_multi_label = "micro_f1" in scores
    micro = f"micro-F1 {scores['micro_f1']:.4f}, " if is_multi_label else ""
    return (
        f"{'subset ' if is_multi_label else ''}accuracy {scores['accuracy']:.4f}, "
        f"95% interval {low:.4f} to {high:.4f}, {micro}macro-F1 {scores['macro_f1']:.4f}"
    )
