"""Logits that are linear in the TF-IDF of words, bigrams and the character n-grams of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.compiled import compiled
from wordwave.embedding.summed import bigrams_of, check_batch
from wordwave.embedding.wave import check_ids, has_no_values
from wordwave.errors import WordwaveError
from wordwave.text.ngrams import Words, ngram_blocks

if TYPE_CHECKING:
    from wordwave.embedding.table import Bigrams
    from wordwave.text.batching import Batch


AT_ONCE = 1 << 22
"""Numbers of the rows of n-grams that are added at once."""


class NgramLogits(nn.Module):
    """A linear classifier of two TF-IDF vectors of a sentence, each of length 1: one of its words
    and bigrams, one of the character n-grams of its words.

    Each distinct word and bigram counts once, unknown words each time. Everything that a word
    contributes is one row of a table, the sum of its n-grams included, so that a sentence costs a
    sum of rows; the n-grams of words that are not in the vocabulary are looked up by their hashes.
    With idf weights u and coefficients W, words w, bigrams b and n-grams g of a sentence,

        logits = bias + Σ_{w,b} u·W / √Σ_{w,b} u² + Σ_g u·W / √Σ_g u²

    The tables are fitted by `wordwave.tasks.stacking`, not by gradient descent, and are buffers.

    Shape: words (V, 2·C + 2): Σ u·W and Σ u² of the word, then of its n-grams; bigrams (N, C + 1),
    subwords (S + 1, C + 1), with row 0 for none; keys (S + 1,), the hash of each subword
    """

    words: Tensor
    bigrams: Tensor
    subwords: Tensor
    keys: Tensor
    bias: Tensor

    def __init__(
        self, vocab_size: int, n_classes: int, *, n_bigrams: int = 0, n_subwords: int = 0
    ) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.register_buffer("words", torch.zeros(vocab_size, 2 * n_classes + 2))
        self.register_buffer("bigrams", torch.zeros(n_bigrams + 1, n_classes + 1))
        self.register_buffer("subwords", torch.zeros(n_subwords + 1, n_classes + 1))
        self.register_buffer("keys", torch.zeros(n_subwords + 1, dtype=torch.long))
        self.register_buffer("bias", torch.zeros(n_classes))

    def forward(
        self, ids: Tensor, pairs: Tensor | None = None, unknown: Tensor | None = None
    ) -> Tensor:
        """Logits of padded sentences.

        Args:
            pairs: the rows of bigrams, 0 for none.
            unknown: from `sums_of_unknown`.

        Shape: ids, pairs (B, L), unknown (B, C + 1) -> (B, n_classes)
        """
        of_words = F.embedding(_distinct(ids), self.words).sum(1)
        found = None if pairs is None else F.embedding(_distinct(pairs), self.bigrams).sum(1)
        return self._logits(of_words, found, unknown)

    def of_batch(
        self,
        batch: Batch,
        bigrams: Bigrams | None,
        unknown: Tensor | None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Logits of sentences without padding.

        Args:
            rows: those of bigrams, if they are known.

        Shape: rows (T,) -> (B, n_classes)
        """
        kernels = compiled()
        is_plain = self.words.dtype == torch.float32 and self.words.device.type == "cpu"
        if kernels is None or not is_plain or has_no_values(batch.ids):
            ids, _ = batch.padded()
            pairs = None if bigrams is None else bigrams.pairs(ids)
            return self(ids, pairs, unknown)
        check_batch(batch, rows)
        if rows is None:
            found = None if bigrams is None else bigrams_of(bigrams, batch).rows
            rows = torch.zeros_like(batch.ids) if found is None else found
        tables = (self.words, self.bigrams)
        seen = (torch.full((len(table),), -1, dtype=torch.int32) for table in tables)
        sums = [torch.zeros(batch.size, table.shape[1]) for table in tables]
        given = (batch.ids, batch.starts, rows, *tables, *seen, *sums)
        if kernels.sum_ngrams(*(part.numpy() for part in given)) >= 0:
            check_ids(batch.ids, len(self.words))
            check_ids(rows, len(self.bigrams))
        return self._logits(sums[0], sums[1], unknown)

    def sums_of_unknown(self, words: Words | None, n: int) -> Tensor | None:
        """What the n-grams of unknown words add to each of n sentences. Shape: (n, C + 1)"""
        if words is None or not len(words.owners) or len(self.subwords) < 2:
            return None
        device = self.subwords.device
        sums = self.subwords.new_zeros(n, self.subwords.shape[1])
        at_once = max(AT_ONCE // self.subwords.shape[1], 1)
        for hashes, of in ngram_blocks(words):
            rows = hashes % (len(self.keys) - 1) + 1
            is_known = self.keys[torch.from_numpy(rows).to(device)].cpu().numpy() == hashes
            owners, known = torch.from_numpy(of[is_known]), torch.from_numpy(rows[is_known])
            for some, whose in zip(known.split(at_once), owners.split(at_once), strict=True):
                sums.index_add_(0, whose.to(device), self.subwords[some.to(device)])
        return sums

    @property
    def n_coefficients(self) -> int:
        """The number of fitted coefficients: of each word, bigram and n-gram that has an idf
        weight, one for each class, and the biases."""
        tables = (self.words[:, : self.n_classes + 1], self.bigrams, self.subwords)
        n_terms = sum(int(table[:, -1].count_nonzero()) for table in tables)
        return n_terms * self.n_classes + len(self.bias)

    def check_keys(self) -> None:
        """Refuse keys that are not at their row, such as those of a damaged file."""
        rows = self.keys.nonzero().squeeze(1)
        keys = self.keys[rows]
        n = max(len(self.keys) - 1, 1)
        if not bool(((keys > 0) & (keys % n + 1 == rows)).all()):
            raise WordwaveError("ngrams.keys must be hashes of n-grams, each at its row")
        squares = (self.words[:, self.n_classes :: self.n_classes + 1], self.bigrams[:, -1])
        if not all(bool((part >= 0).all()) for part in (*squares, self.subwords[:, -1])):
            raise WordwaveError("ngrams must have squares of idf weights, at least 0")

    def _logits(
        self, of_words: Tensor, of_bigrams: Tensor | None, unknown: Tensor | None
    ) -> Tensor:
        """Shape: of_words (B, 2·C + 2), of_bigrams, unknown (B, C + 1) -> (B, n_classes)"""
        words, subwords = of_words.split(self.n_classes + 1, dim=-1)
        words = words if of_bigrams is None else words + of_bigrams
        subwords = subwords if unknown is None else subwords + unknown
        return self.bias + _of_length_1(words) + _of_length_1(subwords)


def _of_length_1(sums: Tensor) -> Tensor:
    """Σ u·W / √Σ u², 0 without a term. Shape: (B, C + 1) -> (B, C)"""
    return sums[:, :-1] * sums[:, -1:].clamp(min=1e-12).rsqrt()


def _distinct(rows: Tensor) -> Tensor:
    """The rows of each sentence with 0 in place of repetitions, sorted. Shape: (B, L) -> (B, L)"""
    ordered = rows.sort(dim=1).values
    return ordered * F.pad(ordered.diff(dim=1) != 0, (1, 0), value=True)
