"""Order tasks with an answer of several words: a question, then blanks to be filled in.

Each maker returns (question, answer); a model sees the question and as many blanks as the answer
has words, and is right where every blank is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Task = tuple[list[str], list[str]]

SYMBOLS = tuple(f"s{i:02d}" for i in range(20))
NOISE, ASK, BLANK = "-", "?", "_"
N_ANSWERS = 5


def copy(rng: random.Random, length: int) -> Task:
    """The same words again."""
    words = rng.choices(SYMBOLS, k=length)
    return [*words, ASK], words


def reverse(rng: random.Random, length: int) -> Task:
    """The words backwards."""
    words = rng.choices(SYMBOLS, k=length)
    return [*words, ASK], words[::-1]


def sort(rng: random.Random, length: int) -> Task:
    """The words in alphabetical order."""
    words = rng.choices(SYMBOLS, k=length)
    return [*words, ASK], sorted(words)


def selective_copy(rng: random.Random, length: int) -> Task:
    """The five words that stand among dashes, in their order."""
    words = rng.choices(SYMBOLS, k=N_ANSWERS)
    question = [NOISE] * length
    for place, word in zip(sorted(rng.sample(range(length), N_ANSWERS)), words, strict=True):
        question[place] = word
    return [*question, ASK], words


def recall(rng: random.Random, length: int) -> Task:
    """Associative recall: pairs of key and value among dashes, then a key: what was its value?"""
    n_pairs = min(length // 2, len(SYMBOLS))
    keys = rng.sample(SYMBOLS, n_pairs)
    values = rng.choices(SYMBOLS, k=n_pairs)
    asked = rng.randrange(n_pairs)
    pairs = [[key, value] for key, value in zip(keys, values, strict=True)]
    pairs += [[NOISE, NOISE] for _ in range(length // 2 - n_pairs)]
    rng.shuffle(pairs)
    return [*(word for pair in pairs for word in pair), ASK, keys[asked]], [values[asked]]


def index(rng: random.Random, length: int) -> Task:
    """Indirect indexing: a number among the first ten says which word is asked for."""
    words = rng.choices(SYMBOLS, k=length)
    asked = rng.randrange(min(length, 10))
    return [*words, ASK, f"n{asked + 1}"], [words[asked]]


SEQUENCE_TASKS: dict[str, Callable[[random.Random, int], Task]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "selective-copy": selective_copy,
    "recall": recall,
    "index": index,
}
