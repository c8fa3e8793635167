"""Which examples of the test part a model answers right: kept as a line of text, and compared.

Two models that answered the same examples can be told apart by those on which they differ, from
one run of each. That is a verdict on these two models; what other seeds would have learnt, it
does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def packed(right: Sequence[bool]) -> str:
    """Hexadecimal digits, four examples each."""
    bits = "".join("1" if r else "0" for r in right)
    return "".join(f"{int(bits[i : i + 4].ljust(4, '0'), 2):x}" for i in range(0, len(bits), 4))


def unpacked(digits: str, n: int) -> list[bool]:
    """The n answers that `packed` packed."""
    bits = "".join(f"{int(digit, 16):04b}" for digit in digits)
    return [bit == "1" for bit in bits[:n]]


def mcnemar(pairs: Iterable[tuple[bool, bool]]) -> tuple[int, int, float]:
    """McNemar's exact test: how often only the first is right, only the second, and the two-sided
    p of as uneven a split by chance."""
    from scipy.stats import binomtest

    won = lost = 0
    for ours, theirs in pairs:
        won += ours and not theirs
        lost += theirs and not ours
    p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    return won, lost, p
