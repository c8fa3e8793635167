"""Rearranged sentences: for each new place, which of the old places its word comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.tasks.classifier import TextClassifier, finite, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import BPETokenizer
from wordwave.text.vocabulary import UNKNOWN, UNKNOWN_ID


def without(words: Tensor, n: int) -> Tensor:
    """Sentences of n words with one left out. Shape: words (N,) -> (N, n − 1)"""
    places = torch.arange(n - 1)
    return places + (places >= words.unsqueeze(1)).long()


def moved(moves: Tensor, n: int) -> Tensor:
    """Sentences of n words with one taken out and put back so that it stands at another place.

    Shape: moves (N, 2), the word's place and the new one, from 0 -> (N, n)
    """
    word, to = moves[:, :1], moves[:, 1:]
    place = torch.arange(n)
    back = ((place >= word) & (place < to)).long()
    forth = ((place <= word) & (place > to)).long()
    return torch.where(place == to, word, place + back - forth)


def moves_to_try(n: int, most: int) -> Tensor:
    """All moves of single words, or where these are more than `most`, those of each word to the
    next place and to places spread evenly from the first to the last.

    Shape: (N, 2), the word's place and the new one, from 0
    """
    if n * (n - 1) <= most:
        places = torch.arange(n)
    else:
        places = torch.linspace(0, n - 1, max(most // n, 3)).round().long().unique()
    word = torch.arange(n)
    pairs = torch.cartesian_prod(word, places)
    swaps = torch.stack([word[:-1], word[1:]], dim=1)
    pairs = torch.cat([pairs, swaps]).unique(dim=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]


@dataclass(frozen=True)
class WordPart:
    """What one word brings to the probability p of the predicted class."""

    word: str
    known: bool
    amplitude: float
    """Mean |amplitude|, or the norm of its vector where the embedding has no amplitudes."""
    frequency: float | None
    """δ, its mean |frequency|, where the embedding has frequencies."""
    importance: float
    """p − p of the text without the word."""
    swap: float | None
    """How p changes when the word and the next one change places; the last has no next one."""
    moved_mean: float
    """Order sensitivity: mean |change of p| over the other places it was moved to."""
    moved_max: float
    """The largest of these changes."""
    moved_to: int | None
    """The place of the largest change, from 1; none if no move changes p."""


@dataclass(frozen=True)
class Move:
    """One word at another place, and what that does."""

    word: str
    place: int
    to: int
    text: str
    label: str
    probability: float
    """Of the class predicted for the text as it was."""


@dataclass(frozen=True)
class Explanation:
    """Why a text got its class."""

    text: str
    label: str
    probabilities: dict[str, float]
    words: list[WordPart]
    amplitude_is: str
    """What the words' `amplitude` is: "mean |amplitude|", or "vector norm" without waves."""
    n_cut: int
    """Words beyond the model's greatest length, which it does not see."""
    n_moves: int
    all_moves: bool
    """Whether every word was moved to every place, or to some only."""
    moves_to_other_class: int
    worst_move: Move | None
    """The move that lowers p most; none if none lowers it."""
    n_shuffles: int
    shuffle_change: float
    """Mean |change of p| when all words are shuffled."""
    shuffles_to_other_class: int
    after_move: list[list[float | None]] = field(repr=False)
    """p after moving the word of a row to the place of a column; `None` if not tried."""

    @property
    def probability(self) -> float:
        """p, that of the predicted class."""
        return self.probabilities[self.label]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


IDS_AT_ONCE = 1 << 20
ROUNDING = 1e-5
"""A smaller change of a probability is the rounding of sums in another order."""


def explain(
    classifier: TextClassifier,
    text: str,
    *,
    n_shuffles: int = 100,
    most_moves: int = 2000,
    seed: int = 0,
) -> Explanation:
    """Explain the class of a text.

    Args:
        classifier: a trained one.
        text: of any length; longer ones than the model reads are cut.
        n_shuffles: how many random orders are tried.
        most_moves: above this number of single moves, words are moved to their next place and to
            places spread evenly over the text only, at least three each.
        seed: of the shuffles.
    """
    for name, value in (("n_shuffles", n_shuffles), ("most_moves", most_moves)):
        if value < 0:
            raise WordwaveError(f"{name} must be at least 0, got {value}")
    ids = classifier.encoder.encode([text]).sentences.ids.long()
    tokens = classifier.encoder.tokenizer(text)
    n, n_cut = len(ids), max(len(tokens) - len(ids), 0)
    tokens = tokens[:n] or [UNKNOWN]

    n_shuffles = n_shuffles if n > 1 else 0
    at_once = max(IDS_AT_ONCE // n, 1)

    def read(orders: Tensor) -> Tensor:
        """Probabilities of the words in each order. Shape: (N, any) -> (N, n_classes)"""
        lengths = torch.full((len(orders),), orders.shape[1])
        logits = logits_of(classifier.model, Sentences(ids[orders].flatten(), lengths))
        return finite(logits).double().softmax(-1)

    (whole,) = read(torch.arange(n).unsqueeze(0))
    said = int(whole.argmax())
    p = whole[said]

    def outcomes(orders: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        """P(said) and the likeliest class of each, which is all that is kept of many classes.

        Shape: (some, any), … -> (N,), (N,)
        """
        chances, classes = [torch.zeros(0, dtype=torch.double)], [torch.zeros(0, dtype=torch.long)]
        for some in orders:
            found = read(some)
            chances.append(found[:, said])
            classes.append(found.argmax(-1))
        return torch.cat(chances), torch.cat(classes)

    def shuffles() -> Iterator[Tensor]:
        chance = torch.Generator().manual_seed(seed)
        for start in range(0, n_shuffles, at_once):
            some = range(start, min(start + at_once, n_shuffles))
            yield torch.stack([torch.randperm(n, generator=chance) for _ in some])

    left_out = outcomes(without(some, n) for some in torch.arange(n).split(at_once))[0]
    moves = moves_to_try(n, most_moves)
    after, classes = outcomes(moved(some, n) for some in moves.split(at_once) if len(some))
    shuffled, shuffled_classes = outcomes(shuffles())
    grid = torch.full((n, n), torch.nan, dtype=torch.double)
    grid[moves[:, 0], moves[:, 1]] = after
    grid.fill_diagonal_(float(p))
    is_complex = classifier.model.embedding.field == "complex"
    return Explanation(
        text=text,
        label=classifier.labels[said],
        probabilities=dict(zip(classifier.labels, whole.tolist(), strict=True)),
        words=_words(classifier, tokens, ids, (p - left_out).tolist(), grid - p),
        amplitude_is="mean |amplitude|" if is_complex else "vector norm",
        n_cut=n_cut,
        n_moves=len(moves),
        all_moves=len(moves) == n * (n - 1),
        moves_to_other_class=int((classes != said).sum()),
        worst_move=_worst(classifier, tokens, moves, after, classes, float(p)),
        n_shuffles=n_shuffles,
        shuffle_change=float((shuffled - p).abs().mean()) if n_shuffles else 0.0,
        shuffles_to_other_class=int((shuffled_classes != said).sum()),
        after_move=[[None if q != q else q for q in row] for row in grid.tolist()],
    )


def _words(
    classifier: TextClassifier,
    tokens: list[str],
    ids: Tensor,
    importance: list[float],
    change: Tensor,
) -> list[WordPart]:
    """Shape: ids (L,), change of p (L, L), NaN where a move was not tried"""
    sizes, frequencies = _tables(classifier, ids)
    size = change.abs().fill_diagonal_(torch.nan)
    means = size.nanmean(dim=1).nan_to_num(0.0).tolist()
    largest, places = size.nan_to_num(-1.0).max(dim=1)
    return [
        WordPart(
            word=_spelled(classifier, token),
            known=int(ids[i]) != UNKNOWN_ID,
            amplitude=sizes[i],
            frequency=None if frequencies is None else frequencies[i],
            importance=importance[i],
            swap=float(change[i, i + 1]) if i + 1 < len(tokens) else None,
            moved_mean=means[i],
            moved_max=max(float(largest[i]), 0.0),
            moved_to=int(places[i]) + 1 if largest[i] > ROUNDING else None,
        )
        for i, token in enumerate(tokens)
    ]


@torch.no_grad()
def _tables(classifier: TextClassifier, ids: Tensor) -> tuple[list[float], list[float] | None]:
    """How large each word is, and δ of each word where there are frequencies."""
    embedding: Any = classifier.model.embedding
    table = embedding.meaning.float().cpu().expand(embedding.vocab_size, -1)[ids]
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
    order = moved(moves[at : at + 1], len(tokens))[0].tolist()
    return Move(
        word=_spelled(classifier, tokens[word]),
        place=word + 1,
        to=to + 1,
        text=_joined(classifier, [tokens[i] for i in order]),
        label=classifier.labels[int(classes[at])],
        probability=float(after[at]),
    )


def _spelled(classifier: TextClassifier, token: str) -> str:
    """A token as people write it: pieces of words are kept in bytes."""
    tokenizer = classifier.encoder.tokenizer
    if not isinstance(tokenizer, BPETokenizer):
        return token
    return tokenizer.decode([*tokenizer(""), token]).strip() or "␣"


def _joined(classifier: TextClassifier, tokens: list[str]) -> str:
    tokenizer = classifier.encoder.tokenizer
    if isinstance(tokenizer, BPETokenizer):
        return tokenizer.decode(tokens)
    return " ".join(tokens)
