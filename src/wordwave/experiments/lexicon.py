"""Which words carry sentiment, by a lexicon that people rated: VADER's, from its package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

STRONG = 1.5
"""Least |valence| of a strong word; ratings go from −4 to 4."""


@cache
def valences() -> dict[str, float]:
    """Mean rating of each word."""
    try:
        text = (files("vaderSentiment") / "vader_lexicon.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        raise ValueError(
            "counting sentiment words needs a lexicon: pip install 'wordwave[lexicon]'"
        ) from None
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) > 1}


def is_strong(word: str) -> bool:
    return abs(valences().get(word, 0.0)) >= STRONG
