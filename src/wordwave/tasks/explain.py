"""Explain the predicted class of a text by removing, moving and shuffling its words.

An order is a tensor of positions: element i is the old position of the word at position i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.tasks.classifier import TextClassifier, finite, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, TextTokenizer
from wordwave.text.vocabulary import UNKNOWN


def without(words: Tensor, n: int) -> Tensor:
    """Orders of n words with one removed. Shape: words (N,) -> (N, n − 1)"""
    positions = torch.arange(n - 1)
    return positions + (positions >= words.unsqueeze(1)).long()


def moved(moves: Tensor, n: int) -> Tensor:
    """Orders of n words with one moved to another position.

    Shape: moves (N, 2), the word's position and the new one, from 0 -> (N, n)
    """
    word, to = moves[:, :1], moves[:, 1:]
    position = torch.arange(n)
    left = ((position >= word) & (position < to)).long()
    right = ((position <= word) & (position > to)).long()
    return torch.where(position == to, word, position + left - right)


def moves_to_try(n: int, most: int) -> Tensor:
    """All moves of single words; if there are more than `most`, those of each word to the next
    position and to positions evenly spaced from the first to the last.

    Shape: (N, 2), the word's position and the new one, from 0
    """
    words = positions = torch.arange(n)
    if n * (n - 1) > most:
        positions = torch.linspace(0, n - 1, max(most // n, 3)).round().long().unique()
    swaps = torch.stack([words[:-1], words[1:]], dim=1)
    moves = torch.cat([torch.cartesian_prod(words, positions), swaps]).unique(dim=0)
    return moves[moves[:, 0] != moves[:, 1]]


@dataclass(frozen=True)
class WordContribution:
    """The contribution of one word to p, the probability of the predicted class."""

    word: str
    known: bool
    amplitude: float
    """Mean |amplitude|, or the norm of the vector if the embedding has no amplitudes."""
    frequency: float | None
    """δ, the mean |frequency|, if the embedding has frequencies."""
    importance: float
    """p minus p of the text without the word."""
    swap: float | None
    """Change of p when the word is swapped with the next one; `None` for the last."""
    moved_mean: float
    """Order sensitivity: mean |change of p| over the positions it was moved to."""
    moved_max: float
    """The largest of these changes."""
    moved_to: int | None
    """The position of the largest change, from 1; `None` if no move changes p."""


@dataclass(frozen=True)
class Move:
    """A move of one word, and the prediction after it."""

    word: str
    place: int
    to: int
    text: str
    label: str
    probability: float
    """Of the class predicted for the original text."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of a predicted class."""

    text: str
    label: str
    probabilities: dict[str, float]
    words: list[WordContribution]
    amplitude_is: str
    """What `amplitude` of the words is: "mean |amplitude|", or "vector norm"."""
    n_cut: int
    """Words beyond the maximum length of the model, which it does not see."""
    n_moves: int
    all_moves: bool
    """Whether every word was moved to every position."""
    moves_to_other_class: int
    worst_move: Move | None
    """The move that lowers p most; `None` if no move lowers it."""
    n_shuffles: int
    shuffle_change: float
    """Mean |change of p| when all words are shuffled."""
    shuffles_to_other_class: int
    after_move: list[list[float | None]] = field(repr=False)
    """p after moving the word of a row to the position of a column; `None` if not tried."""

    @property
    def probability(self) -> float:
        """p, the probability of the predicted class."""
        return self.probabilities[self.label]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-serialisable form."""
        return asdict(self)


IDS_PER_BATCH = 1 << 20
ROUNDING = 1e-5
"""Smaller changes of a probability may be due to rounding."""


def explain(
    classifier: TextClassifier,
    text: str,
    *,
    n_shuffles: int = 100,
    most_moves: int = 2000,
    seed: int = 0,
) -> Explanation:
    """Explain the predicted class of a text.

    Args:
        text: of any length; it is truncated to the maximum length of the model.
        n_shuffles: the number of random permutations of the words.
        most_moves: above this number of single moves, each word is moved to the next position and
            to evenly spaced ones only, at least three.
        seed: of the permutations.
    """
    check_counts(n_shuffles, most_moves)
    tokens, ids, n_cut = tokenized(classifier.encoder, text)
    n = len(ids)
    n_shuffles = n_shuffles if n > 1 else 0

    def probabilities(orders: Tensor) -> Tensor:
        """Shape: orders (N, L) -> (N, n_classes)"""
        lengths = torch.full((len(orders),), orders.shape[1])
        logits = logits_of(classifier.model, Sentences(ids[orders].flatten(), lengths))
        return finite(logits).double().softmax(-1)

    (original,) = probabilities(torch.arange(n).unsqueeze(0))
    predicted = int(original.argmax())
    p = original[predicted]
    evaluate = partial(after_changes, probabilities, predicted, max(IDS_PER_BATCH // n, 1))
    moves = moves_to_try(n, most_moves)
    removed, _ = evaluate(torch.arange(n), lambda words: without(words, n))
    after, classes = evaluate(moves, lambda batch: moved(batch, n))
    shuffled, shuffled_classes = evaluate(torch.arange(n_shuffles), shuffling(n, seed))
    grid = torch.full((n, n), torch.nan, dtype=torch.double)
    grid[moves[:, 0], moves[:, 1]] = after
    grid.fill_diagonal_(float(p))
    worst = None
    if len(moves) and float(after.min()) <= p - ROUNDING:
        at = int(after.argmin())
        worst = _move(classifier, tokens, moves[at], classes[at], after[at])
    is_complex = classifier.model.embedding.field == "complex"
    return Explanation(
        text=text,
        label=classifier.labels[predicted],
        probabilities=dict(zip(classifier.labels, original.tolist(), strict=True)),
        words=_words(classifier, tokens, ids, (p - removed).tolist(), grid - p),
        amplitude_is="mean |amplitude|" if is_complex else "vector norm",
        n_cut=n_cut,
        n_moves=len(moves),
        all_moves=len(moves) == n * (n - 1),
        moves_to_other_class=int((classes != predicted).sum()),
        worst_move=worst,
        n_shuffles=n_shuffles,
        shuffle_change=float((shuffled - p).abs().mean()) if n_shuffles else 0.0,
        shuffles_to_other_class=int((shuffled_classes != predicted).sum()),
        after_move=[[None if q != q else q for q in row] for row in grid.tolist()],
    )


def check_counts(n_shuffles: int, most_moves: int) -> None:
    for name, value in (("n_shuffles", n_shuffles), ("most_moves", most_moves)):
        if value < 0:
            raise WordwaveError(f"{name} must be at least 0, got {value}")


def tokenized(encoder: TextEncoder, text: str) -> tuple[list[str], Tensor, int]:
    """Tokens and ids of a text, truncated, and the number of tokens beyond. Shape: ids (L,)"""
    ids = encoder.encode([text]).sentences.ids.long()
    tokens = encoder.tokenizer(text)
    return tokens[: len(ids)] or [UNKNOWN], ids, max(len(tokens) - len(ids), 0)


def shuffling(n: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A function that draws random orders of n words. Shape: (B,) -> (B, n)"""
    generator = torch.Generator().manual_seed(seed)
    return lambda batch: torch.stack([torch.randperm(n, generator=generator) for _ in batch])


def after_changes(
    outputs: Callable[[Tensor], Tensor],
    predicted: int,
    batch_size: int,
    changes: Tensor,
    orders: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """p and the predicted class after each change: all that is kept of many classes.

    Shape: outputs (B, L) -> (B, n_classes), orders (B, …) -> (B, L), changes (N, …); returns (N,)
    and (N,)
    """
    after = torch.empty(len(changes), dtype=torch.double)
    classes = torch.empty(len(changes), dtype=torch.long)
    for start in range(0, len(changes), batch_size):
        batch = slice(start, start + batch_size)
        found = outputs(orders(changes[batch]))
        after[batch], classes[batch] = found[:, predicted], found.argmax(-1)
    return after, classes


@torch.no_grad()
def _words(
    classifier: TextClassifier,
    tokens: list[str],
    ids: Tensor,
    importance: list[float],
    change: Tensor,
) -> list[WordContribution]:
    """Shape: ids (L,), change of p (L, L), NaN for moves that were not tried"""
    embedding: Any = classifier.model.embedding
    table = embedding.vectors.float().cpu().expand(embedding.vocab_size, -1)[ids]
    sizes = table.abs().mean(dim=1) if embedding.field == "complex" else table.norm(dim=1)
    frequencies = None
    if hasattr(embedding, "sensitivity"):
        frequencies = embedding.sensitivity().float().cpu()[ids].tolist()
    effects = effects_of_moves(change)
    return [
        WordContribution(
            word=token_text(classifier.encoder.tokenizer, token),
            known=token in classifier.encoder.vocabulary,
            amplitude=float(sizes[i]),
            frequency=None if frequencies is None else frequencies[i],
            importance=importance[i],
            swap=float(change[i, i + 1]) if i + 1 < len(tokens) else None,
            moved_mean=effects[i][0],
            moved_max=effects[i][1],
            moved_to=effects[i][2],
        )
        for i, token in enumerate(tokens)
    ]


def effects_of_moves(
    change: Tensor, rounding: float = ROUNDING
) -> list[tuple[float, float, int | None]]:
    """Mean and maximum of |change| over the moves of each word, and the position of the maximum,
    from 1, or `None` if it may be due to rounding.

    Shape: change (L, L), NaN for moves that were not tried
    """
    sizes = change.abs().fill_diagonal_(torch.nan)
    means = sizes.nanmean(dim=1).nan_to_num(0.0).tolist()
    largest, positions = sizes.nan_to_num(-1.0).max(dim=1)
    return [
        (mean, max(size, 0.0), position + 1 if size > rounding else None)
        for mean, size, position in zip(means, largest.tolist(), positions.tolist(), strict=True)
    ]


def _move(
    classifier: TextClassifier, tokens: list[str], move: Tensor, class_after: Tensor, p: Tensor
) -> Move:
    """Shape: move (2,), class and p after it ()"""
    word, to = move.tolist()
    order = [tokens[i] for i in moved(move.unsqueeze(0), len(tokens))[0].tolist()]
    tokenizer = classifier.encoder.tokenizer
    return Move(
        word=token_text(tokenizer, tokens[word]),
        place=word + 1,
        to=to + 1,
        text=joined(tokenizer, order),
        label=classifier.labels[int(class_after)],
        probability=float(p),
    )


def joined(tokenizer: TextTokenizer, tokens: list[str]) -> str:
    """Tokens as a text."""
    return tokenizer.decode(tokens) if isinstance(tokenizer, BPETokenizer) else " ".join(tokens)


def token_text(tokenizer: TextTokenizer, token: str) -> str:
    """A token as text: BPE tokens are stored as bytes."""
    if not isinstance(tokenizer, BPETokenizer):
        return token
    return tokenizer.decode([*tokenizer(""), token]).strip() or "␣"
