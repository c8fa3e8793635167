"""The interface of position encodings inside attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.complex import Device
from wordwave.errors import WordwaveError


class PositionEncoding(nn.Module):
    """Changes queries, keys, values or scores of H heads of width d by their positions.

    A subclass overrides what it needs; each method does nothing by default. Positions are any
    numbers: 1 … L, with an offset, with gaps, or different ones for each row of a batch.

    Args:
        n_heads: H.
        head_dim: d, the width of a head.
        device, dtype: of the parameters, if there are any.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        cx.check_at_least_one(n_heads=n_heads, head_dim=head_dim)
        self.n_heads, self.head_dim = n_heads, head_dim

    def encode_queries(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Before attention. The width d′ must be that of the encoded keys.

        Shape: heads (B, H, L, d), positions (L,), (B, L) or (B, H, L) -> (B, H, L, d′)
        """
        return heads

    def encode_keys(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Before attention, and before keys are cached.

        Shape: heads (B, H, M, d), positions (M,), (B, M) or (B, H, M) -> (B, H, M, d′)
        """
        return heads

    def encode_values(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Before attention, and before values are cached. Shape: as `encode_keys`, of width d"""
        return heads

    def decode_values(self, heads: Tensor, positions: Tensor) -> Tensor:
        """After attention, by the positions of the queries. Shape: as `encode_queries`, width d"""
        return heads

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """A term added to the scores, after they are scaled by 1/sqrt(d).

        Shape: positions (L,) or (B, L) and (M,) or (B, M) -> (H, L, M) or (B, H, L, M)
        """
        return None

    def content_bias(
        self,
        queries: Tensor,
        keys: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
        visible: Tensor | None,
    ) -> Tensor | None:
        """As `bias`, of encodings that also depend on what queries and keys contain.

        Shape:
            queries (B, H, L, d′), keys (B, H, M, d′): encoded.
            visible: true where a query may attend, what broadcasts to (B, H, L, M); None for all.
            returns: (B, H, L, M).
        """
        return None

    def clock(
        self, keys: Tensor, positions: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> Tensor | None:
        """Positions of its own that an encoding counts by the keys, in place of those given.

        Shape:
            keys: (B, H, M, d), not encoded; positions: (M,) or (B, M).
            past: the last clock (B, H, 1) and the last position (1,) or (B, 1) before these keys.
            returns: (B, H, M), or None for the positions given.
        """
        return None

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Self-attention with this encoding, in place of `F.scaled_dot_product_attention`.

        Shape:
            queries, keys, values: (B, H, L, d).
            positions: (L,) or (B, L); if None, 1 … L.
            mask: bool, true where a query may attend, what broadcasts to (B, H, L, L).
            causal: a query sees no key after it.
            returns: (B, H, L, d); every query must see a key.
        """
        for name, heads in (("queries", queries), ("keys", keys), ("values", values)):
            cx.check_real(name, heads)
            expected = (queries.shape[0], self.n_heads, queries.shape[-2], self.head_dim)
            if heads.dim() != 4 or tuple(heads.shape) != expected:
                raise WordwaveError(
                    f"{name} must be of shape (B, {self.n_heads}, L, {self.head_dim}), the same "
                    f"for all, got {tuple(heads.shape)}"
                )
        if positions is None:
            positions = torch.arange(1, keys.shape[2] + 1, device=keys.device)
        check_positions(positions, keys.shape[0], keys.shape[2])
        counted = self.clock(keys, positions)
        at = positions if counted is None else counted
        queries, keys = self.encode_queries(queries, at), self.encode_keys(keys, at)
        visible = mask
        if causal:
            square = torch.ones(keys.shape[2], keys.shape[2], dtype=torch.bool, device=keys.device)
            visible = square.tril() if mask is None else mask & square.tril()
        bias = total_bias(self, queries, keys, at, at, visible)
        if bias is not None:
            bias = bias.to(queries.dtype)
            visible = bias if visible is None else bias.masked_fill(~visible, -math.inf)
        values = self.encode_values(values, at)
        scale = 1 / math.sqrt(self.head_dim)
        heads = fused_attention(queries, keys, values, visible, scale)
        return self.decode_values(heads, at)

    def extra_repr(self) -> str:
        return f"{self.n_heads}, {self.head_dim}"


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scale: float,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """torch's own kernel, also for queries and keys that an encoding has made wider than values.

    With `causal` in place of a mask it skips keys after the query, up to half of the work.

    Padded values take half the time of values of another width, for which torch has no fast path.
    """
    extra = keys.shape[-1] - values.shape[-1]
    if extra > 0:
        values = F.pad(values, (0, extra))
    heads = F.scaled_dot_product_attention(
        queries, keys, values, mask, dropout, is_causal=causal, scale=scale
    )
    return heads[..., : heads.shape[-1] - extra] if extra > 0 else heads


def total_bias(
    encoding: PositionEncoding,
    queries: Tensor,
    keys: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    visible: Tensor | None,
) -> Tensor | None:
    """What an encoding adds to the scores: `bias` and `content_bias`, None if it adds neither."""
    places = query_positions, key_positions
    fixed, by_content = (
        encoding.bias(*places),
        encoding.content_bias(queries, keys, *places, visible),
    )
    if fixed is None or by_content is None:
        return by_content if fixed is None else fixed
    return fixed + by_content


def per_head(positions: Tensor) -> Tensor:
    """Shape: (L,), (B, L) or (B, H, L) -> (1, L), (B, 1, L) or (B, H, L)"""
    return positions if positions.dim() == 3 else positions.unsqueeze(-2)


def relative(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """m − n, above 0 for keys before the query.

    Shape: (L,) or (B, L) and (M,) or (B, M) -> (1, L, M) or (B, 1, L, M)
    """
    return per_head(query_positions).unsqueeze(-1) - per_head(key_positions).unsqueeze(-2)


def phases(frequencies: Tensor, positions: Tensor, like: Tensor) -> Tensor:
    """ω·pos for each head, in the precision of `like` and in float32 at least.

    Shape: frequencies (D,), positions (L,), (B, L) or (B, H, L) -> what broadcasts to (B, H, L, D)
    """
    wide = torch.promote_types(like.dtype, torch.float32)
    return angle(frequencies.to(wide), per_head(positions).unsqueeze(-1))


def check_positions(positions: Tensor, n: int, length: int) -> None:
    """Raise unless positions are real numbers of shape (L,), (1, L) or (B, L)."""
    cx.check_tensor("positions", positions)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise WordwaveError(f"positions must be integers or real numbers, got {positions.dtype}")
    if positions.shape not in ((length,), (1, length), (n, length)):
        raise WordwaveError(
            f"positions must be of shape {(length,)} or {(n, length)}, got {tuple(positions.shape)}"
        )


def check_even(name: str, head_dim: int) -> None:
    """Raise if heads cannot be taken as complex numbers."""
    if head_dim % 2:
        raise WordwaveError(f"{name} needs an even width per head, got {head_dim}")


def check_above(low: float, **values: float) -> None:
    """Raise if a number is not above a bound, by its name."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not low < value < math.inf:
            raise WordwaveError(f"{name} must be a finite number above {low:g}, got {value}")
