"""Significance tests: Wilcoxon signed-rank, McNemar, paired bootstrap, Holm's correction.

Table 2's marks are `compare_all` (Wilcoxon over folds × seeds, Holm over the four baselines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np

from wordwave.errors import WordwaveError

LEVEL = 0.05
MIN_PAIRS = 6
"""With fewer pairs, a two-sided signed-rank test cannot reach p < 0.05."""
MIN_PAIRS_OF_FOUR = 8
"""The same for each of four tests under Holm's correction."""
N_RESAMPLES = 2000

Name = TypeVar("Name")
Correct = Mapping[tuple[int, int], list[bool]]
"""Whether each test example was classified correctly, by fold and seed."""


@dataclass(frozen=True)
class PairedComparison:
    """Two sides compared over the pairs that both have."""

    n: int
    difference: float
    """Mean over pairs."""
    p: float | None
    """Two-sided Wilcoxon signed-rank; `None` with fewer than `MIN_PAIRS` pairs."""
    effect: float | None
    """Matched-pairs rank-biserial correlation, from −1 to 1."""

    @property
    def is_better(self) -> bool:
        """Whether it is a significant improvement."""
        return self.p is not None and self.p < LEVEL and self.difference > 0

    @property
    def is_worse(self) -> bool:
        return self.p is not None and self.p < LEVEL and self.difference < 0


def confidence_interval(values: Sequence[float]) -> float | None:
    """Half-width of the 95% confidence interval of the mean (Student's t).

    `None` for two values or fewer: two that happen to be equal would look certain.
    """
    from scipy.stats import t

    if len(values) < 3:
        return None
    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


def compare(ours: Mapping[Name, float], theirs: Mapping[Name, float]) -> PairedComparison | None:
    """Compare the values that have the same key on both sides; `None` if there are none."""
    common = [name for name in ours if name in theirs]
    if not common:
        return None
    differences = [ours[name] - theirs[name] for name in common]
    p = signed_rank(differences) if len(common) >= MIN_PAIRS else None
    return PairedComparison(len(common), fmean(differences), p, rank_biserial(differences))


def compare_all(
    ours: Mapping[Name, float], baselines: Mapping[str, Mapping[Name, float]]
) -> dict[str, PairedComparison]:
    """Compare with each baseline, with Holm's correction over all of them."""
    found = {name: result for name, b in baselines.items() if (result := compare(ours, b))}
    p = holm({name: result.p for name, result in found.items() if result.p is not None})
    return {name: replace(result, p=p.get(name)) for name, result in found.items()}


def signed_rank(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test, exact also with ties; zeros are left out.

    Accuracies are counts, so ties are the rule. With ties, scipy samples permutations, which takes
    seconds a test, or uses the normal approximation; here the 2^n signs are counted by rank sum.
    """
    from scipy.stats import rankdata

    nonzero = np.array([d for d in _rounded(differences) if d])
    if not len(nonzero):
        return 1.0
    ranks = np.round(2 * rankdata(np.abs(nonzero))).astype(int)  # a shared rank may be a half
    share = np.zeros(ranks.sum() + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] = (share[rank:] + share[: len(share) - rank]) / 2
        share[:rank] /= 2
    gains = ranks[nonzero > 0].sum()
    return float(min(1.0, 2 * min(share[: gains + 1].sum(), share[gains:].sum())))


def rank_biserial(differences: Sequence[float]) -> float | None:
    """(W₊ − W₋) / (W₊ + W₋), where W are the rank sums of gains and losses."""
    from scipy.stats import rankdata

    nonzero = [d for d in _rounded(differences) if d]
    if not nonzero:
        return None
    ranks = rankdata([abs(d) for d in nonzero])
    gains = sum(rank for rank, d in zip(ranks, nonzero, strict=True) if d > 0)
    return float(2 * gains / sum(ranks) - 1)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's correction of a family of tests."""
    corrected: dict[Name, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        corrected[name] = highest
    return corrected


def _rounded(differences: Sequence[float]) -> list[float]:
    # 0.8 − 0.7 and 0.9 − 0.8 are the same difference, and share a rank.
    return [round(d, 12) for d in differences]


def pack_bits(correct: Sequence[bool]) -> str:
    """Hexadecimal digits, four examples each."""
    bits = "".join("1" if c else "0" for c in correct)
    bits += "0" * (-len(bits) % 4)
    return "".join(f"{int(bits[i : i + 4], 2):x}" for i in range(0, len(bits), 4))


def unpack_bits(digits: str, n: int) -> list[bool]:
    """The inverse of `pack_bits`, for n examples."""
    bits = "".join(f"{int(digit, 16):04b}" for digit in digits)
    return [bit == "1" for bit in bits[:n]]


@dataclass(frozen=True)
class McNemar:
    """Two models on the same test examples."""

    n: int
    """Examples that both classified."""
    won: int
    """Only ours is correct."""
    lost: int
    """Only theirs is correct."""
    p: float
    """Two-sided McNemar's exact test, Holm-corrected."""


def mcnemar(ours: Correct, baselines: Mapping[Name, Correct]) -> dict[Name, McNemar]:
    """Compare with each baseline that has predictions, with Holm's correction over these.

    Of each fold, the first seed for which all of them have predictions counts: no example counts
    twice, and all baselines are compared with the same models.
    """
    there = {name: correct for name, correct in baselines.items() if correct}
    common = [run for run in sorted(ours) if all(_same_size(ours, b, run) for b in there.values())]
    runs = list({fold: (fold, seed) for fold, seed in reversed(common)}.values())
    if not runs:
        return {}
    found = {name: _mcnemar(ours, theirs, runs) for name, theirs in there.items()}
    p = holm({name: test.p for name, test in found.items()})
    return {name: replace(test, p=p[name]) for name, test in found.items()}


def _same_size(ours: Correct, theirs: Correct, run: tuple[int, int]) -> bool:
    """Whether both have as many test examples; a data set prepared anew may have others."""
    return run in theirs and len(ours[run]) == len(theirs[run])


def _mcnemar(ours: Correct, theirs: Correct, runs: Sequence[tuple[int, int]]) -> McNemar:
    pairs = [pair for run in runs for pair in zip(ours[run], theirs[run], strict=True)]
    won, lost = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    return McNemar(len(pairs), won, lost, sign_test(won, lost))


def sign_test(won: int, lost: int) -> float:
    """Two-sided p of a split at least as uneven, if either side is equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


BleuCounts = Sequence[Sequence[int]]
"""Of each sentence: its length, that of its reference, matching n-grams (4), all n-grams (4)."""


@dataclass(frozen=True)
class BootstrapComparison:
    """How much higher the BLEU of the first system is."""

    difference: float
    interval: tuple[float, float]
    """95%, over resampled test sets."""
    p: float
    """Two-sided."""


def bleu_counts(translations: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """The statistics of each sentence that `tokenised_bleu` is computed from: the lengths of both,
    then the matching and the total n-grams.

    Shape: (N, 10)
    """
    from wordwave.tasks.bleu import tokenised_metric

    texts = list(translations), [list(references)]
    counts: list[list[int]] = tokenised_metric()._extract_corpus_statistics(*texts)
    return [list(map(int, sentence)) for sentence in counts]


def bleu_from_counts(sums: Any) -> Any:
    """BLEU of summed counts. Shape: (..., 10) -> (...)"""
    sums = np.asarray(sums, dtype=float)
    length, reference = sums[..., 0], sums[..., 1]
    matches, total = sums[..., 2:6], sums[..., 6:10]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(matches / total).mean(-1))
        brevity = np.exp(np.minimum(1 - reference / length, 0))
    return 100 * np.nan_to_num(brevity * precision)


def paired_bootstrap(ours: BleuCounts, theirs: BleuCounts, *, seed: int = 0) -> BootstrapComparison:
    """Compare two translations of the same sentences by paired bootstrap (Koehn, 2004).

    It needs the counts of each sentence only, neither translations nor references.

    Shape: (N, 10) each
    """
    one, other = np.asarray(ours), np.asarray(theirs)
    if one.shape != other.shape:
        raise WordwaveError(f"both must be of the same sentences, got {len(one)} and {len(other)}")
    draws = np.random.default_rng(seed).multinomial(
        len(one), np.full(len(one), 1 / len(one)), size=N_RESAMPLES
    )
    gaps = bleu_from_counts(draws @ one) - bleu_from_counts(draws @ other)
    low, high = np.quantile(gaps, [0.025, 0.975])
    against = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    p = min(1.0, 2 * (against + 1) / (N_RESAMPLES + 1))
    difference = float(bleu_from_counts(one.sum(0)) - bleu_from_counts(other.sum(0)))
    return BootstrapComparison(difference, (float(low), float(high)), p)
