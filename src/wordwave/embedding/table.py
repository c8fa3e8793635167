"""A table of one number for each word and dimension, full or shared."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx

Share = Literal["word", "dim"] | None
"""`None`: a value for each word and dimension; `"word"`: one per dimension, shared by all words;
`"dim"`: one per word, shared by all dimensions."""

SHARES: tuple[Share, ...] = (None, "word", "dim")


def check_share(name: str, share: Share) -> None:
    if share not in SHARES:
        raise ValueError(f"{name} must be one of None, 'word', 'dim', got {share!r}")


class Table(nn.Module):
    """Look-up of a (V, D) table that may be stored smaller than it is.

    Stored shape: (V, D) full, (1, D) shared by all words, (V, 1) shared by all dimensions.
    """

    def __init__(
        self,
        values: Tensor,
        *,
        vocab_size: int,
        share: Share = None,
        padding_idx: int | None = None,
        sparse: bool = False,
        frozen: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.share, self.padding_idx, self.sparse = (
            vocab_size,
            share,
            padding_idx,
            sparse,
        )
        self.weight = nn.Parameter(
            values.detach().to(cx.parameter_dtype(dtype), copy=True), requires_grad=not frozen
        )
        self.zero_padding()

    @staticmethod
    def shape(vocab_size: int, dim: int, share: Share) -> tuple[int, int]:
        """The stored shape of a table for V words and D dimensions."""
        return (1 if share == "word" else vocab_size, 1 if share == "dim" else dim)

    @property
    def per_word(self) -> bool:
        return self.share != "word"

    @property
    def row_sparse(self) -> bool:
        """Whether gradients hold only the rows in use."""
        return self.sparse and self.per_word

    @torch.no_grad()
    def zero_padding(self) -> None:
        if self.per_word and self.padding_idx is not None:
            self.weight[self.padding_idx] = 0

    @torch.no_grad()
    def resize(self, vocab_size: int) -> None:
        """Keep the first rows, and draw new ones as spread as those of the words that are there."""
        if self.per_word:
            old = self.weight
            words = [row for row in range(len(old)) if row != self.padding_idx]
            known = old[words] if words else torch.zeros_like(old)
            spread = known.std(dim=0) if len(known) > 1 else torch.zeros_like(known[0])
            noise = torch.randn(vocab_size, old.shape[1], dtype=old.dtype, device=old.device)
            rows = known.mean(dim=0) + spread * noise
            kept = min(len(old), vocab_size)
            rows[:kept] = old[:kept]
            self.weight = nn.Parameter(rows, requires_grad=old.requires_grad)
            self.zero_padding()
        self.vocab_size = vocab_size

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (..., L) -> (..., L, D), or what broadcasts to it: (1, D), (..., L, 1)"""
        if not self.per_word:
            return self.weight
        return F.embedding(ids, self.weight, self.padding_idx, sparse=self.sparse)

    def full(self) -> Tensor:
        """The whole table. Shape: (V, D), or (V, 1) where the dimensions share"""
        return self.weight.expand(self.vocab_size, -1)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, share={self.share!r}, sparse={self.sparse}"
