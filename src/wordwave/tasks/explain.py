"""Explain the predicted class of a text by removing, moving and shuffling its words.

Effects are changes of the log-odds ln(p / (1 − p)) of the predicted class, p its probability: they
tell words apart also where p is close to 1, and of two classes they are changes of the difference
of the logits. p is the sigmoid of the log-odds.

An order is a tensor of positions: element i is the old position of the word at position i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from reprlib import repr as clipped
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave.errors import WordwaveError, suggestion
from wordwave.tasks.classifier import TextClassifier, finite, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.ngrams import Words
from wordwave.text.tokenizers import BPETokenizer, TextTokenizer
from wordwave.text.vocabulary import SPECIALS, UNKNOWN, UNKNOWN_ID


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


def log_odds(logits: Tensor, predicted: int, *, multi_label: bool = False) -> Tensor:
    """ln(p / (1 − p)) of one class, computed without 1 − p, which is 0 for large logits. Of one of
    several labels, it is the logit. A single output, a score, is returned as it is.

    Shape: (N, n_classes) -> (N,)
    """
    if multi_label or logits.shape[-1] == 1:
        return logits[:, predicted]
    others = torch.arange(logits.shape[-1]) != predicted
    return logits[:, predicted] - logits[:, others].logsumexp(-1)


@dataclass(frozen=True)
class WordContribution:
    """The contribution of one word to the log-odds of the predicted class."""

    word: str
    known: bool
    amplitude: float
    """Mean |amplitude|, or the norm of the vector if the embedding has no amplitudes."""
    frequency: float | None
    """δ, the mean |frequency|, if the embedding has frequencies."""
    importance: float
    """The log-odds minus those of the text without the word."""
    p_without: float
    """p of the text without the word."""
    swap: float | None
    """Change of the log-odds when the word is swapped with the next one; `None` for the last."""
    moved_mean: float
    """Order sensitivity: mean |change of the log-odds| over the positions it was moved to."""
    moved_max: float
    """The largest of these changes."""
    moved_to: int | None
    """The position of the largest change, from 1; `None` if no move changes the log-odds."""


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
    log_odds: float
    """Of the same class."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of a predicted class."""

    text: str
    label: str
    probabilities: dict[str, float]
    log_odds: float
    """ln(p / (1 − p)), p the probability of the predicted class."""
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
    """Mean |change of the log-odds| when all words are shuffled."""
    shuffles_to_other_class: int
    after_move: list[list[float | None]] = field(repr=False)
    """The log-odds after moving the word of a row to the position of a column; `None` if not
    tried."""

    @property
    def probability(self) -> float:
        """p, the probability of the predicted class."""
        return self.probabilities[self.label]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-serialisable form."""
        return asdict(self)


IDS_PER_BATCH = 1 << 20
ROUNDING = 1e-4
"""Smaller changes of the log-odds may be due to rounding: logits are float32 sums."""


def explain(
    classifier: TextClassifier,
    text: str,
    *,
    n_shuffles: int = 100,
    most_moves: int = 2000,
    seed: int = 0,
    label: str | None = None,
) -> Explanation:
    """Explain the predicted class of a text.

    Args:
        text: of any length; it is truncated to the maximum length of the model.
        label: the class whose probability is explained, by default the most probable one.
        n_shuffles: the number of random permutations of the words.
        most_moves: above this number of single moves, each word is moved to the next position and
            to evenly spaced ones only, at least three.
        seed: of the permutations.
    """
    check_counts(n_shuffles, most_moves)
    tokens, ids, n_cut = tokenized(classifier.encoder, text)
    n = len(ids)
    n_shuffles = n_shuffles if n > 1 else 0

    def logits(orders: Tensor) -> Tensor:
        """Shape: orders (N, L) -> (N, n_classes)"""
        sentences = sentences_of_orders(classifier.encoder, tokens, ids, orders)
        return finite(logits_of(classifier.model, sentences)).double()

    original = logits(torch.arange(n).unsqueeze(0))
    likeliest = int(original.argmax())
    explained = likeliest if label is None else _class_of(classifier, label)
    several = classifier.multi_label
    (odds,) = log_odds(original, explained, multi_label=several)
    evaluate = partial(
        after_changes, logits, explained, max(IDS_PER_BATCH // n, 1), multi_label=several
    )
    moves = moves_to_try(n, most_moves)
    removed, _ = evaluate(torch.arange(n), lambda words: without(words, n))
    after, classes = evaluate(moves, lambda batch: moved(batch, n))
    shuffled, shuffled_classes = evaluate(torch.arange(n_shuffles), shuffling(n, seed))
    grid = torch.full((n, n), torch.nan, dtype=torch.double)
    grid[moves[:, 0], moves[:, 1]] = after
    grid.fill_diagonal_(float(odds))
    worst = None
    if len(moves) and float(after.min()) <= odds - ROUNDING:
        at = int(after.argmin())
        worst = _move(classifier, tokens, moves[at], classes[at], after[at])
    (probabilities,) = classifier.probabilities_of(original)
    is_complex = classifier.model.embedding.field == "complex"
    return Explanation(
        text=text,
        label=classifier.labels[explained],
        probabilities=dict(zip(classifier.labels, probabilities.tolist(), strict=True)),
        log_odds=float(odds),
        words=_words(classifier, tokens, ids, odds, removed, grid - odds),
        amplitude_is="mean |amplitude|" if is_complex else "vector norm",
        n_cut=n_cut,
        n_moves=len(moves),
        all_moves=len(moves) == n * (n - 1),
        moves_to_other_class=int((classes != likeliest).sum()),
        worst_move=worst,
        n_shuffles=n_shuffles,
        shuffle_change=float((shuffled - odds).abs().mean()) if n_shuffles else 0.0,
        shuffles_to_other_class=int((shuffled_classes != likeliest).sum()),
        after_move=[[None if q != q else q for q in row] for row in grid.tolist()],
    )


def _class_of(classifier: TextClassifier, label: str) -> int:
    if label not in classifier.labels:
        known = ", ".join(map(clipped, classifier.labels[:20]))
        raise WordwaveError(f"label must be one of {known}, got {clipped(label)}")
    return classifier.labels.index(label)


def check_counts(n_shuffles: int, most_moves: int) -> None:
    for name, value in (("n_shuffles", n_shuffles), ("most_moves", most_moves)):
        if value < 0:
            raise WordwaveError(f"{name} must be at least 0, got {value}")


def tokenized(encoder: TextEncoder, text: str) -> tuple[list[str], Tensor, int]:
    """Tokens and ids of a text, truncated, and the number of tokens beyond. Shape: ids (L,)"""
    ids = encoder.encode([text]).sentences.ids.long()
    tokens = encoder.tokenizer(text)
    return tokens[: len(ids)] or [UNKNOWN], ids, max(len(tokens) - len(ids), 0)


def sentences_of_orders(
    encoder: TextEncoder, tokens: list[str], ids: Tensor, orders: Tensor
) -> Sentences:
    """The words of a text in other orders, with the spelling of unknown ones if the model needs it.

    Shape: ids (L,), orders (N, M), from 0 -> N sentences of M words
    """
    rows, unknown = ids[orders], None
    if encoder.keep_unknown:
        owners, at = (rows == UNKNOWN_ID).nonzero(as_tuple=True)
        spelled = [tokens[i] for i in orders[owners, at].tolist()]
        unknown = None if tokens == [UNKNOWN] else Words.of(spelled, owners.tolist())
    lengths = torch.full((len(rows),), rows.shape[1])
    return Sentences(rows.flatten(), lengths, unknown=unknown)


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
    *,
    multi_label: bool = False,
) -> tuple[Tensor, Tensor]:
    """The log-odds and the predicted class after each change: all that is kept of many classes.

    Shape: outputs (B, L) -> (B, n_classes), orders (B, …) -> (B, L), changes (N, …); returns (N,)
    and (N,)
    """
    after = torch.empty(len(changes), dtype=torch.double)
    classes = torch.empty(len(changes), dtype=torch.long)
    for start in range(0, len(changes), batch_size):
        batch = slice(start, start + batch_size)
        found = outputs(orders(changes[batch]))
        after[batch] = log_odds(found, predicted, multi_label=multi_label)
        classes[batch] = found.argmax(-1)
    return after, classes


@torch.no_grad()
def _words(
    classifier: TextClassifier,
    tokens: list[str],
    ids: Tensor,
    odds: Tensor,
    removed: Tensor,
    change: Tensor,
) -> list[WordContribution]:
    """Shape: ids (L,), log-odds (), without a word (L,), their change by moves (L, L), NaN for
    moves that were not tried"""
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
            importance=float(odds - removed[i]),
            p_without=float(removed[i].sigmoid()),
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
    classifier: TextClassifier, tokens: list[str], move: Tensor, class_after: Tensor, odds: Tensor
) -> Move:
    """Shape: move (2,), class and log-odds after it ()"""
    word, to = move.tolist()
    order = [tokens[i] for i in moved(move.unsqueeze(0), len(tokens))[0].tolist()]
    tokenizer = classifier.encoder.tokenizer
    return Move(
        word=token_text(tokenizer, tokens[word]),
        place=word + 1,
        to=to + 1,
        text=joined(tokenizer, order),
        label=classifier.labels[int(class_after)],
        probability=float(odds.sigmoid()),
        log_odds=float(odds),
    )


def nearest_words(classifier: TextClassifier, word: str, n: int = 10) -> list[tuple[str, float]]:
    """As `TextClassifier.nearest_words`."""
    if n < 1:
        raise WordwaveError(f"n must be at least 1, got {n}")
    encoder = classifier.encoder
    tokens, words = encoder.tokenizer(word), encoder.vocabulary.words
    if len(tokens) != 1 or tokens[0] not in encoder.vocabulary:
        got = f", got {len(tokens)} tokens" if len(tokens) != 1 else ""
        hint = suggestion(tokens[0], words[len(SPECIALS) :]) if len(tokens) == 1 else ""
        raise WordwaveError(f"{clipped(word)} must be one word of the vocabulary{got}{hint}")
    rows, cosines = nearest_rows(classifier.model.embedding, words.index(tokens[0]), n)
    found = [token_text(encoder.tokenizer, words[i]) for i in rows.tolist()]
    return list(zip(found, cosines.tolist(), strict=True))


@torch.no_grad()
def nearest_rows(embedding: Any, word: int, n: int) -> tuple[Tensor, Tensor]:
    """The rows of at most n words whose amplitudes (or vectors) are most similar to those of the
    row `word`, and their cosines. Shape: (n,), (n,)"""
    table = embedding.vectors.float().cpu().expand(embedding.vocab_size, -1)
    cosines = F.cosine_similarity(table, table[word].unsqueeze(0), dim=1)
    cosines[[*range(len(SPECIALS)), word]] = -2.0
    n = min(n, len(table) - len(SPECIALS) - (word >= len(SPECIALS)))
    values, rows = cosines.topk(max(n, 0))
    return rows, values


def joined(tokenizer: TextTokenizer, tokens: list[str]) -> str:
    """Tokens as a text."""
    return tokenizer.decode(tokens) if isinstance(tokenizer, BPETokenizer) else " ".join(tokens)


def token_text(tokenizer: TextTokenizer, token: str) -> str:
    """A token as text: BPE tokens are stored as bytes."""
    if not isinstance(tokenizer, BPETokenizer):
        return token
    return tokenizer.decode([*tokenizer(""), token]).strip() or "␣"
