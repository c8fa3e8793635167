"""Fits the n-grams of a classifier, and how much they count beside its head.

The head and the linear model of n-grams are stacked: their logits are added with two weights that
are chosen on texts which neither was trained on. That also calibrates the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from wordwave.embedding.table import Bigrams
from wordwave.models.ngrams import NgramLogits
from wordwave.tasks.logistic import cross_entropy, logistic_regression
from wordwave.text.batching import Sentences
from wordwave.text.ngrams import Words, ngram_hashes
from wordwave.text.vocabulary import UNKNOWN_ID, Vocabulary

INVERSE_PENALTY = 10.0
"""scikit-learn's C: the weight of the loss beside half the squared coefficients."""
MAX_TEXTS, MAX_LOGITS = 200_000, 1 << 23
"""Of more texts, or of more logits of texts, a random sample is fitted."""
FIT_BYTES = 200
"""Per logit of the texts: vectors of Newton's method, and sparse products."""
MAX_SUBWORDS, MAX_COEFFICIENTS = 1 << 18, 1 << 23
USUAL_WEIGHTS = (0.1, 0.7)
"""Of the head and of the n-grams: what held-out texts of several data sets chose."""
PRIOR_STRENGTH = 4.0
"""How firmly few held-out texts are drawn to the usual weights."""


def room_for_subwords(vocabulary: Vocabulary, n_bigrams: int, n_classes: int) -> int:
    """The largest number of rows for n-grams; below 0 without room for words and bigrams."""
    return MAX_COEFFICIENTS // n_classes - len(vocabulary) - n_bigrams


def n_subwords_of(vocabulary: Vocabulary, n_bigrams: int, n_classes: int) -> int:
    """Rows for the n-grams of a vocabulary, two for each, so that most have one of their own, as
    far as there is room for them."""
    room = room_for_subwords(vocabulary, n_bigrams, n_classes)
    hashes = np.sort(ngram_hashes(Words.of(vocabulary.words[UNKNOWN_ID + 1 :]))[0])
    distinct = len(hashes) and 1 + np.count_nonzero(np.diff(hashes))  # np.unique takes longer
    return min(2 * int(distinct), MAX_SUBWORDS, room)


def fitted_rows(n_texts: int, n_classes: int) -> Any:
    """The texts that n-grams are fitted to, a random sample of many; `None` for all.

    Shape: (n,), ascending
    """
    most = _most_texts(n_classes)
    if n_texts <= most:
        return None
    return np.sort(np.random.default_rng(0).choice(n_texts, most, replace=False))


def fit_bytes(n_texts: int, n_classes: int) -> int:
    """Bytes that the fit takes, beside the coefficients."""
    return FIT_BYTES * min(n_texts, _most_texts(n_classes)) * n_classes


def _most_texts(n_classes: int) -> int:
    return max(min(MAX_TEXTS, MAX_LOGITS // n_classes), 1000)


class Counts:
    """The words, bigrams and n-grams of texts as sparse matrices, of which `fit` may take some.

    Words that are not in the vocabulary, U distinct ones, have n-grams too, as in predictions.

    Shape: has_words (N, V) and has_pairs (N, n_bigrams + 1) are 1 where a text has one, n_unknown
    (N, U) counts occurrences; n_grams (V + U, S + 1) counts the n-grams of each word
    """

    def __init__(
        self, sentences: Sentences, vocabulary: Vocabulary, bigrams: Bigrams | None, n_subwords: int
    ) -> None:
        from scipy.sparse import csr_matrix

        n, size = len(sentences), len(vocabulary)
        batch = sentences.batch(torch.arange(n))
        owners = batch.owners.numpy()
        pairs = np.zeros(len(owners), np.int64)
        n_pairs = 1
        if bigrams is not None:
            before = batch.ids.roll(1).index_fill(0, batch.starts[:-1][batch.lengths > 0], 0)
            device = bigrams.keys.device
            rows = bigrams.rows(before.to(device), batch.ids.to(device))
            pairs, n_pairs = rows.cpu().numpy(), bigrams.vocab_size
        is_known = batch.ids.numpy() > UNKNOWN_ID
        self.has_words = _presence(owners[is_known], batch.ids.numpy()[is_known], (n, size))
        self.has_pairs = _presence(owners[pairs > 0], pairs[pairs > 0], (n, n_pairs))
        spelled = Words.of(["", "", *vocabulary.words[UNKNOWN_ID + 1 :]])
        self.n_unknown, unknown = _unknown_words(sentences)
        hashes, starts = ngram_hashes(Words.joined([(spelled, 0), (unknown, size)]))
        frequent = np.concatenate([_column_sums(self.has_words), _texts_with(self.n_unknown)])
        of_word = np.repeat(np.arange(len(frequent)), np.diff(starts))
        self.keys = _assigned(hashes, frequent[of_word], n_subwords)
        rows = hashes % max(n_subwords, 1) + min(n_subwords, 1)
        kept = self.keys[rows] == hashes
        entries = (np.ones(int(kept.sum())), (of_word[kept], rows[kept]))
        self.n_grams = csr_matrix(entries, shape=(len(frequent), n_subwords + 1))

    def __len__(self) -> int:
        return self.has_words.shape[0]


def _unknown_words(sentences: Sentences) -> tuple[Any, Words]:
    """How often each text has each of the distinct unknown words, and these. Shape: (N, U)"""
    from scipy.sparse import csr_matrix

    words = sentences.unknown
    if words is None:
        return csr_matrix((len(sentences), 0)), Words.of([])
    text, starts = words.text.tobytes(), words.starts.tolist()
    number: dict[bytes, int] = {}
    found = (number.setdefault(text[a:b], len(number)) for a, b in pairwise(starts))
    numbers = np.fromiter(found, np.int64, len(words.owners))
    _, first = np.unique(numbers, return_index=True)
    entries = (np.ones(len(numbers)), (words.owners, numbers))
    return csr_matrix(entries, shape=(len(sentences), len(number))), words.take(first)


def _texts_with(counts: Any) -> Any:
    """In how many texts each word is. Shape: (N, U) -> (U,)"""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)


def _presence(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_matrix

    found = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    found.data[:] = 1.0  # of what is repeated
    return found


def _assigned(hashes: Any, counts: Any, n: int) -> Any:
    """The key of each row: of the n-grams that are hashed to it, the most frequent one.

    Shape: hashes, counts (m,) -> (n + 1,)
    """
    keys = np.zeros(n + 1, np.int64)
    if n and len(hashes):
        distinct, inverse = np.unique(hashes, return_inverse=True)
        order = np.argsort(np.bincount(inverse, counts), kind="stable")
        keys[distinct[order] % n + 1] = distinct[order]  # the last one stays
    return keys


@dataclass(frozen=True)
class Coefficients:
    """A fitted linear model: the tables of `NgramLogits`."""

    words: Any
    bigrams: Any
    subwords: Any
    bias: Any

    def assign(self, module: NgramLogits, keys: Any, weight: float) -> None:
        """Write the tables, with logits multiplied by a weight."""
        n_classes = module.n_classes
        for name in ("words", "bigrams", "subwords"):
            values = torch.from_numpy(getattr(self, name)).float()
            blocks = values.unflatten(-1, (-1, n_classes + 1))
            blocks[..., :-1] *= weight
            getattr(module, name).copy_(blocks.flatten(-2))
        module.keys.copy_(torch.from_numpy(keys))
        module.bias.copy_(torch.from_numpy(self.bias * weight).float())

    def logits(self, counts: Counts, rows: Any) -> Any:
        """Of some texts, which are those of `counts`. Shape: (n,) -> (n, C)"""
        n_classes = len(self.bias)
        of_words = counts.has_words[rows] @ self.words
        of_words[:, : n_classes + 1] += counts.has_pairs[rows] @ self.bigrams
        of_unknown = counts.n_grams[counts.has_words.shape[1] :] @ self.subwords
        of_words[:, n_classes + 1 :] += counts.n_unknown[rows] @ of_unknown
        found = self.bias
        for block in (of_words[:, : n_classes + 1], of_words[:, n_classes + 1 :]):
            found = found + block[:, :-1] / np.sqrt(np.maximum(block[:, -1:], 1e-12))
        return found


def fit(
    counts: Counts,
    targets: Any,
    n_classes: int,
    *,
    rows: Any = None,
    weights: Any = None,
) -> Coefficients:
    """Logistic regression with an L2 penalty.

    Args:
        rows: the texts to fit, by default all.
        weights: of each text in the loss, or of each label.

    Shape: targets (N,) or (N, C), rows (n,), weights (N,) or (N, C)
    """
    rows = np.arange(len(counts)) if rows is None else rows
    features, targets = TfIdf(counts, rows), targets[rows]
    shares = np.ones(len(rows)) if weights is None else weights[rows].astype(np.float64)
    shares = shares / max(shares.mean() * len(rows), 1e-12)
    penalty = 1.0 / (INVERSE_PENALTY * len(rows))
    of_texts, bias = logistic_regression(features, targets, shares, n_classes, penalty)
    return features.tables(features.coefficients(of_texts), bias)


class TfIdf:
    """The features of some texts: TF-IDF of words, bigrams and n-grams; see `NgramLogits`.

    The n-grams of a word are the same in all texts, so that products with them are computed once
    for each word, not for each text.

    Args:
        rows: the texts. Shape: (n,)
    """

    def __init__(self, counts: Counts, rows: Any) -> None:
        self.words, self.pairs = counts.has_words[rows], counts.has_pairs[rows]
        self.unknown, self.n_words = counts.n_unknown[rows], counts.has_words.shape[1]
        n, n_texts = len(rows), _column_sums(self.words)
        of_grams = counts.n_grams.T @ np.concatenate([n_texts, _texts_with(self.unknown)])
        self.idf_words = _idf(n, n_texts)[:, None]
        self.idf_pairs = _idf(n, _column_sums(self.pairs))[:, None]
        # Half of the rows for n-grams are empty.
        self.n_subwords, self.used = len(of_grams), np.flatnonzero(of_grams)
        self.idf_grams = _idf(n, np.minimum(of_grams[self.used], n))[:, None]
        n_grams = counts.n_grams[:, self.used]
        self.grams = n_grams.multiply(self.idf_grams.T).tocsr()
        self.squares = n_grams @ np.square(self.idf_grams)
        of_pairs = self.pairs @ np.square(self.idf_pairs)
        self.by_length = _inverse_root(self.words @ np.square(self.idf_words) + of_pairs)
        self.by_grams = _inverse_root(self._of_grams(self.squares))
        matrices = (self.words, self.pairs, self.unknown, self.grams)
        self.transposed = tuple(matrix.T.tocsr() for matrix in matrices)

    def coefficients(self, of_texts: Any) -> tuple[Any, ...]:
        words, pairs, unknown, grams = self.transposed
        by_length, by_grams = self.by_length * of_texts, self.by_grams * of_texts
        of_words, of_spelling = np.hsplit(words @ np.hstack([by_length, by_grams]), 2)
        return (
            self.idf_words * of_words,
            self.idf_pairs * (pairs @ by_length),
            grams @ np.vstack([of_spelling, unknown @ by_grams]),
        )

    def logits(self, of_words: Any, of_pairs: Any, of_grams: Any) -> Any:
        of_spelling = self.grams @ of_grams
        both = [self.idf_words * of_words, of_spelling[: self.n_words]]
        first, second = np.hsplit(self.words @ np.hstack(both), 2)
        first += self.pairs @ (self.idf_pairs * of_pairs)
        second += self.unknown @ of_spelling[self.n_words :]
        return self.by_length * first + self.by_grams * second

    def _of_grams(self, of_spelling: Any) -> Any:
        """Sums over the words of texts, the unknown ones included. Shape: (V + U, C) -> (n, C)"""
        known, unknown = np.split(of_spelling, [self.n_words])
        return self.words @ known + self.unknown @ unknown

    def tables(self, coefficients: tuple[Any, ...], bias: Any) -> Coefficients:
        """What a model with these coefficients adds up."""
        of_words, of_pairs, of_grams = coefficients
        subwords = np.zeros((self.n_subwords, len(bias) + 1))
        subwords[self.used] = np.hstack([self.idf_grams * of_grams, np.square(self.idf_grams)])
        return Coefficients(
            np.hstack([
                self.idf_words * of_words, np.square(self.idf_words),
                (self.grams @ of_grams)[: self.n_words], self.squares[: self.n_words],
            ]),
            np.hstack([self.idf_pairs * of_pairs, np.square(self.idf_pairs)]),
            subwords,
            bias,
        )  # fmt: skip


def _column_sums(matrix: Any) -> Any:
    return np.asarray(matrix.sum(0)).ravel()


def _idf(n: int, counts: Any) -> Any:
    """As in scikit-learn; 0 for what is in no text."""
    return (np.log((1 + n) / (1 + counts)) + 1.0) * (counts > 0)


def _inverse_root(squares: Any) -> Any:
    return 1.0 / np.sqrt(np.maximum(squares, 1e-12))


def stacking_weights(
    of_head: Any, of_ngrams: Any, targets: Any, weights: Any = None
) -> tuple[float, float]:
    """Weights of two logits of held-out texts, above 0, that minimize the loss of their sum.

    Shape: of_head, of_ngrams (N, C), targets (N,) or (N, C), weights (N,) or (N, C)
    """
    from scipy.optimize import minimize

    usual = np.log(USUAL_WEIGHTS)
    shares = np.ones(len(targets)) if weights is None else weights.astype(np.float64)

    def objective(logs: Any) -> tuple[float, Any]:
        first, second = np.exp(logs)
        loss, by_logits = cross_entropy(first * of_head + second * of_ngrams, targets, shares)
        gradient = [first * (by_logits * of_head).sum(), second * (by_logits * of_ngrams).sum()]
        away = logs - usual
        total = loss + float(PRIOR_STRENGTH * away @ away)
        return total, np.array(gradient) + 2 * PRIOR_STRENGTH * away

    found = minimize(objective, usual, jac=True, method="L-BFGS-B", bounds=[(-9.0, 4.0)] * 2)
    first, second = np.exp(found.x)
    return float(first), float(second)


def folds_of(targets: Any, n: int) -> list[tuple[Any, Any]]:
    """Texts to train on and to hold out, n times, each class spread evenly.

    Shape: (N,) or (N, C)
    """
    order = np.random.default_rng(0).permutation(len(targets))
    classes = targets if targets.ndim == 1 else targets @ np.arange(1, targets.shape[1] + 1)
    fold = np.empty(len(targets), np.int64)
    fold[order[np.argsort(classes[order], kind="stable")]] = np.arange(len(targets)) % n
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n)]
