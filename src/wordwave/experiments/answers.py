"""Which examples of the test part a model answers right: kept as a line of text, and compared.

Two models that answered the same examples can be told apart by those on which they differ, from
one run of each. That is a verdict on these two models; what other seeds would have learnt, it
does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wordwave.experiments.significance import Name, holm

Answers = Mapping[tuple[int, int], list[bool]]
"""Whether each example was answered right, by fold and seed."""


def packed(right: Sequence[bool]) -> str:
    """Hexadecimal digits, four examples each."""
    bits = "".join("1" if r else "0" for r in right)
    return "".join(f"{int(bits[i : i + 4].ljust(4, '0'), 2):x}" for i in range(0, len(bits), 4))


def unpacked(digits: str, n: int) -> list[bool]:
    """The n answers that `packed` packed."""
    bits = "".join(f"{int(digit, 16):04b}" for digit in digits)
    return [bit == "1" for bit in bits[:n]]


@dataclass(frozen=True)
class McNemar:
    """Two models on the same examples."""

    n: int
    """Examples that both answered."""
    won: int
    """Only ours is right."""
    lost: int
    """Only theirs is right."""
    p: float
    """Two-sided, of as uneven a split by chance (McNemar's exact test), Holm-corrected."""


def mcnemar(ours: Answers, rivals: Mapping[Name, Answers]) -> dict[Name, McNemar]:
    """Against each rival that has answers, with Holm's correction over these.

    Of each fold counts the first seed whose answers all of them have kept: no example counts
    twice, and all rivals are held against the same models.
    """
    there = {name: answers for name, answers in rivals.items() if answers}
    common = [run for run in sorted(ours) if all(_alike(ours, r, run) for r in there.values())]
    runs = list({fold: (fold, seed) for fold, seed in reversed(common)}.values())
    if not runs:
        return {}
    found = {name: _compared(ours, theirs, runs) for name, theirs in there.items()}
    p = holm({name: test.p for name, test in found.items()})
    return {name: replace(test, p=p[name]) for name, test in found.items()}


def _alike(ours: Answers, theirs: Answers, run: tuple[int, int]) -> bool:
    """Whether both answered the same examples; data that was prepared anew may have others."""
    return run in theirs and len(ours[run]) == len(theirs[run])


def _compared(ours: Answers, theirs: Answers, runs: Sequence[tuple[int, int]]) -> McNemar:
    pairs = [pair for run in runs for pair in zip(ours[run], theirs[run], strict=True)]
    won, lost = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    return McNemar(len(pairs), won, lost, sign_test(won, lost))


def sign_test(won: int, lost: int) -> float:
    """Two-sided p of as uneven a split if each side were as likely."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
