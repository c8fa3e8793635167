"""What attention is made of: queries, keys and values of several heads, over either field.

With heads in `[real | imag]` layout, Re(q·k†) is the plain dot product of two real vectors, and
Im(q·k†) is the same with the key turned by 90 degrees: real kernels serve both scores.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.layers.linear import Linear
from wordwave.layers.position import RoPE
from wordwave.layers.weight import (
    Device,
    Field,
    Sharing,
    check_at_least_one,
    check_dropout,
    check_input,
    n_parts,
)

Score = Literal["magnitude", "real"]
"""How a complex product z = q·k† becomes a score: |z| (the paper) or Re z."""

_TINY = 1e-12  # keeps the slope of |z| finite at z = 0


class Memory(NamedTuple):
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
            raise ValueError(f"dim must be a multiple of n_heads, got dim={dim}, n_heads={n_heads}")
        check_dropout("dropout", dropout)
        if score not in get_args(Score):
            raise ValueError(f"score must be 'magnitude' or 'real', got {score!r}")
        self.dim, self.n_heads, self.score, self.dropout = dim, n_heads, score, dropout
        self.field: Field = field
        self.n_parts = n_parts(field)
        if rope and field != "real":
            raise ValueError("position='rope' goes with field='real'; a wave has its own")
        self.scale = 1 / math.sqrt(dim // n_heads)
        """Of scores, so that their size does not grow with d."""
        self.rope = RoPE(dim // n_heads) if rope else None

        def linear() -> Linear:
            return Linear(dim, dim, field=field, share=share, bias=bias, device=device, dtype=dtype)

        self.to_query, self.to_key, self.to_value, self.to_out = (linear() for _ in range(4))

    def read(
        self, source: Tensor, past: Memory | None = None, positions: Tensor | None = None
    ) -> Memory:
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
            return Memory(keys, values, positions)
        lead = torch.broadcast_shapes(past.positions.shape[:-1], positions.shape[:-1])
        places = [p.expand(*lead, -1) for p in (past.positions, positions)]
        return Memory(
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
        raise ValueError(f"positions must be integers or real numbers, got {positions.dtype}")
    if positions.shape not in ((length,), (1, length), (n, length)):
        raise ValueError(
            f"positions must be of shape {(length,)} or {(n, length)}, got {tuple(positions.shape)}"
        )
