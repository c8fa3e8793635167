"""How good predictions are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Figures of merit of predictions."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    """95% confidence interval of the accuracy (Wilson's)."""
    macro_f1: float
    labels: list[str]
    confusion: list[list[int]]
    """Row: the true class; column: the predicted one."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


def score(wanted: Tensor, said: Tensor, labels: list[str]) -> Scores:
    """Compare predicted classes with the true ones. Shape: wanted (N,), said (N,)"""
    from scipy.stats import binomtest
    from sklearn.metrics import confusion_matrix, f1_score

    if len(wanted) == 0:
        raise ValueError("there must be at least one example to score, got none")
    right = int((wanted == said).sum())
    interval = binomtest(right, len(wanted)).proportion_ci(method="wilson")
    numbers = list(range(len(labels)))
    return Scores(
        n=len(wanted),
        accuracy=right / len(wanted),
        interval=(float(interval.low), float(interval.high)),
        macro_f1=float(f1_score(wanted, said, labels=numbers, average="macro", zero_division=0)),
        labels=list(labels),
        confusion=confusion_matrix(wanted, said, labels=numbers).tolist(),
    )
