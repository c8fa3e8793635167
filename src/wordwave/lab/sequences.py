"""Sequence tasks for causal models, drawn in batches of one length.

A model predicts the answer token by token, each from the true tokens before it. So it is right on
all tokens of an answer if and only if greedy decoding from the question gives that answer. Lengths
count all tokens of a sequence, question and answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from wordwave.tasks.classification import NO_TARGET


class Batch(NamedTuple):
    """Examples of one length.

    Shape: all (N, L); targets are -100 where there is none, scored is true for the answer itself
    """

    ids: Tensor
    targets: Tensor
    scored: Tensor


Draw = Callable[[int, int, Generator, bool], Batch]
"""Draws n examples of a length, for training or (true) for testing."""


@dataclass(frozen=True)
class SequenceTask:
    """A task: its vocabulary, its classes and its generator."""

    name: str
    n_words: int
    """Size of the vocabulary."""
    n_classes: int
    """Of the targets."""
    draw: Draw
    longest: int | None = None
    """Of sequences, if they come from a fixed set; longer tests are left out."""

    def sequences(self, n: int, length: int, generator: Generator, test: bool = False) -> Batch:
        """n examples after a start token, by which a causal model can tell the first position.

        Its id is `n_words`. A length counts it.
        """
        ids, targets, scored = self.draw(n, length - 1, generator, test)
        return Batch(
            F.pad(ids, (1, 0), value=self.n_words),
            F.pad(targets, (1, 0), value=NO_TARGET),
            F.pad(scored, (1, 0), value=False),
        )


N_SYMBOLS = 26
N_LETTERS = 52
MAX_SHIFT = 15
N_INDEXED = 20
N_ASKED = 6
N_KEYS = 20
N_QUERIES = 4
N_SELECTED = 5
MODULUS = 5


def _integers(high: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randint(high, shape, generator=generator)


def _places(n: int, length: int, k: int, generator: Generator) -> Tensor:
    """k different places of each of n rows, in random order. Shape: (n, k)"""
    return torch.rand(n, length, generator=generator).argsort(1)[:, :k]


def _column(n: int, value: int) -> Tensor:
    return torch.full((n, 1), value)


def _batch(ids: Tensor, targets: Tensor, scored: Tensor | None = None) -> Batch:
    return Batch(ids, targets, targets != NO_TARGET if scored is None else scored)


def _asked(question: Tensor, answer: Tensor) -> Batch:
    """The answer follows the question: its first token is predicted from the last of the question.

    Shape: (n, Q), (n, A) -> (n, Q + A − 1)
    """
    ids = torch.cat([question, answer[:, :-1]], 1)
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, question.shape[1] - 1 :] = answer
    return _batch(ids, targets)


def _last(targets: Tensor) -> Tensor:
    """Only the last target is scored."""
    scored = torch.zeros_like(targets, dtype=torch.bool)
    scored[:, -1] = True
    return scored


def reverse(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Letters, then the same letters backwards.

    They differ from each other up to 52 letters, so that the one before a letter can be found by
    its content. Longer sequences repeat them.
    """
    n_words = length // 2
    if n_words <= N_LETTERS:
        words = 1 + _places(n, N_LETTERS, n_words, generator)
    else:
        words = 1 + _integers(N_LETTERS, (n, n_words), generator)
    return _asked(torch.cat([words, _column(n, 0)], 1), words.flip(1))


def _of_words(answer: Callable[[Tensor], Tensor]) -> Draw:
    """Half of the sequence is words, the other half an answer of the same length."""

    def draw(n: int, length: int, generator: Generator, test: bool) -> Batch:
        words = 1 + _integers(N_SYMBOLS, (n, length // 2), generator)
        return _asked(torch.cat([words, _column(n, 0)], 1), answer(words))

    return draw


def selective_copy(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """The five words among dashes, in their order (Gu and Dao, 2023)."""
    words = 2 + _integers(N_SYMBOLS, (n, N_SELECTED), generator)
    question = torch.ones(n, max(length - N_SELECTED, N_SELECTED), dtype=torch.long)
    places = _places(n, question.shape[1], N_SELECTED, generator).sort(1).values
    return _asked(torch.cat([question.scatter(1, places, words), _column(n, 0)], 1), words)


def recall(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Associative recall (Arora et al., 2023): keys and values among dashes, then some keys again.

    0 asks, 1 is a dash, then come keys and values. After a key its value is predicted.
    """
    slots = max((length - 2 * N_QUERIES) // 2, N_QUERIES)
    n_pairs = min(slots, N_KEYS)
    keys = 2 + _places(n, N_KEYS, n_pairs, generator)
    values = 2 + N_KEYS + _integers(N_SYMBOLS, (n, n_pairs), generator)
    places = _places(n, slots, n_pairs, generator)
    dashes = torch.ones(n, slots, dtype=torch.long)
    pairs = torch.stack([dashes.scatter(1, places, keys), dashes.scatter(1, places, values)], 2)
    asked = _places(n, n_pairs, N_QUERIES, generator)
    again = torch.stack([keys.gather(1, asked), values.gather(1, asked)], 2).flatten(1)
    ids = torch.cat([pairs.flatten(1), _column(n, 0), again[:, :-1]], 1)
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, 2 * slots + 1 :: 2] = values.gather(1, asked)
    return _batch(ids, targets)


def index(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """The word at a given position, one of the first twenty."""
    words = 1 + _integers(N_SYMBOLS, (n, length - 2), generator)
    place = _integers(min(length - 2, N_INDEXED), (n, 1), generator)
    asked = 1 + N_SYMBOLS + place
    return _asked(torch.cat([words, _column(n, 0), asked], 1), words.gather(1, place))


def indirect_index(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Indirect indexing (Gopalakrishnan et al., 2025, App. B.1): the letter so many places before
    or after a given one, which occurs once.

    As published, a string of different letters of A-Z and a-z, a letter of it, and a shift within
    ±15; the shift is one token here. Up to six questions follow each other, so that a string
    teaches more; the last one is scored. Strings of more than 52 letters repeat those that are not
    asked for.
    """
    k = max(min(length // 6, N_ASKED), 1)
    n_places = length - 3 * k
    letters = _places(n, N_LETTERS, N_LETTERS, generator)
    place = _places(n, n_places, k, generator)
    if n_places > N_LETTERS:
        unique = letters[:, :k]
        letters = letters.gather(1, k + _integers(N_LETTERS - k, (n, n_places), generator))
        letters = letters.scatter(1, place, unique)
    letters = 1 + letters[:, :n_places]
    low, high = (place - MAX_SHIFT).clamp(min=0), (place + MAX_SHIFT).clamp(max=n_places - 1)
    drawn = torch.rand(n, k, generator=generator)
    target = low + (drawn * (high - low + 1)).long()
    shift = 1 + N_LETTERS + MAX_SHIFT + target - place
    answers = letters.gather(1, target)
    asked = torch.stack([letters.gather(1, place), shift, answers], 2).flatten(1)[:, :-1]
    ids = torch.cat([letters, _column(n, 0), asked], 1)
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, n_places + 2 :: 3] = answers
    return _batch(ids, targets, _last(targets))


def flip_flop(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Flip-flop language (Liu et al., 2023): read the bit that was written last.

    Pairs of an instruction (2 write, 3 read, 4 ignore; 80% of them ignore) and a bit. All reads are
    predicted, the last one is scored.
    """
    m = max(length // 2, 2)
    drawn = torch.rand(n, m, generator=generator)
    instruction = 4 - (drawn < 0.2).long() - (drawn < 0.1).long()
    instruction[:, 0], instruction[:, -1] = 2, 3
    bits = _integers(2, (n, m), generator)
    written = torch.where(instruction == 2, torch.arange(m), 0).cummax(1).values
    bits = torch.where(instruction == 3, bits.gather(1, written), bits)
    ids = torch.stack([instruction, bits], 2).flatten(1)[:, :-1]
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, 0::2] = torch.where(instruction == 3, bits, NO_TARGET)
    return _batch(ids, targets, _last(targets))


def parity(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Is the number of ones so far odd? Predicted at every token; the last one is scored."""
    bits = _integers(2, (n, length), generator)
    targets = bits.cumsum(1) % 2
    return _batch(bits, targets, _last(targets))


def modular_arithmetic(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """The value modulo 5 of digits with + and − between them (Delétang et al., 2023, without
    products). Predicted at every digit; the last one is scored."""
    m = (length + 1) // 2
    digits = _integers(MODULUS, (n, m), generator)
    minus = _integers(2, (n, m), generator)
    minus[:, 0] = 0
    values = torch.where(minus == 1, -digits, digits).cumsum(1) % MODULUS
    ids = torch.stack([MODULUS + minus, digits], 2).flatten(1)[:, 1:]
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, 0::2] = values
    return _batch(ids, targets, _last(targets))


def needle(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Retrieval among distractors: the value that follows a marker and a key.

    One place has the marker, the key and the value; two have another marker with the same key and
    another value, two the same marker with another key. The rest is filler words. 0 asks, 1 and 2
    are the markers, then come values, keys and filler words.
    """
    n_places = max((length - 3) // 3, 5)
    markers = torch.tensor([1, 2, 2, 1, 1]).expand(n, 5)
    key, other = (3 + N_SYMBOLS + k for k in _places(n, N_KEYS, 2, generator).split(1, 1))
    values = 3 + _integers(N_SYMBOLS, (n, 5), generator)
    keys = torch.cat([key, key, key, other, other], 1)
    facts = torch.stack([markers, keys, values], 2)
    places = _places(n, n_places, 5, generator)
    text = 3 + N_SYMBOLS + N_KEYS + _integers(N_LETTERS, (n, n_places, 3), generator)
    text = text.scatter(1, places.unsqueeze(2).expand(-1, -1, 3), facts)
    question = torch.cat([text.flatten(1), _column(n, 0), markers[:, :1], key], 1)
    return _asked(question, values[:, :1])


def precedence(n: int, length: int, generator: Generator, test: bool) -> Batch:
    """Does A come before B? Minimal pairs of the same words: rows 2i (no) and 2i + 1 (yes)."""
    n_pairs = -(-n // 2)
    words = 3 + _integers(100, (n_pairs, length - 1), generator)
    places = _places(n_pairs, length - 1, 2, generator).sort(1).values
    ids = torch.cat([words, _column(n_pairs, 0)], 1)
    first, second = torch.tensor([1, 2]), torch.tensor([2, 1])
    yes, no = (ids.scatter(1, places, ab.expand(n_pairs, 2)) for ab in (first, second))
    return as_pairs(no, yes, n)


def as_pairs(no: Tensor, yes: Tensor, n: int) -> Batch:
    """Minimal pairs to classify at their last token. Shape: two (n/2, L) -> (n, L)"""
    ids = torch.stack([no, yes], 1).flatten(0, 1)[:n]
    return at_the_end(ids, torch.arange(len(ids)) % 2)


def at_the_end(ids: Tensor, labels: Tensor) -> Batch:
    """Sequences to classify at their last token. Shape: (n, L), (n,) -> (n, L)"""
    targets = torch.full_like(ids, NO_TARGET)
    targets[:, -1] = labels
    return _batch(ids, targets)


_SYMBOLS = 1 + N_SYMBOLS
SEQUENCES: dict[str, SequenceTask] = {
    task.name: task
    for task in (
        SequenceTask("precedence", 103, 2, precedence),
        SequenceTask("copy", _SYMBOLS, _SYMBOLS, _of_words(lambda words: words)),
        SequenceTask("reverse", 1 + N_LETTERS, 1 + N_LETTERS, reverse),
        SequenceTask("sort", _SYMBOLS, _SYMBOLS, _of_words(lambda words: words.sort(1).values)),
        SequenceTask("selective-copy", 1 + _SYMBOLS, 1 + _SYMBOLS, selective_copy),
        SequenceTask("recall", 2 + N_KEYS + N_SYMBOLS, 2 + N_KEYS + N_SYMBOLS, recall),
        SequenceTask("index", _SYMBOLS + N_INDEXED, _SYMBOLS, index),
        SequenceTask(
            "indirect-index", 2 + N_LETTERS + 2 * MAX_SHIFT, 1 + N_LETTERS, indirect_index
        ),
        SequenceTask("flip-flop", 5, 2, flip_flop),
        SequenceTask("parity", 2, 2, parity),
        SequenceTask("modular-arithmetic", MODULUS + 2, MODULUS, modular_arithmetic),
        SequenceTask("needle", 3 + N_SYMBOLS + N_KEYS + N_LETTERS, 3 + N_SYMBOLS, needle),
    )
}
