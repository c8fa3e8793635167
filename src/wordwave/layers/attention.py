"""What attention is made of: queries, keys and values of several heads, over either field.

With heads in `[real | imag]` layout, Re(q·k†) is the plain dot product of two real vectors, and
Im(q·k†) is the same with the key turned by 90 degrees: real kernels serve both scores.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.errors import WordwaveError
from wordwave.layers.linear import Linear
from wordwave.layers.weight import (
    Device,
    Field,
    Sharing,
    check_at_least_one,
    check_dropout,
    check_input,
    n_parts,
)
from wordwave.positions import ALiBi, RoPE

Score = Literal["magnitude", "real"]
"""How a complex product z = q·k† becomes a score: |z| (the paper) or Re z."""

_TINY = 1e-12  # keeps the slope of |z| finite at z = 0


class KVCache(NamedTuple):
    """What was read so far. Shape: keys and values (B, H, M, parts·d), positions (M,) or (B, M)"""

    keys: Tensor
    values: Tensor
    positions: Tensor


class Heads(nn.Module):
    """The projections of attention, and the memory of what they read.

    Args:
        dim: width D, in complex numbers if the field is complex.
        n_heads: H; D must be a multiple of it, d = D/H.
        score: `"magnitude"` or `"real"`, see `Score`.
        rope: turn queries and keys by their positions; for a real field.
        dropout: share of attention weights dropped in training.
        field, share, bias, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        field: Field,
        share: Sharing,
        score: Score,
        rope: bool,
        dropout: float,
        bias: bool,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one(dim=dim, n_heads=n_heads)
        if dim % n_heads:
            raise WordwaveError(
                f"dim must be a multiple of n_heads, got dim={dim}, n_heads={n_heads}"
            )
        check_dropout("dropout", dropout)
        if score not in get_args(Score):
            raise WordwaveError(f"score must be 'magnitude' or 'real', got {score!r}")
        self.dim, self.n_heads, self.score, self.dropout = dim, n_heads, score, dropout
        self.field: Field = field
        self.n_parts = n_parts(field)
        if rope and field != "real":
            raise WordwaveError("position='rope' goes with field='real'; a wave has its own")
        self.scale = 1 / math.sqrt(dim // n_heads)
        """Of scores, so that their size does not grow with d."""
        self.rope = RoPE(dim // n_heads) if rope else None

        def linear() -> Linear:
            return Linear(dim, dim, field=field, share=share, bias=bias, device=device, dtype=dtype)

        self.to_query, self.to_key, self.to_value, self.to_out = (linear() for _ in range(4))

    def read(
        self, source: Tensor, past: KVCache | None = None, positions: Tensor | None = None
    ) -> KVCache:
        """Keys and values of a source, after those of the past: decode with one word a step.

        Shape: source (B, M, parts·D), positions (M,) or (B, M), counted on from the past if None
        """
        check_input("source", source, self.dim, self.field, batched=True)
        keys = self._split_heads(self.to_key(source))
        values = self._split_heads(self.to_value(source))
        if positions is None:
            positions = torch.arange(1, source.shape[1] + 1, device=source.device)
            if past is not None and past.positions.shape[-1]:
                positions = past.positions[..., -1:] + positions
        check_positions(positions, source)
        if self.rope is not None:
            keys = self.rope.turn(keys, positions)
        if past is None:
            return KVCache(keys, values, positions)
        lead = torch.broadcast_shapes(past.positions.shape[:-1], positions.shape[:-1])
        places = [p.expand(*lead, -1) for p in (past.positions, positions)]
        return KVCache(
            torch.cat([past.keys, keys], 2),
            torch.cat([past.values, values], 2),
            torch.cat(places, -1),
        )

    def _split_heads(self, x: Tensor) -> Tensor:
        if self.field == "complex":
            return cx.split_heads(x, self.n_heads)
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _merge_heads(self, heads: Tensor) -> Tensor:
        if self.field == "complex":
            return cx.merge_heads(heads)
        return heads.transpose(1, 2).flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.dim}, n_heads={self.n_heads}, field={self.field!r}, score={self.score!r}"


def magnitude(real: Tensor, imag: Tensor) -> Tensor:
    """|z|, with a slope at 0 too."""
    wide = torch.promote_types(real.dtype, torch.float32)  # squares overflow half precision
    real, imag = real.to(wide), imag.to(wide)
    return torch.sqrt(real * real + imag * imag + _TINY)


def check_positions(positions: Tensor, x: Tensor) -> None:
    n, length = x.shape[:2]
    if positions.is_complex() or positions.dtype == torch.bool:
        raise WordwaveError(f"positions must be integers or real numbers, got {positions.dtype}")
    if positions.shape not in ((length,), (1, length), (n, length)):
        raise WordwaveError(
            f"positions must be of shape {(length,)} or {(n, length)}, got {tuple(positions.shape)}"
        )


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
            raise WordwaveError(f"position must be None, 'rope' or 'alibi', got {position!r}")
        if position == "alibi" and field != "real":
            raise WordwaveError("position='alibi' goes with field='real'; a wave has its own")
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
        memory: KVCache,
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

    def weights(self, x: Tensor, memory: KVCache, *, mask: Tensor | None = None) -> Tensor:
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
        memory: KVCache,
        mask: Tensor | None,
        causal: bool,
        positions: Tensor | None,
    ) -> Tensor:
        check_input("x", x, self.dim, self.field, batched=True)
        queries = self._split_heads(self.to_query(x))
        if queries.shape[0] != memory.keys.shape[0]:
            raise WordwaveError(
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
        self, queries: Tensor, memory: KVCache, allowed: Tensor | None, bias: Tensor | None
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
            raise WordwaveError(
                f"mask must be bool of shape {(n, length)}, true where a key is a word, "
                f"got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        words = mask[:, None, None, :]
        allowed = words if allowed is None else words & allowed
    return allowed
