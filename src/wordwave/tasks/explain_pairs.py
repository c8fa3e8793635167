"""Explain the prediction for a pair of sentences by removing words of both, and by moving, swapping
and shuffling those of the second.

p is the probability of the predicted class, or the score if the matcher predicts scores. Effects
are changes of the log-odds ln(p / (1 − p)) of the predicted class, or of the score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from wordwave.models.utils import eval_mode
from wordwave.tasks.classifier import finite, vectors_of
from wordwave.tasks.explain import (
    IDS_PER_BATCH,
    ROUNDING,
    after_changes,
    check_counts,
    effects_of_moves,
    joined,
    log_odds,
    moved,
    moves_to_try,
    shuffling,
    token_text,
    tokenized,
    without,
)
from wordwave.tasks.matcher import TextMatcher
from wordwave.text.batching import Sentences

SCORE_ROUNDING = 1e-5
"""Smaller changes of a score, as a share of its range, may be due to rounding."""


@dataclass(frozen=True)
class PairWord:
    """The contribution of one word to the log-odds, or to the score."""

    word: str
    known: bool
    shared: bool
    """Whether the other sentence has the word, too."""
    importance: float
    """The log-odds, or the score, minus that of the pair without the word."""


@dataclass(frozen=True)
class MovedPairWord(PairWord):
    """The contribution of one word of the second sentence, and of its position."""

    moved_mean: float
    """Order sensitivity: mean |change of the log-odds or score| over the positions it was moved
    to."""
    moved_max: float
    """The largest of these changes."""
    moved_to: int | None
    """The position of the largest change, from 1; `None` if no move changes anything."""


@dataclass(frozen=True)
class Reordering:
    """A move of one word of the second sentence, or a swap of two, and the prediction after it."""

    words: tuple[str, ...]
    """The moved word, or both swapped ones."""
    positions: tuple[int, int]
    """From 1: where the word was and is now, or where the two words were."""
    text: str
    """The second sentence after it."""
    label: str | None
    p: float
    """Of the class predicted for the original pair, or the score."""


@dataclass(frozen=True)
class PairExplanation:
    """The explanation of the prediction for a pair."""

    text_a: str
    text_b: str
    label: str | None
    """The predicted class; `None` for a score."""
    probabilities: dict[str, float]
    """Of all classes; empty for a score."""
    p: float
    """The probability of the predicted class, or the score."""
    words_a: list[PairWord]
    words_b: list[MovedPairWord]
    n_cut: tuple[int, int]
    """Words of both sentences beyond the maximum length of the model, which it does not see."""
    n_moves: int
    all_moves: bool
    """Whether every word was moved to every position."""
    moves_to_other_class: int
    worst_move: Reordering | None
    """The move that lowers p most; `None` if no move lowers it."""
    n_swaps: int
    best_swap: Reordering | None
    """The swap that comes closest to another class, or to the highest score; `None` if no swap
    comes closer."""
    n_shuffles: int
    shuffle_change: float
    """Mean |change of the log-odds or score| when all words of the second sentence are shuffled."""
    shuffles_to_other_class: int

    def to_dict(self) -> dict[str, Any]:
        """A JSON-serialisable form."""
        return asdict(self)


def swaps_to_try(n: int, most: int) -> Tensor:
    """Pairs of positions of n words, the nearest first, at most `most`. Shape: (N, 2), from 0"""

    def by_distance() -> Iterator[Tensor]:
        n_found = 0
        for distance in range(1, n):
            if n_found >= most:
                return
            left = torch.arange(n - distance)
            n_found += len(left)
            yield torch.stack([left, left + distance], dim=1)

    return torch.cat([torch.zeros(0, 2, dtype=torch.long), *by_distance()])[:most]


def swapped(swaps: Tensor, n: int) -> Tensor:
    """Orders of n words with two of them swapped. Shape: swaps (N, 2), from 0 -> (N, n)"""
    orders = torch.arange(n).repeat(len(swaps), 1)
    return orders.scatter(1, swaps, swaps.flip(1))


def explain_pair(
    matcher: TextMatcher,
    text_a: str,
    text_b: str,
    *,
    n_shuffles: int = 100,
    most_moves: int = 2000,
    seed: int = 0,
) -> PairExplanation:
    """Explain the prediction for a pair of sentences.

    Args:
        n_shuffles: the number of random permutations of the second sentence.
        most_moves: above this number of single moves, each word is moved to the next position and
            to evenly spaced ones only, at least three; of the swaps, so many of the nearest words.
        seed: of the permutations.
    """
    check_counts(n_shuffles, most_moves)
    tokens_a, ids_a, n_cut_a = tokenized(matcher.encoder, text_a)
    tokens_b, ids_b, n_cut_b = tokenized(matcher.encoder, text_b)
    n = len(ids_b)
    n_shuffles = n_shuffles if n > 1 else 0
    first = _vectors(matcher, ids_a, torch.arange(len(ids_a)).unsqueeze(0))
    second = _vectors(matcher, ids_b, torch.arange(n).unsqueeze(0))
    original = _outputs(matcher, first, second)
    predicted = int(original.argmax())
    (value,) = log_odds(original, predicted)

    def of_first(orders: Tensor) -> Tensor:
        return _outputs(matcher, _vectors(matcher, ids_a, orders), second)

    def of_second(orders: Tensor) -> Tensor:
        return _outputs(matcher, first, _vectors(matcher, ids_b, orders))

    batch_size = max(IDS_PER_BATCH // max(len(ids_a), n), 1)
    change_first = partial(after_changes, of_first, predicted, batch_size)
    change_second = partial(after_changes, of_second, predicted, batch_size)
    words_a, words_b = torch.arange(len(ids_a)), torch.arange(n)
    moves, swaps = moves_to_try(n, most_moves), swaps_to_try(n, most_moves)
    removed_a, _ = change_first(words_a, lambda batch: without(batch, len(ids_a)))
    removed_b, _ = change_second(words_b, lambda batch: without(batch, n))
    after_move, move_classes = change_second(moves, lambda batch: moved(batch, n))
    after_swap, swap_classes = change_second(swaps, lambda batch: swapped(batch, n))
    shuffled, shuffle_classes = change_second(torch.arange(n_shuffles), shuffling(n, seed))

    labels = matcher.labels
    probabilities = {}
    if labels:
        probabilities = dict(zip(labels, original[0].softmax(0).tolist(), strict=True))
    rounding = ROUNDING
    if not labels:
        rounding = SCORE_ROUNDING * (matcher.score_range[1] - matcher.score_range[0])
    reordering = partial(_reordering, matcher, tokens_b)
    worst_move = best_swap = None
    if len(moves) and float((value - after_move).max()) >= rounding:
        at = int(after_move.argmin())
        order = moved(moves[at : at + 1], n)
        worst_move = reordering(moves[at], order, move_classes[at], after_move[at], n_words=1)
    closer = value - after_swap if labels else after_swap - value
    if len(swaps) and float(closer.max()) >= rounding:
        at = int(closer.argmax())
        order = swapped(swaps[at : at + 1], n)
        best_swap = reordering(swaps[at], order, swap_classes[at], after_swap[at], n_words=2)
    change = torch.full((n, n), torch.nan, dtype=torch.double)
    change[moves[:, 0], moves[:, 1]] = after_move - value
    effects = effects_of_moves(change, rounding)
    return PairExplanation(
        text_a=text_a,
        text_b=text_b,
        label=labels[predicted] if labels else None,
        probabilities=probabilities,
        p=probabilities[labels[predicted]] if labels else float(value),
        words_a=[
            PairWord(*word) for word in _words(matcher, tokens_a, tokens_b, value - removed_a)
        ],
        words_b=[
            MovedPairWord(*word, *effect)
            for word, effect in zip(
                _words(matcher, tokens_b, tokens_a, value - removed_b), effects, strict=True
            )
        ],
        n_cut=(n_cut_a, n_cut_b),
        n_moves=len(moves),
        all_moves=len(moves) == n * (n - 1),
        moves_to_other_class=int((move_classes != predicted).sum()),
        worst_move=worst_move,
        n_swaps=len(swaps),
        best_swap=best_swap,
        n_shuffles=n_shuffles,
        shuffle_change=float((shuffled - value).abs().mean()) if n_shuffles else 0.0,
        shuffles_to_other_class=int((shuffle_classes != predicted).sum()),
    )


def _vectors(matcher: TextMatcher, ids: Tensor, orders: Tensor) -> Tensor:
    """Vectors of a sentence in other orders. Shape: ids (L,), orders (N, M) -> (N, width)"""
    lengths = torch.full((len(orders),), orders.shape[1])
    sentences = Sentences(ids[orders].flatten(), lengths)
    return vectors_of(matcher.model, matcher.model.normalized, sentences)


def _outputs(matcher: TextMatcher, first: Tensor, second: Tensor) -> Tensor:
    """Logits, or scores. Shape: two (N or 1, width) -> (N, n_classes or 1)"""
    u, v = torch.broadcast_tensors(first, second)
    with eval_mode(matcher.model) as device:
        logits = matcher.model.compare(u.to(device), v.to(device)).float().cpu()
    logits = finite(logits).double()
    return logits if matcher.labels else matcher.scores_of(logits)


def _words(
    matcher: TextMatcher, tokens: list[str], others: list[str], importance: Tensor
) -> Iterator[tuple[str, bool, bool, float]]:
    """The fields of `PairWord`. Shape: importance (L,)"""
    encoder, in_other = matcher.encoder, set(others)
    for token, effect in zip(tokens, importance.tolist(), strict=True):
        known = token in encoder.vocabulary
        yield token_text(encoder.tokenizer, token), known, token in in_other, effect


def _reordering(
    matcher: TextMatcher,
    tokens: list[str],
    change: Tensor,
    order: Tensor,
    class_after: Tensor,
    value: Tensor,
    *,
    n_words: int,
) -> Reordering:
    """Shape: change (2,), order (1, L), class and log-odds or score after it ()"""
    tokenizer, (one, other) = matcher.encoder.tokenizer, change.tolist()
    return Reordering(
        words=tuple(token_text(tokenizer, tokens[i]) for i in (one, other)[:n_words]),
        positions=(one + 1, other + 1),
        text=joined(tokenizer, [tokens[i] for i in order.flatten().tolist()]),
        label=matcher.labels[int(class_after)] if matcher.labels else None,
        p=float(value.sigmoid() if matcher.labels else value),
    )
