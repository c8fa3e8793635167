"""How sure a difference is: paired Wilcoxon tests, Holm's correction, intervals, effect sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

LEVEL = 0.05
FEWEST_PAIRS = 6
"""With fewer pairs a two-sided signed-rank test cannot come out below 0.05."""
FEWEST_PAIRS_OF_FOUR = 8
"""The same for each of four tests with Holm's correction."""
MARKS = {"none": "§", "pe": "†", "tpe": "‡", "complex-vanilla": "∗"}
"""The paper's signs for a significant improvement over each baseline."""

Name = TypeVar("Name")


@dataclass(frozen=True)
class Paired:
    """A comparison over the pairs that both sides have."""

    n: int
    difference: float
    """Mean over pairs."""
    p: float | None
    """Two-sided Wilcoxon signed-rank; `None` with too few pairs for any verdict."""
    effect: float | None
    """Matched-pairs rank-biserial correlation, from −1 to 1."""


def interval(values: Sequence[float]) -> float | None:
    """Half of the 95% confidence interval of the mean (Student's).

    `None` for two values or fewer: two that happen to be equal would look certain.
    """
    from scipy.stats import t

    if len(values) < 3:
        return None
    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


def paired(ours: Mapping[Name, float], theirs: Mapping[Name, float]) -> Paired | None:
    """Compare what has the same name on both sides (a fold and seed, or a cell)."""
    common = [name for name in ours if name in theirs]
    if not common:
        return None
    differences = [ours[name] - theirs[name] for name in common]
    effect = rank_biserial(differences)
    p: float | None = None
    if len(common) >= FEWEST_PAIRS:
        p = signed_rank(differences)
    return Paired(len(common), fmean(differences), p, effect)


def signed_rank(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test, exact also with ties; zeros are left out.

    Accuracies are counts, so ties are the rule. scipy then draws permutations, seconds a test, or
    falls back on a normal curve; here the 2^n signs are counted by their rank sums.
    """
    import numpy as np
    from scipy.stats import rankdata

    moved = np.array([d for d in _rounded(differences) if d])
    if not len(moved):
        return 1.0
    ranks = np.round(2 * rankdata(np.abs(moved))).astype(int)  # a shared rank may be a half
    share = np.zeros(ranks.sum() + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] = (share[rank:] + share[: len(share) - rank]) / 2
        share[:rank] /= 2
    gains = ranks[moved > 0].sum()
    return float(min(1.0, 2 * min(share[: gains + 1].sum(), share[gains:].sum())))


def rank_biserial(differences: Sequence[float]) -> float | None:
    """(W₊ − W₋) / (W₊ + W₋), where W are the rank sums of gains and losses."""
    from scipy.stats import rankdata

    moved = [d for d in _rounded(differences) if d]
    if not moved:
        return None
    ranks = rankdata([abs(d) for d in moved])
    gains = sum(rank for rank, d in zip(ranks, moved, strict=True) if d > 0)
    return float(2 * gains / sum(ranks) - 1)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's correction of a family of tests."""
    corrected: dict[Name, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        corrected[name] = highest
    return corrected


def compared(
    ours: Mapping[Name, float], rivals: Mapping[str, Mapping[Name, float]]
) -> dict[str, Paired]:
    """Against each rival, with Holm's correction over all of them."""
    found = {name: result for name, r in rivals.items() if (result := paired(ours, r))}
    p = holm({name: result.p for name, result in found.items() if result.p is not None})
    return {
        name: Paired(result.n, result.difference, p.get(name), result.effect)
        for name, result in found.items()
    }


def is_better(result: Paired) -> bool:
    """Whether an improvement is significant."""
    return result.p is not None and result.p < LEVEL and result.difference > 0


def is_worse(result: Paired) -> bool:
    return result.p is not None and result.p < LEVEL and result.difference < 0


def _rounded(differences: Sequence[float]) -> list[float]:
    # 0.8 − 0.7 and 0.9 − 0.8 are the same difference, and share a rank.
    return [round(d, 12) for d in differences]
