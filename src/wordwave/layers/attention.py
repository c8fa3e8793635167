"""Multi-head attention over either field (App. B, Eq. 13-14)."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave import complex as cx
from wordwave.layers.heads import (
    Heads,
    Memory,
    Score,
    check_positions,
    magnitude,
)
from wordwave.layers.position import ALiBi
from wordwave.layers.weight import Device, Field, Sharing, check_input


class MultiHeadAttention(Heads):
    """Each query is answered by a mean of values, weighted by softmax of q·k† / sqrt(d).

    Args:
        dim: width D, in complex numbers if the field is complex.
        n_heads: H; D must be a multiple of it, d = D/H.
        score: `"magnitude"` or `"real"`, see `Score`.
        position: `"rope"` or `"alibi"` for a real field, to see positions inside attention.
        dropout: share of attention weights dropped in training.
        field, share, bias, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        field: Field = "complex",
        share: Sharing = "none",
        score: Score = "magnitude",
        position: Literal["rope", "alibi"] | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            dim,
            n_heads,
            field=field,
            share=share,
            score=score,
            rope=position == "rope",
            dropout=dropout,
            bias=bias,
            device=device,
            dtype=dtype,
        )
        if position not in (None, "rope", "alibi"):
            raise ValueError(f"position must be None, 'rope' or 'alibi', got {position!r}")
        if position == "alibi" and field != "real":
            raise ValueError("position='alibi' goes with field='real'; a wave has its own")
        self.alibi = ALiBi(n_heads, device=device) if position == "alibi" else None

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Attend from x to itself, or to a `source` (cross-attention).

        Shape:
            x: (B, L, parts·D), source: (B, M, parts·D).
            mask: (B, M) bool, true where a key is a word and false where it is padding.
            causal: a query sees no key after its own place, the last query the last key.
            positions: (L,) or (B, L) of x for RoPE and ALiBi, or 1 … L; a source has 1 … M.
            returns: (B, L, parts·D); only the output's bias where there is nothing to attend to.
        """
        check_input("x", x, self.dim, self.field, batched=True)
        if positions is None:
            positions = torch.arange(1, x.shape[1] + 1, device=x.device)
        memory = self.read(x, positions=positions) if source is None else self.read(source)
        return self.answer(x, memory, mask=mask, causal=causal, positions=positions)

    def answer(
        self,
        x: Tensor,
        memory: Memory,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Attend from x to what was read.

        Shape: x (B, L, parts·D), positions (L,) or (B, L); those of the last L words read if None,
        or 1 … L where fewer were read
        """
        heads = self._heads(x, memory, mask, causal, positions)
        return self.to_out(self._merge_heads(heads))

    def weights(self, x: Tensor, memory: Memory, *, mask: Tensor | None = None) -> Tensor:
        """How much of each value an answer holds.

        Shape: x (B, L, parts·D), memory of M words -> (B, H, L, M)
        """
        n = memory.keys.shape[2]
        each = torch.eye(n, dtype=memory.values.dtype, device=memory.values.device)
        apart = memory._replace(values=each.expand(*memory.keys.shape[:2], n, n))
        return self._heads(x, apart, mask, False, None)

    def _heads(
        self,
        x: Tensor,
        memory: Memory,
        mask: Tensor | None,
        causal: bool,
        positions: Tensor | None,
    ) -> Tensor:
        check_input("x", x, self.dim, self.field, batched=True)
        queries = self._split_heads(self.to_query(x))
        if queries.shape[0] != memory.keys.shape[0]:
            raise ValueError(
                f"x and the source must have the same batch size, "
                f"got {queries.shape[0]} and {memory.keys.shape[0]}"
            )
        if positions is None:
            n_past = memory.keys.shape[2] - x.shape[1]
            if n_past >= 0:
                positions = memory.positions[..., n_past:]
            else:
                positions = torch.arange(1, x.shape[1] + 1, device=x.device)
        check_positions(positions, x)
        if self.rope is not None:
            queries = self.rope.turn(queries, positions)
        allowed = _allowed(queries, memory.keys, mask, causal)
        bias = None if self.alibi is None else self.alibi.bias(positions, memory.positions)
        return self._attend(queries, memory, allowed, bias)

    def _attend(
        self, queries: Tensor, memory: Memory, allowed: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        empty = None if allowed is None else ~allowed.any(-1, keepdim=True)
        if self.score == "real":
            seen = allowed
            if bias is not None:
                seen = bias.to(queries.dtype)
                seen = seen if allowed is None else seen.masked_fill(~allowed, -math.inf)
            heads = F.scaled_dot_product_attention(
                queries, memory.keys, memory.values, seen, dropout, scale=self.scale
            )
            return heads if empty is None else heads.masked_fill(empty, 0)
        scores = self._magnitude(queries, memory.keys) * self.scale
        if bias is not None:
            scores = scores + bias
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if empty is not None:
            weights = weights.masked_fill(empty, 0)
        return F.dropout(weights, dropout).to(memory.values.dtype) @ memory.values

    def _magnitude(self, queries: Tensor, keys: Tensor) -> Tensor:
        """|q·k†|. Shape: (B, H, L, parts·d), (B, H, M, parts·d) -> (B, H, L, M)"""
        real = queries @ keys.mT
        if self.field == "real":
            return real.abs()
        return magnitude(real, queries @ cx.rotate(keys).mT)


def _allowed(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """Which query may see which key, or None for all.

    Shape: (B, H, L, parts·d), (B, H, M, parts·d), mask (B, M) -> broadcastable to (B, H, L, M)
    """
    n, length = keys.shape[0], keys.shape[2]
    allowed = None
    if causal:
        ones = torch.ones(queries.shape[2], length, dtype=torch.bool, device=keys.device)
        allowed = ones.tril(length - queries.shape[2])
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape != (n, length):
            raise ValueError(
                f"mask must be bool of shape {(n, length)}, true where a key is a word, "
                f"got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        words = mask[:, None, None, :]
        allowed = words if allowed is None else words & allowed
    return allowed
