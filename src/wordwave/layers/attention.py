"""Multi-head attention over either field: projections, KV cache, scores and masks.

With heads in `[real | imag]` layout, Re(q·k†) is the dot product of two real vectors, and Im(q·k†)
is the same with the key rotated by 90 degrees: real kernels compute both.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.errors import WordwaveError, unknown
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
from wordwave.positions import POSITIONS

Score = Literal["magnitude", "real"]
"""How a complex product z = q·k† becomes a score: |z| (the paper) or Re z."""


class KVCache(NamedTuple):
    """Projected keys and values with their positions, to attend to more than once.

    Shape: keys and values (B, H, M, parts·d), positions (M,) or (B, M)
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    distances: Tensor | None = None
    """Projected distances; `RelativeAttention` only. Shape: (H, at least M, parts·d)"""

    @property
    def n_keys(self) -> int:
        return self.keys.shape[2]

    def last(self, n: int) -> KVCache:
        """The last n keys and values, or all if there are fewer."""
        start = max(self.n_keys - n, 0)
        keys, values = self.keys[:, :, start:], self.values[:, :, start:]
        return KVCache(keys, values, self.positions[..., start:], self.distances)

    def select(self, rows: Tensor) -> KVCache:
        """Some rows of the batch, which must all have the same positions. Shape: rows (n,)"""
        keys, values = (t.index_select(0, rows) for t in (self.keys, self.values))
        return KVCache(keys, values, self.positions, self.distances)


class MultiHeadAttention(nn.Module):
    """softmax(score(q·k†) / sqrt(d))·v for each head, over the real or the complex field.

    Args:
        dim: width D, in complex numbers if the field is complex.
        n_heads: H; D must be a multiple of it, d = D/H.
        score: `"magnitude"` or `"real"`, see `Score`.
        position: a position encoding inside attention, by its name in `wordwave.positions`; for a
            real field.
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
        position: str | None = None,
        dropout: float = 0.0,
        bias: bool = True,
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
        if position is not None and position not in POSITIONS:
            raise unknown("position", position, POSITIONS)
        if position is not None and field != "real":
            raise WordwaveError(f"position={position!r} goes with field='real', got {field!r}")
        self.dim, self.n_heads, self.score, self.dropout = dim, n_heads, score, dropout
        self.field: Field = field
        self.n_parts = n_parts(field)
        self.scale = 1 / math.sqrt(dim // n_heads)
        self.fused = score == "real"
        """Whether scores are plain dot products, which torch's fused attention computes."""
        self.position = None
        if position is not None:
            self.position = POSITIONS[position](n_heads, dim // n_heads, device=device)

        def linear() -> Linear:
            return Linear(dim, dim, field=field, share=share, bias=bias, device=device, dtype=dtype)

        self.to_query, self.to_key, self.to_value, self.to_out = (linear() for _ in range(4))

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
            causal: a query sees no key after its own position, the last query the last key.
            positions: (L,) or (B, L) of x for the position encoding, or 1 … L; a source has 1 … M.
            returns: (B, L, parts·D); only the output's bias where there is nothing to attend to.
        """
        check_input("x", x, self.dim, self.field, batched=True)
        if positions is None:
            positions = torch.arange(1, x.shape[1] + 1, device=x.device)
        cache = self.project_kv(x, None, positions) if source is None else self.project_kv(source)
        return self.attend(x, cache, mask=mask, causal=causal, positions=positions)

    def project_kv(
        self, source: Tensor, past: KVCache | None = None, positions: Tensor | None = None
    ) -> KVCache:
        """Project a source to keys and values and append them to those of the past.

        Shape: source (B, M, parts·D), positions (M,) or (B, M); if None, they continue the past's
        """
        check_input("source", source, self.dim, self.field, batched=True)
        keys = self._split_heads(self.to_key(source))
        values = self._split_heads(self.to_value(source))
        if positions is None:
            positions = torch.arange(1, source.shape[1] + 1, device=source.device)
            if past is not None and past.n_keys:
                positions = past.positions[..., -1:] + positions
        else:
            _check_positions(positions, source)
        if self.position is not None:
            keys = self.position.encode_keys(keys, positions)
        if past is None:
            return KVCache(keys, values, positions)
        lead = torch.broadcast_shapes(past.positions.shape[:-1], positions.shape[:-1])
        both = [p.expand(*lead, -1) for p in (past.positions, positions)]
        return KVCache(
            torch.cat([past.keys, keys], 2),
            torch.cat([past.values, values], 2),
            torch.cat(both, -1),
            past.distances,
        )

    def attend(
        self,
        x: Tensor,
        cache: KVCache,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        window: int | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Attend from x to cached keys and values.

        Shape:
            x: (B, L, parts·D), cache: of M keys.
            mask, causal: as in `forward`.
            window: with causal, a query sees itself and at most so many keys before it.
            positions: (L,) or (B, L); if None, those of the last L keys, or 1 … L if M < L.
            returns: (B, L, parts·D)
        """
        heads = self._attend(x, cache, mask, causal, window, positions)
        return self.to_out(self._merge_heads(heads))

    def attention_weights(self, x: Tensor, cache: KVCache, *, mask: Tensor | None = None) -> Tensor:
        """The softmax weights of the keys. Shape: x (B, L, parts·D), M keys -> (B, H, L, M)"""
        one_hot = torch.eye(cache.n_keys, dtype=cache.values.dtype, device=cache.values.device)
        apart = cache._replace(values=one_hot.expand(*cache.keys.shape[:2], -1, -1))
        return self._attend(x, apart, mask, False, None, None)

    def _attend(
        self,
        x: Tensor,
        cache: KVCache,
        mask: Tensor | None,
        causal: bool,
        window: int | None,
        positions: Tensor | None,
    ) -> Tensor:
        """Weighted means of the values. Shape: (B, L, parts·D) -> (B, H, L, parts·d)"""
        check_input("x", x, self.dim, self.field, batched=True)
        (n, length, _), n_keys = x.shape, cache.n_keys
        if n != cache.keys.shape[0]:
            raise WordwaveError(
                f"x and the source must have the same batch size, got {n} and {cache.keys.shape[0]}"
            )
        if positions is not None:
            _check_positions(positions, x)
        elif n_keys >= length:
            positions = cache.positions[..., n_keys - length :]
        else:
            positions = torch.arange(1, length + 1, device=x.device)
        queries, bias = self._split_heads(self.to_query(x)), None
        if self.position is not None:
            queries = self.position.encode_queries(queries, positions)
            bias = self.position.bias(positions, cache.positions)
        visible = _causal(length, n_keys, window, x.device) if causal else None
        if mask is not None:
            words = _padding(mask, n, n_keys)
            visible = words if visible is None else words & visible
        empty = None
        if visible is not None and (mask is not None or n_keys < length):
            empty = ~visible.any(-1, keepdim=True)  # queries that see no key at all
        dropout = self.dropout if self.training else 0.0
        if self.fused:
            heads = _fused_attention(queries, cache, visible, bias, dropout, self.scale)
            return heads if empty is None else heads.masked_fill(empty, 0)
        scores = self._scores(queries, cache)
        if bias is not None:
            scores = scores + bias
        if visible is not None:
            scores = _masked(scores, visible, additive=empty is None)
        weights = torch.softmax(scores, dim=-1)
        if empty is not None:
            weights = weights.masked_fill(empty, 0)
        return F.dropout(weights, dropout).to(cache.values.dtype) @ cache.values

    def _scores(self, queries: Tensor, cache: KVCache) -> Tensor:
        """|q·k†| / sqrt(d). Shape: (B, H, L, parts·d) -> (B, H, L, M)"""
        real = queries @ cache.keys.mT
        if self.field == "real":
            return real.abs() * self.scale
        return modulus(real, queries @ cx.rotate(cache.keys).mT) * self.scale

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


def modulus(real: Tensor, imag: Tensor) -> Tensor:
    """|z| in float32 at least, where squares do not overflow.

    The 1e-12 keeps the slope finite at 0 in fewer passes over the scores than `complex.magnitude`.
    """
    wide = torch.promote_types(real.dtype, torch.float32)
    real, imag = real.to(wide), imag.to(wide)
    return torch.sqrt(real * real + imag * imag + 1e-12)


def _fused_attention(
    queries: Tensor,
    cache: KVCache,
    visible: Tensor | None,
    bias: Tensor | None,
    dropout: float,
    scale: float,
) -> Tensor:
    """torch's own attention kernel. Shape: (B, H, L, parts·d) -> (B, H, L, parts·d)"""
    keys, values, dtype = cache.keys, cache.values, cache.values.dtype
    # A half-precision kernel takes ten times as long as the float32 one on a CPU.
    widen = queries.device.type == "cpu" and dtype in (torch.bfloat16, torch.float16)
    if widen:
        queries, keys, values = queries.float(), keys.float(), values.float()
    if bias is not None:
        bias = bias.to(queries.dtype)
        visible = bias if visible is None else bias.masked_fill(~visible, -math.inf)
    with torch.autocast("cpu", enabled=False) if widen else nullcontext():
        heads = F.scaled_dot_product_attention(queries, keys, values, visible, dropout, scale=scale)
    return heads.to(dtype)


def _causal(length: int, n_keys: int, window: int | None, device: torch.device) -> Tensor | None:
    """True where a key is not after the query, nor further back than the window.

    Shape: (L, M), or None where each query sees all keys
    """
    if length == 1 and (window is None or n_keys <= window + 1):
        return None
    ones = torch.ones(length, n_keys, dtype=torch.bool, device=device)
    visible = ones.tril(n_keys - length)
    return visible if window is None else visible & ones.triu(n_keys - length - window)


def _padding(mask: Tensor, n: int, n_keys: int) -> Tensor:
    """Shape: (B, M) -> (B, 1, 1, M)"""
    if mask.dtype != torch.bool or mask.shape != (n, n_keys):
        raise WordwaveError(
            f"mask must be bool of shape {(n, n_keys)}, true where a key is a word, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return mask[:, None, None, :]


def _masked(scores: Tensor, visible: Tensor, *, additive: bool) -> Tensor:
    """Scores with −∞ where a query must not look. Shape: (B, H, L, M) -> (B, H, L, M)

    To add is faster in training. It lets gradients through to hidden scores too, which are 0 unless
    a query sees no key at all.
    """
    if not scores.requires_grad:
        return scores.masked_fill_(~visible, -math.inf)
    if additive:
        return scores + torch.zeros_like(visible, dtype=scores.dtype).masked_fill_(
            ~visible, -math.inf
        )
    return scores.masked_fill(~visible, -math.inf)


def _check_positions(positions: Tensor, x: Tensor) -> None:
    n, length = x.shape[:2]
    cx.check_tensor("positions", positions)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise WordwaveError(f"positions must be integers or real numbers, got {positions.dtype}")
    if positions.shape not in ((length,), (1, length), (n, length)):
        raise WordwaveError(
            f"positions must be of shape {(length,)} or {(n, length)}, got {tuple(positions.shape)}"
        )
