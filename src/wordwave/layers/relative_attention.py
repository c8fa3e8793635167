"""Attention of Transformer-XL (Dai et al., 2019, Sec. 3.3) over either field.

    A_ij = q_i·k_j + q_i·(W R_{i−j}) + u·k_j + v·(W R_{i−j})
             (a)          (b)            (c)         (d)

k_j is the key of token j, W R_{i−j} the projected encoding of its distance; the learned u and v
replace the query in the terms that depend on the key alone. R is the sinusoidal encoding of a
distance, in `[real | imag]` layout e^{iω·distance}; over the complex field the products conjugate
their right side, as in `MultiHeadAttention`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.layers.attention import KVCache, MultiHeadAttention, Score, modulus
from wordwave.layers.linear import Linear
from wordwave.layers.weight import Field, Sharing


class RelativeAttention(MultiHeadAttention):
    """Causal attention whose scores depend on distances; call `attend` with `causal=True`.

    Args:
        clamp_len: greater distances count as this one; 0 for no limit.
        dim, n_heads, field, share, score, dropout: as in `MultiHeadAttention`; the score of a real
            field is always q·k.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        field: Field,
        share: Sharing = "none",
        score: Score = "real",
        clamp_len: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            dim,
            n_heads,
            field=field,
            share=share,
            score=score if field == "complex" else "real",
            dropout=dropout,
            bias=False,
        )
        self.fused, self.clamp_len = False, clamp_len
        self.to_distance = Linear(dim, dim, field=field, share=share, bias=False)
        head_width = self.n_parts * dim // n_heads
        self.u = nn.Parameter(torch.zeros(n_heads, 1, head_width))
        self.v = nn.Parameter(torch.zeros(n_heads, 1, head_width))

    def project_kv(
        self, source: Tensor, past: KVCache | None = None, positions: Tensor | None = None
    ) -> KVCache:
        """As in `MultiHeadAttention`; the cache also holds the projected distances."""
        cache = super().project_kv(source, past, positions)
        if cache.distances is not None and cache.distances.shape[1] >= cache.n_keys:
            return cache
        # Twice as many as needed for a growing cache, so that they are seldom projected again.
        n = cache.n_keys if past is None else 2 * cache.n_keys
        return cache._replace(distances=self.project_distances(n))

    def project_distances(self, n: int) -> Tensor:
        """W·R of the distances n − 1, …, 1, 0. Shape: (H, n, parts·d)"""
        weight = self.to_distance.weight.a
        distance = torch.arange(n - 1, -1, -1, device=weight.device)
        if self.clamp_len:
            distance = distance.clamp(max=self.clamp_len)
        frequencies = sinusoidal(self.n_parts * self.dim // 2, device=weight.device)
        encoded = cx.phasor(angle(frequencies, distance.unsqueeze(-1))).to(weight.dtype)
        return self._split_heads(self.to_distance(encoded).unsqueeze(0)).squeeze(0)

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
