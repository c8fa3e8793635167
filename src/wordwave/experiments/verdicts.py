"""Verdicts on claims, and on what they rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wordwave.experiments.answers import McNemar
from wordwave.experiments.significance import LEVEL, Paired, is_better, is_worse

Verdict = Literal["holds", "holds in part", "does not hold", "not measured"]


@dataclass(frozen=True)
class Claim:
    """What the paper says, whether it is so, and why we think so."""

    says: str
    verdict: Verdict
    evidence: Sequence[str] = ()
    basis: str = ""
    """In how many cases of how many, where it is a matter of counting."""


def judged(says: str, n: int, of: int, evidence: Sequence[str]) -> Claim:
    """A claim that holds in n of so many cases."""
    if not of:
        return Claim(says, "not measured", evidence)
    found: Verdict = "holds" if n == of else "holds in part" if 2 * n > of else "does not hold"
    return Claim(says, found, evidence, f"{n} of {of}")


def counted(results: Sequence[Paired], by_example: Sequence[McNemar]) -> str:
    """In how many comparisons complex-order is better and worse, and how surely."""
    better, worse = (sum(sign * r.difference > 0 for r in results) for sign in (1, -1))
    line = f"better in {better} and worse in {worse} of {len(results)} cells"
    tested = [r for r in results if r.p is not None]
    if tested:
        surely, surely_worse = sum(map(is_better, tested)), sum(map(is_worse, tested))
        line += (
            f"; of the {len(tested)} with enough runs for a signed-rank test, significantly "
            f"better in {surely} and worse in {surely_worse}"
        )
    else:
        line += ", none of which has enough runs for a signed-rank test"
    if by_example:
        won = sum(t.p < LEVEL and t.won > t.lost for t in by_example)
        lost = sum(t.p < LEVEL and t.lost > t.won for t in by_example)
        line += (
            f"; by the examples that one run of each answers differently, significantly better in "
            f"{won} and worse in {lost} of the {len(by_example)} whose answers were kept"
        )
    return line
