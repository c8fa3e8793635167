"""The order laboratory's data: generated tasks as tensors, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wordwave.data import pairs, sequences
from wordwave.data.pairs import PAIR_TASKS
from wordwave.data.sequences import BLANK, SEQUENCE_TASKS
from wordwave.names import unknown

PADDING, UNKNOWN = "<pad>", "<unk>"
NO_TARGET = -100
TEXT_TASK = "swap-text"


@dataclass(frozen=True)
class Examples:
    """Sentences and what is asked of them.

    Shape: ids (N, L) padded with 0; targets (N,), or (N, L) with -100 where nothing is asked
    """

    ids: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Probe:
    """A task: its words, its number of classes and its generator."""

    name: str
    words: list[str]
    n_classes: int
    make: Callable[[random.Random, int], Any]
    make_for_test: Callable[[random.Random, int], Any]
    """As `make`; for a text of one's own, from sentences that `make` never draws."""
    marked: frozenset[str]
    """Words whose place decides the answer, where the task has such."""

    @property
    def is_sequence(self) -> bool:
        return self.name in SEQUENCE_TASKS

    def examples(
        self, n: int, lengths: tuple[int, int], *, seed: int, test: bool = False
    ) -> Examples:
        """n examples with lengths drawn evenly from a range; pair tasks give n/2 minimal pairs.

        The two sentences of a pair stand next to each other, rows 2i (no) and 2i + 1 (yes).
        """
        rng = random.Random(f"{self.name} {seed} {lengths} {test}")
        make = self.make_for_test if test else self.make
        index = {word: i for i, word in enumerate(self.words)}
        rows: list[list[int]] = []
        targets: list[list[int]] = []
        while len(rows) < n:
            made = make(rng, rng.randint(*lengths))
            if self.is_sequence:
                question, answer = made
                rows.append([index[w] for w in question] + [index[BLANK]] * len(answer))
                targets.append([NO_TARGET] * len(question) + [index[w] for w in answer])
            else:
                rows += [[index.get(w, index[UNKNOWN]) for w in sentence] for sentence in made]
        if self.is_sequence:
            return Examples(_padded(rows, 0), _padded(targets, NO_TARGET))
        return Examples(_padded(rows, 0), torch.arange(len(rows)) % 2)


def probe(name: str, text: Path | None = None) -> Probe:
    """A task of the laboratory by name; `swap-text` asks for a text file of one's own."""
    if name == TEXT_TASK:
        if text is None:
            raise ValueError(f"task {TEXT_TASK!r} needs a text file, one sentence a line")
        sentences = read_sentences(text)
        random.Random(0).shuffle(sentences)
        kept, held_out = sentences[len(sentences) // 5 :], sentences[: len(sentences) // 5]
        words = sorted({w for s in kept for w in s})
        try:
            makers = pairs.swap_in(kept), pairs.swap_in(held_out)
        except ValueError as error:
            raise ValueError(
                f"text file '{text}' needs more sentences: {len(sentences)} different ones of at "
                f"least two words, a fifth of them held out, hold {error}"
            ) from None
        return Probe(name, [PADDING, UNKNOWN, *words], 2, *makers, frozenset())
    if name in SEQUENCE_TASKS:
        words = [PADDING, UNKNOWN, *sequences.SYMBOLS, sequences.NOISE, sequences.ASK, BLANK]
        words += [f"n{i}" for i in range(1, 11)]
        ask = SEQUENCE_TASKS[name]
        return Probe(name, words, len(words), ask, ask, frozenset())
    if name in PAIR_TASKS:
        pair = PAIR_TASKS[name]
        return Probe(name, [PADDING, UNKNOWN, *_words_of(name)], 2, pair, pair, _marked(name))
    known = [*PAIR_TASKS, TEXT_TASK, *SEQUENCE_TASKS]
    raise unknown("task", name, known)


def read_sentences(path: Path) -> list[list[str]]:
    """The different lines of a text file with at least two words, lower-cased, in order."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ValueError(f"text file '{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"text file '{path}' is not UTF-8 at byte {error.start}") from None
    sentences = dict.fromkeys(tuple(line.lower().split()) for line in lines)
    return [list(words) for words in sentences if len(words) > 1]


def _words_of(name: str) -> Sequence[str]:
    if name in ("swap", "who-did-what"):
        kinds = (pairs.ANIMALS, pairs.PEOPLE, pairs.ACTIVE, pairs.ADJECTIVES, pairs.ADVERBS)
        return ["the", "and", "was", "by", *(word for kind in kinds for word in kind)]
    marked = [f"n{i}" for i in range(10)] if name == "reversal" else [pairs.A, pairs.B]
    return [*marked, *pairs.FILLERS]


def _marked(name: str) -> frozenset[str]:
    if name == "who-did-what":
        return frozenset(pairs.ANIMALS + pairs.PEOPLE)
    if name == "swap":
        return frozenset()
    return frozenset(_words_of(name)) - frozenset(pairs.FILLERS)


def _padded(rows: list[list[int]], value: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])
