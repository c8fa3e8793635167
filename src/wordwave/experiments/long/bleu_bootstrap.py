"""Whether one translator is better than another: paired bootstrap over sentences (Koehn, 2004).

Works on what each sentence brings to BLEU, so that a table needs neither translations nor
references once they are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

N_SAMPLES = 2000
Counts = Sequence[Sequence[int]]
"""Of each sentence: its length, that of its reference, right n-grams (4), all n-grams (4)."""


@dataclass(frozen=True)
class Gap:
    """How much better the first translator is."""

    difference: float
    interval: tuple[float, float]
    """95%, over samples of sentences."""
    p: float
    """Two-sided."""


def bleu_of(sums: Any) -> Any:
    """BLEU of summed counts. Shape: (..., 10) -> (...)"""
    sums = np.asarray(sums, dtype=float)
    said, wanted, right, tried = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(right / tried).mean(-1))
        brevity = np.exp(np.minimum(1 - wanted / said, 0))
    return 100 * np.nan_to_num(brevity * precision)


def paired_bootstrap(ours: Counts, theirs: Counts, *, seed: int = 0) -> Gap:
    """Compare two translations of the same sentences, sampled with the same draws.

    Shape: (N, 10) each
    """
    one, other = np.asarray(ours), np.asarray(theirs)
    if one.shape != other.shape:
        raise ValueError(f"both must be of the same sentences, got {len(one)} and {len(other)}")
    draws = np.random.default_rng(seed).multinomial(
        len(one), np.full(len(one), 1 / len(one)), size=N_SAMPLES
    )
    gaps = bleu_of(draws @ one) - bleu_of(draws @ other)
    low, high = np.quantile(gaps, [0.025, 0.975])
    against = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    p = min(1.0, 2 * (against + 1) / (N_SAMPLES + 1))
    difference = float(bleu_of(one.sum(0)) - bleu_of(other.sum(0)))
    return Gap(difference, (float(low), float(high)), p)
