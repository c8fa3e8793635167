"""Lookup tables: a number for each word and dimension, and vectors of pairs of words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding.config import Sharing
from wordwave.errors import WordwaveError


def normal(n_rows: int, n_columns: int, device: torch.device | str | int | None = None) -> Tensor:
    """torch.randn. On the meta device nothing is drawn: there, torch would import sympy and more,
    half a second whenever a model is loaded. Shape: (n_rows, n_columns)"""
    values = torch.empty(n_rows, n_columns, device=device)
    return values if values.is_meta else values.normal_()


class Table(nn.Module):
    """A lookup table of a number for each word and dimension, stored smaller where it is shared.

    Stored shape: (V, D) full, (1, D) shared by all words, (V, 1) shared by all dimensions.
    """

    lr_scale = 1.0
    """Its learning rate, relative to that of other weights."""

    def __init__(
        self,
        values: Tensor,
        *,
        vocab_size: int,
        share: Sharing = None,
        padding_idx: int | None = None,
        sparse: bool = False,
        frozen: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.share = vocab_size, share
        self.padding_idx, self.sparse = padding_idx, sparse
        self.bigrams: Bigrams | None = None
        self.weight = nn.Parameter(
            values.detach().to(cx.parameter_dtype(dtype), copy=True), requires_grad=not frozen
        )
        self.zero_padding()

    @property
    def per_word(self) -> bool:
        return self.share != "word"

    @property
    def row_sparse(self) -> bool:
        """Whether gradients are row-sparse."""
        return self.sparse and self.per_word

    @torch.no_grad()
    def zero_padding(self) -> None:
        if self.per_word and self.padding_idx is not None:
            self.weight[self.padding_idx] = 0

    @torch.no_grad()
    def resize(self, vocab_size: int) -> None:
        """Keep the first rows; draw new ones with the mean and deviation of the existing words."""
        if self.per_word:
            old = self.weight
            words = [row for row in range(len(old)) if row != self.padding_idx]
            known = old[words] if words else torch.zeros_like(old)
            deviation = known.std(dim=0) if len(known) > 1 else torch.zeros_like(known[0])
            noise = torch.randn(vocab_size, old.shape[1], dtype=old.dtype, device=old.device)
            rows = known.mean(dim=0) + deviation * noise
            kept = min(len(old), vocab_size)
            rows[:kept] = old[:kept]
            self.weight = nn.Parameter(rows, requires_grad=old.requires_grad)
            self.zero_padding()
        self.vocab_size = vocab_size

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (..., L) -> (..., L, D), or what broadcasts to it: (1, D), (..., L, 1)"""
        if not self.per_word:
            return self.weight
        rows = F.embedding(ids, self.weight, self.padding_idx, sparse=self.sparse)
        return rows if self.bigrams is None else rows + self.bigrams(ids)

    def full(self) -> Tensor:
        """A row for each word. Shape: (V, D), or (V, 1) if shared by all dimensions"""
        return self.weight.expand(self.vocab_size, -1)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, share={self.share!r}, sparse={self.sparse}"


BIGRAM_SCALE = 0.5
"""A bigram counts half as much as a word."""


class Bigrams(Table):
    """Vectors of pairs of neighbours, which are added to that of the second word: a bigram stands
    at the position of its second word, and shares its wave.

    A pair is hashed to a row, and counts only if the row is its own: what was not seen in training
    adds nothing.

    Args:
        n: number of rows.
        n_words: number of words, V.
        dropout: probability that all bigrams of a training sentence are left out, so that they do
            not take over what words and positions can explain.
    """

    def __init__(
        self, n: int, dim: int, *, n_words: int, sparse: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(torch.zeros(n + 1, dim), vocab_size=n + 1, padding_idx=0, sparse=sparse)
        self.n_words, self.dropout = n_words, dropout
        self.register_buffer("keys", torch.zeros(n + 1, dtype=torch.long))

    keys: Tensor

    def assign(self, keys: Tensor) -> None:
        """Give rows to pairs, the first ones first. Shape: keys (N,), first·V + second"""
        hashed = self._hash(keys // self.n_words, keys % self.n_words)
        rows, order = torch.sort(hashed, stable=True)
        is_first = torch.cat([rows.new_ones(1), rows.diff()])[: len(rows)] != 0
        self.keys.zero_()
        self.keys[rows[is_first]] = keys[order[is_first]]

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: ids of words (..., L) -> (..., L, D)"""
        rows = self.pairs(ids)
        if (kept := self.draw_kept(*ids.shape[:-1], 1)) is not None:
            rows = rows * kept.to(rows.device)
        return BIGRAM_SCALE * super().forward(rows)

    def pairs(self, ids: Tensor) -> Tensor:
        """The row of each word and the one before it, 0 for none. Shape: (..., L) -> (..., L)"""
        return self.rows(F.pad(ids, (1, 0))[..., :-1], ids)

    def rows(self, before: Tensor, ids: Tensor) -> Tensor:
        """The rows of pairs, 0 for those without one. Shape: two (...) -> (...)"""
        hashed = self._hash(before, ids)
        # The first word of a sentence, and padding, have a 0 in their pair, as no known pair has.
        is_known = self.keys[hashed] == before * self.n_words + ids
        return hashed * (is_known & (ids != 0))

    def check_keys(self) -> None:
        """Refuse keys that `assign` cannot have set, such as those of a damaged file."""
        rows = self.keys.nonzero().squeeze(1)
        keys = self.keys[rows]
        first, second = keys // self.n_words, keys % self.n_words
        in_range = (keys > 0) & (first < self.n_words) & (first > 0) & (second > 0)
        if not bool((in_range & (self._hash(first, second) == rows)).all()):
            raise WordwaveError("bigrams.keys must be pairs of words, each at its row")

    def draw_kept(self, *shape: int) -> Tensor | None:
        """Which sentences keep their bigrams in this training step, `None` for all."""
        drops = self.training and self.dropout
        return torch.rand(*shape) >= self.dropout if drops else None

    def _hash(self, before: Tensor, ids: Tensor) -> Tensor:
        return (before * 40_503 + ids * 2_654_435_761) % (self.vocab_size - 1) + 1
