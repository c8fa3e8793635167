"""Explain the predicted class of a text by removing, moving and shuffling its words.

An order is a tensor of positions: element i is the old position of the word at position i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.tasks.classifier import TextClassifier, finite, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import BPETokenizer, TextTokenizer
from wordwave.text.vocabulary import UNKNOWN, UNKNOWN_ID


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
    for name, value in (("n_shuffles", n_shuffles), ("most_moves", most_moves)):
        if value < 0:
            raise WordwaveError(f"{name} must be at least 0, got {value}")
    ids = classifier.encoder.encode([text]).sentences.ids.long()
    tokens = classifier.encoder.tokenizer(text)
    n, n_cut = len(ids), max(len(tokens) - len(ids), 0)
    tokens = tokens[:n] or [UNKNOWN]
    n_shuffles = n_shuffles if n > 1 else 0
    batch_size = max(IDS_PER_BATCH // n, 1)

    def probabilities(orders: Tensor) -> Tensor:
        """Shape: orders (N, L) -> (N, n_classes)"""
        lengths = torch.full((len(orders),), orders.shape[1])
        logits = logits_of(classifier.model, Sentences(ids[orders].flatten(), lengths))
        return finite(logits).double().softmax(-1)

    (original,) = probabilities(torch.arange(n).unsqueeze(0))
    predicted = int(original.argmax())
    p = original[predicted]

    def evaluate(orders: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        """p and the predicted class after each order: all that is kept of many classes.

        Shape: orders (B, L), … -> (N,), (N,)
        """
        after, classes = [torch.zeros(0, dtype=torch.double)], [torch.zeros(0, dtype=torch.long)]
        for batch in orders:
            found = probabilities(batch)
            after.append(found[:, predicted])
            classes.append(found.argmax(-1))
        return torch.cat(after), torch.cat(classes)

    def shuffles() -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        for start in range(0, n_shuffles, batch_size):
            batch = range(start, min(start + batch_size, n_shuffles))
            yield torch.stack([torch.randperm(n, generator=generator) for _ in batch])

    removed = evaluate(without(batch, n) for batch in torch.arange(n).split(batch_size))[0]
    moves = moves_to_try(n, most_moves)
    batches = moves.split(batch_size)
    after, classes = evaluate(moved(batch, n) for batch in batches if len(batch))
    shuffled, shuffled_classes = evaluate(shuffles())
    grid = torch.full((n, n), torch.nan, dtype=torch.double)
    grid[moves[:, 0], moves[:, 1]] = after
    grid.fill_diagonal_(float(p))
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
        worst_move=_worst(classifier, tokens, moves, after, classes, float(p)),
        n_shuffles=n_shuffles,
        shuffle_change=float((shuffled - p).abs().mean()) if n_shuffles else 0.0,
        shuffles_to_other_class=int((shuffled_classes != predicted).sum()),
        after_move=[[None if q != q else q for q in row] for row in grid.tolist()],
    )


def _words(
    classifier: TextClassifier,
    tokens: list[str],
    ids: Tensor,
    importance: list[float],
    change: Tensor,
) -> list[WordContribution]:
    """Shape: ids (L,), change of p (L, L), NaN for moves that were not tried"""
    amplitudes, frequencies = _amplitudes_and_frequencies(classifier, ids)
    size = change.abs().fill_diagonal_(torch.nan)
    means = size.nanmean(dim=1).nan_to_num(0.0).tolist()
    largest, positions = size.nan_to_num(-1.0).max(dim=1)
    return [
        WordContribution(
            word=_as_text(classifier.encoder.tokenizer, token),
            known=int(ids[i]) != UNKNOWN_ID,
            amplitude=amplitudes[i],
            frequency=None if frequencies is None else frequencies[i],
            importance=importance[i],
            swap=float(change[i, i + 1]) if i + 1 < len(tokens) else None,
            moved_mean=means[i],
            moved_max=max(float(largest[i]), 0.0),
            moved_to=int(positions[i]) + 1 if largest[i] > ROUNDING else None,
        )
        for i, token in enumerate(tokens)
    ]


@torch.no_grad()
def _amplitudes_and_frequencies(
    classifier: TextClassifier, ids: Tensor
) -> tuple[list[float], list[float] | None]:
    """Mean |amplitude| or vector norm of each word, and δ if the embedding has frequencies."""
    embedding: Any = classifier.model.embedding
    table = embedding.vectors.float().cpu().expand(embedding.vocab_size, -1)[ids]
    size = table.abs().mean(dim=1) if embedding.field == "complex" else table.norm(dim=1)
    if not hasattr(embedding, "sensitivity"):
        return size.tolist(), None
    return size.tolist(), embedding.sensitivity().float().cpu()[ids].tolist()


def _worst(
    classifier: TextClassifier,
    tokens: list[str],
    moves: Tensor,
    after: Tensor,
    classes: Tensor,
    p: float,
) -> Move | None:
    if not len(moves) or float(after.min()) > p - ROUNDING:
        return None
    at = int(after.argmin())
    word, to = moves[at].tolist()
    order = [tokens[i] for i in moved(moves[at : at + 1], len(tokens))[0].tolist()]
    tokenizer = classifier.encoder.tokenizer
    text = tokenizer.decode(order) if isinstance(tokenizer, BPETokenizer) else " ".join(order)
    return Move(
        word=_as_text(tokenizer, tokens[word]),
        place=word + 1,
        to=to + 1,
        text=text,
        label=classifier.labels[int(classes[at])],
        probability=float(after[at]),
    )


def _as_text(tokenizer: TextTokenizer, token: str) -> str:
    """A token as text: BPE tokens are stored as bytes."""
    if not isinstance(tokenizer, BPETokenizer):
        return token
    return tokenizer.decode([*tokenizer(""), token]).strip() or "␣"
