"""Multi-head attention over either field, and the relative attention of Transformer-XL.

With heads in `[real | imag]` layout, Re(q·k†) is the dot product of two real vectors, and Im(q·k†)
is the same with the key rotated by 90 degrees: real kernels compute both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.errors import WordwaveError, unknown
from wordwave.layers.linear import Linear
from wordwave.layers.weight import (
    Field,
    WeightOptions,
    check_dropout,
    check_input,
    n_parts,
)
from wordwave.positions import POSITIONS, PositionEncoding
from wordwave.positions.base import check_positions, fused_attention, total_bias

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
    clock: Tensor | None = None
    """Positions that the encoding counts itself, if it does. Shape: (B, H, M)"""

    @property
    def n_keys(self) -> int:
        return self.keys.shape[2]

    @property
    def encoded_positions(self) -> Tensor:
        """The positions that the encoding goes by. Shape: (M,), (B, M) or (B, H, M)"""
        return self.positions if self.clock is None else self.clock

    def last(self, n: int) -> KVCache:
        """The last n keys and values, or all if there are fewer."""
        start = max(self.n_keys - n, 0)
        keys, values = self.keys[:, :, start:], self.values[:, :, start:]
        clock = None if self.clock is None else self.clock[..., start:]
        return KVCache(keys, values, self.positions[..., start:], self.distances, clock)

    def select(self, rows: Tensor) -> KVCache:
        """Some rows of the batch, which must all have the same positions. Shape: rows (n,)"""
        keys, values = (t.index_select(0, rows) for t in (self.keys, self.values))
        clock = None if self.clock is None else self.clock.index_select(0, rows)
        return self._replace(keys=keys, values=values, clock=clock)


class MultiHeadAttention(nn.Module):
    """softmax(score(q·k†) / sqrt(d))·v for each head, over the real or the complex field.

    Args:
        dim: width D, in complex numbers if the field is complex.
        n_heads: H; D must be a multiple of it, d = D/H.
        score: `"magnitude"` or `"real"`, see `Score`.
        position: a position encoding inside attention, by its name in `wordwave.positions`, or a
            class of one, called with n_heads and head_dim; for a real field.
        dropout: share of attention weights dropped in training.
        bias, field, share, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        score: Score = "magnitude",
        position: str | Callable[..., PositionEncoding] | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        **options: Unpack[WeightOptions],
    ) -> None:
        super().__init__()
        cx.check_at_least_one(dim=dim, n_heads=n_heads)
        if dim % n_heads:
            raise WordwaveError(
                f"dim must be a multiple of n_heads, got dim={dim}, n_heads={n_heads}"
            )
        check_dropout("dropout", dropout)
        if score not in get_args(Score):
            raise WordwaveError(f"score must be 'magnitude' or 'real', got {score!r}")
        self.dim, self.n_heads, self.score, self.dropout = dim, n_heads, score, dropout
        self.field: Field = options.get("field", "complex")
        self.n_parts = n_parts(self.field)
        self.scale = 1 / math.sqrt(dim // n_heads)
        self.fused = score == "real"
        """Whether scores are plain dot products, which torch's fused attention computes."""
        self.position = None if position is None else self._build_position(position, options)
        self.to_query, self.to_key, self.to_value, self.to_out = (
            Linear(dim, dim, bias=bias, **options) for _ in range(4)
        )

    def _build_position(
        self, position: str | Callable[..., PositionEncoding], options: WeightOptions
    ) -> PositionEncoding:
        if self.field != "real":
            raise WordwaveError(f"position={position!r} goes with field='real', got {self.field!r}")
        made: dict[str, Any] = {k: v for k, v in options.items() if k in ("device", "dtype")}
        if not callable(position):
            if position not in POSITIONS:
                raise unknown("position", position, POSITIONS)
            position = POSITIONS[position]
        encoding = position(self.n_heads, self.dim // self.n_heads, **made)
        if not isinstance(encoding, PositionEncoding):
            raise TypeError(f"position must be a PositionEncoding, got {type(encoding).__name__}")
        return encoding

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
            mask: (B, M) bool, true where a key is a word and false where it is padding; or
                (B, L, M), true where a query may attend to a key, as for packed texts.
            causal: a query sees no key after its own position, the last query the last key.
            positions: (L,) or (B, L) of x for the position encoding, or 1 … L; a source has 1 … M.
            returns: (B, L, parts·D); only the output's bias where there is nothing to attend to.
        """
        check_input("x", x, self.dim, self.field, batched=True)
        if positions is None:
            positions = torch.arange(1, x.shape[1] + 1, device=x.device)
        if source is None:
            cache = self.project_kv(x, None, positions)
            return self.attend(x, cache, mask=mask, causal=causal)
        cache = self.project_kv(source)
        return self.attend(x, cache, mask=mask, causal=causal, positions=positions)

    def project_kv(
        self, source: Tensor, past: KVCache | None = None, positions: Tensor | None = None
    ) -> KVCache:
        """Project a source to keys and values and append them to those of the past.

        Shape: source (B, M, parts·D), positions (M,) or (B, M); if None, they continue the past's
        """
        check_input("source", source, self.dim, self.field, batched=True)
        keys = cx.split_heads(self.to_key(source), self.n_heads, self.n_parts)
        values = cx.split_heads(self.to_value(source), self.n_heads, self.n_parts)
        if positions is None:
            positions = torch.arange(1, source.shape[1] + 1, device=source.device)
            if past is not None and past.n_keys:
                positions = past.positions[..., -1:] + positions
        else:
            check_positions(positions, *source.shape[:2])
        clock = None
        if self.position is not None:
            before = None
            if past is not None and past.n_keys and past.clock is not None:
                before = past.clock[..., -1:], past.positions[..., -1:]
            clock = self.position.clock(keys, positions, before)
            at = positions if clock is None else clock
            keys = self.position.encode_keys(keys, at)
            values = self.position.encode_values(values, at)
        if past is None:
            return KVCache(keys, values, positions, None, clock)
        lead = torch.broadcast_shapes(past.positions.shape[:-1], positions.shape[:-1])
        both = [p.expand(*lead, -1) for p in (past.positions, positions)]
        if clock is not None and past.clock is not None:
            clock = torch.cat([past.clock, clock], -1)
        return KVCache(
            torch.cat([past.keys, keys], 2),
            torch.cat([past.values, values], 2),
            torch.cat(both, -1),
            past.distances,
            clock,
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
        need_weights: bool = False,
    ) -> Tensor:
        """Attend from x to cached keys and values.

        Shape:
            x: (B, L, parts·D), cache: of M keys.
            mask, causal: as in `forward`.
            window: with causal, a query sees itself and at most so many keys before it.
            positions: (L,) or (B, L), of a x whose keys are not cached (cross-attention); if None,
                those of the last L keys, or 1 … L if M < L.
            returns: (B, L, parts·D); the softmax weights of the keys (B, H, L, M) if need_weights.
        """
        check_input("x", x, self.dim, self.field, batched=True)
        (n, length, _), n_keys = x.shape, cache.n_keys
        if n != cache.keys.shape[0]:
            raise WordwaveError(
                f"x and the source must have the same batch size, got {n} and {cache.keys.shape[0]}"
            )
        if positions is not None:
            check_positions(positions, *x.shape[:2])
        elif n_keys >= length:
            positions = cache.encoded_positions[..., n_keys - length :]
        else:
            positions = torch.arange(1, length + 1, device=x.device)
        queries, bias = cx.split_heads(self.to_query(x), self.n_heads, self.n_parts), None
        visible = _visible(x, n_keys, mask, causal, window)
        if self.position is not None:
            queries = self.position.encode_queries(queries, positions)
            places = positions, cache.encoded_positions
            bias = total_bias(self.position, queries, cache.keys, *places, visible)
        if need_weights:  # the means of one-hot values
            one_hot = torch.eye(n_keys, dtype=cache.values.dtype, device=x.device)
            cache = cache._replace(values=one_hot.expand(n, self.n_heads, -1, -1))
        empty = None
        if visible is not None and (mask is not None or n_keys < length):
            empty = ~visible.any(-1, keepdim=True)  # queries that see no key at all
        dropout = self.dropout if self.training else 0.0
        if self.fused:
            is_plain = bias is None and mask is None and window is None
            skips = causal and is_plain and n_keys == length
            visible = None if skips else visible
            heads = _fused_attention(queries, cache, visible, bias, dropout, self.scale, skips)
            heads = heads if empty is None else heads.masked_fill(empty, 0)
        else:
            scores = self._scores(queries, cache)
            if bias is not None:
                scores = scores + bias
            if visible is not None:
                scores = _masked(scores, visible, additive=empty is None)
            weights = torch.softmax(scores, dim=-1)
            if empty is not None:
                weights = weights.masked_fill(empty, 0)
            heads = F.dropout(weights, dropout).to(cache.values.dtype) @ cache.values
        if need_weights:
            return heads
        if self.position is not None:
            heads = self.position.decode_values(heads, positions)
        return self.to_out(cx.merge_heads(heads, self.n_parts))

    def _scores(self, queries: Tensor, cache: KVCache) -> Tensor:
        """|q·k†| / sqrt(d). Shape: (B, H, L, parts·d) -> (B, H, L, M)"""
        real = queries @ cache.keys.mT
        if self.field == "real":
            return real.abs() * self.scale
        return modulus(real, queries @ cx.rotate(cache.keys).mT) * self.scale

    def extra_repr(self) -> str:
        return f"{self.dim}, n_heads={self.n_heads}, field={self.field!r}, score={self.score!r}"


class RelativeAttention(MultiHeadAttention):
    """Causal attention of Transformer-XL (Dai et al., 2019, Sec. 3.3), by distances.

        A_ij = q_i·k_j + q_i·(W R_{i−j}) + u·k_j + v·(W R_{i−j})
                 (a)          (b)            (c)         (d)

    k_j is the key of token j, W R_{i−j} the projected encoding of its distance; the learned u and v
    replace the query in the terms that depend on the key alone. R is the sinusoidal encoding of a
    distance, in `[real | imag]` layout e^{iω·distance}. Call `attend` with `causal=True`.

    Args:
        clamp_len: greater distances count as this one; 0 for no limit.
        dim, n_heads, score, dropout, field, share, device, dtype: as in `MultiHeadAttention`; the
            score of a real field is always q·k.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        score: Score = "real",
        clamp_len: int = 0,
        dropout: float = 0.0,
        **options: Unpack[WeightOptions],
    ) -> None:
        if options.get("field") == "real":
            score = "real"
        super().__init__(dim, n_heads, score=score, dropout=dropout, bias=False, **options)
        self.fused, self.clamp_len = False, clamp_len
        self.to_distance = Linear(dim, dim, bias=False, **options)
        zeros = self.to_distance.weight.a.new_zeros(n_heads, 1, self.n_parts * dim // n_heads)
        self.u, self.v = nn.Parameter(zeros), nn.Parameter(zeros.clone())

    def project_kv(
        self, source: Tensor, past: KVCache | None = None, positions: Tensor | None = None
    ) -> KVCache:
        """As in `MultiHeadAttention`; the cache also holds the projected distances."""
        cache = super().project_kv(source, past, positions)
        if cache.distances is not None and cache.distances.shape[1] >= cache.n_keys:
            return cache
        # Twice as many as needed for a growing cache, so that they are seldom projected again.
        n = cache.n_keys if past is None else 2 * cache.n_keys
        return cache._replace(distances=self._project_distances(n))

    def _project_distances(self, n: int) -> Tensor:
        """W·R of the distances n − 1, …, 1, 0. Shape: (H, n, parts·d)"""
        weight = self.to_distance.weight.a
        distance = torch.arange(n - 1, -1, -1, device=weight.device)
        if self.clamp_len:
            distance = distance.clamp(max=self.clamp_len)
        frequencies = sinusoidal(self.n_parts * self.dim // 2, device=weight.device)
        encoded = cx.phasor(angle(frequencies, distance.unsqueeze(-1))).to(weight.dtype)
        return cx.split_heads(self.to_distance(encoded)[None], self.n_heads, self.n_parts)[0]

    def _scores(self, queries: Tensor, cache: KVCache) -> Tensor:
        """(a) + (b) + (c) + (d), the real part or the magnitude, / sqrt(d)."""
        assert cache.distances is not None
        keys, distances = cache.keys, cache.distances[:, -cache.n_keys :]
        if queries.shape[2] != 1:
            distances = F.pad(distances, (0, 0, 1, 0))  # see _align
        # There are fewer queries to scale than scores.
        by_content, by_distance = (self.scale * (queries + bias) for bias in (self.u, self.v))

        def product(keys: Tensor, distances: Tensor) -> Tensor:
            return (by_content @ keys.mT).add_(_align(by_distance @ distances.mT))

        real = product(keys, distances)
        if self.score == "real":
            return real
        return modulus(real, product(cx.rotate(keys), cx.rotate(distances)))


def _align(by_distance: Tensor) -> Tensor:
    """From a column of zeros and one for each distance K − 1, …, 0 to a column for each key.

    The score of query i and key j is in column j + L − 1 − i: every row is shifted one less to the
    left. With one more column, reshaped to rows of another length, the numbers fall into place;
    those of keys after the query are masked later.

    Shape: (B, H, L, 1 + K) -> (B, H, L, K); (B, H, 1, K) stays as it is
    """
    length, n_columns = by_distance.shape[-2:]
    if length == 1:
        return by_distance
    return by_distance.flatten(-2)[..., length:].unflatten(-1, (length, n_columns - 1))


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
    causal: bool,
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
        heads = fused_attention(queries, keys, values, visible, scale, dropout, causal)
    return heads.to(dtype)


def _visible(
    x: Tensor, n_keys: int, mask: Tensor | None, causal: bool, window: int | None
) -> Tensor | None:
    """True where a key is a word, not after the query, nor further back than the window.

    Shape: x (B, L, W) -> what broadcasts to (B, H, L, M), or None where each query sees all keys
    """
    (n, length, _), visible = x.shape, None
    if causal and (length > 1 or (window is not None and n_keys > window + 1)):
        ones = torch.ones(length, n_keys, dtype=torch.bool, device=x.device)
        visible = ones.tril(n_keys - length)
        if window is not None:
            visible = visible & ones.triu(n_keys - length - window)
    if mask is None:
        return visible
    cx.check_tensor("mask", mask)
    if mask.dtype != torch.bool or mask.shape not in ((n, n_keys), (n, length, n_keys)):
        raise WordwaveError(
            f"mask must be bool of shape {(n, n_keys)}, true where a key is a word, "
            f"or {(n, length, n_keys)}, got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    words = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
    return words if visible is None else words & visible


def _masked(scores: Tensor, visible: Tensor, *, additive: bool) -> Tensor:
    """Scores with −∞ where a query must not look. Shape: (B, H, L, M) -> (B, H, L, M)

    To add is faster in training. It lets gradients through to hidden scores too, which are 0 unless
    a query sees no key at all.
    """
    hidden = ~visible
    if not scores.requires_grad:
        return scores.masked_fill_(hidden, -math.inf)
    if not additive:
        return scores.masked_fill(hidden, -math.inf)
    return scores + torch.zeros_like(hidden, dtype=scores.dtype).masked_fill_(hidden, -math.inf)
