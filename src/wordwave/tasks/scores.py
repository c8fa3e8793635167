"""How good predictions are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from torch import Tensor

from wordwave.memory import check_memory
from wordwave.tasks.footprint import confusion_bytes


@dataclass(frozen=True)
class ClassScores:
    """Of one class."""

    n: int
    """Examples of it."""
    precision: float
    """Of those predicted to be of it, the share that is."""
    recall: float
    """Of those of it, the share predicted to be."""
    f1: float


@dataclass(frozen=True)
class Scores:
    """Figures of merit of predictions."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    """95% confidence interval of the accuracy (Wilson's)."""
    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""
    confusion: list[list[int]]
    """Row: the true class; column: the predicted one."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


def score(wanted: Tensor, said: Tensor, labels: list[str]) -> Scores:
    """Compare predicted classes with the true ones. Shape: wanted (N,), said (N,)"""
    from scipy.stats import binomtest
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    if len(wanted) == 0:
        raise ValueError("there must be at least one example to score, got none")
    check_memory(
        confusion_bytes(len(labels)),
        f"scoring {len(labels):,} classes",
        "the table of who is taken for whom has a cell for each pair; merge classes",
    )
    right = int((wanted == said).sum())
    interval = binomtest(right, len(wanted)).proportion_ci(method="wilson")
    numbers = list(range(len(labels)))
    *figures, counts = precision_recall_fscore_support(
        wanted, said, labels=numbers, zero_division=0
    )
    classes = [
        ClassScores(int(n), *map(float, three)) for n, *three in zip(counts, *figures, strict=True)
    ]
    return Scores(
        n=len(wanted),
        accuracy=right / len(wanted),
        interval=(float(interval.low), float(interval.high)),
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
        confusion=confusion_matrix(wanted, said, labels=numbers).tolist(),
    )
