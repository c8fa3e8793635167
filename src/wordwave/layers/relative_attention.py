"""Attention of Transformer-XL (Dai et al., 2019, Sec. 3.3) over either field.

    A_ij = q_i·k_j + q_i·(W R_{i−j}) + u·k_j + v·(W R_{i−j})
             (a)          (b)            (c)         (d)

k_j comes from what character j says, W R_{i−j} from how far back it stands; u and v are learnt and
take the place of the query where only the key matters. R is the sinusoidal encoding of a distance,
which in `[real | imag]` layout is e^{iω·distance}; over the complex field the products conjugate
their right side, as everywhere.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.layers import Field, KVCache, Linear, Score, Sharing
from wordwave.layers.attention import Heads, magnitude


class RelativeAttention(Heads):
    """Each character is answered by those before it and itself.

    Args:
        position: `"relative"` terms (b) to (d), `"rope"`, or `"none"`.
        clamp_len: greater distances count as this one; 0 for no limit.
        dim, n_heads, field, share, score, dropout: as in `Heads`.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        field: Field,
        share: Sharing = "none",
        score: Score = "real",
        position: Literal["relative", "rope", "none"] = "relative",
        clamp_len: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            dim,
            n_heads,
            field=field,
            share=share,
            score=score if field == "complex" else "real",
            rope=position == "rope",
            dropout=dropout,
            bias=False,
        )
        self.clamp_len = clamp_len
        self.to_distance: Linear | None = None
        if position == "relative":
            self.to_distance = Linear(dim, dim, field=field, share=share, bias=False)
            head_width = self.n_parts * dim // n_heads
            self.u = nn.Parameter(torch.zeros(n_heads, 1, head_width))
            self.v = nn.Parameter(torch.zeros(n_heads, 1, head_width))

    def distances(self, n: int) -> Tensor | None:
        """W·R of the distances n − 1, …, 1, 0. Shape: (H, n, parts·d)"""
        if self.to_distance is None:
            return None
        weight = self.to_distance.weight.a
        far = torch.arange(n - 1, -1, -1, device=weight.device)
        if self.clamp_len:
            far = far.clamp(max=self.clamp_len)
        frequencies = sinusoidal(self.n_parts * self.dim // 2, device=weight.device)
        encoded = cx.phasor(angle(frequencies, far.unsqueeze(-1))).to(weight.dtype)
        return self._split_heads(self.to_distance(encoded).unsqueeze(0)).squeeze(0)

    def look_back(
        self,
        x: Tensor,
        memory: KVCache,
        *,
        window: int | None = None,
        distances: Tensor | None = None,
    ) -> Tensor:
        """Attend from the last L characters of the memory to all before, or to `window` of them.

        Shape:
            x: (B, L, parts·D), read into the memory already.
            distances: what `distances` gave for K or more, worked out if None.
            returns: (B, L, parts·D)
        """
        length, n_keys = x.shape[1], memory.keys.shape[2]
        queries = self._split_heads(self.to_query(x))
        if self.rope is not None:
            queries = self.rope.turn(queries, memory.positions[..., n_keys - length :])
        unseen = _unseen(length, n_keys, window, x.device)
        if self.to_distance is None and self.score == "real":
            return self._plain(queries, memory, unseen)
        parts = self._products(queries, memory.keys, distances)
        scores = parts[0] if len(parts) == 1 else magnitude(*parts)
        if unseen is not None:
            scores = _hidden(scores, unseen)
        weights = F.dropout(torch.softmax(scores, dim=-1), self.dropout, self.training)
        return self.to_out(self._merge_heads(weights.to(memory.values.dtype) @ memory.values))

    def _products(self, queries: Tensor, keys: Tensor, distances: Tensor | None) -> list[Tensor]:
        """Re z / sqrt(d), and Im z / sqrt(d) if the score is a magnitude.

        Shape: (B, H, L, parts·d), (B, H, K, parts·d) -> one or two (B, H, L, K)
        """
        by_magnitude = self.score == "magnitude"
        turned = [keys, cx.rotate(keys)] if by_magnitude else [keys]
        if self.to_distance is None:
            return [self.scale * queries @ k.mT for k in turned]
        n_keys = keys.shape[2]
        if distances is None or distances.shape[1] < n_keys:
            distances = self.distances(n_keys)
            assert distances is not None
        far = distances[:, -n_keys:]
        if queries.shape[2] != 1:
            far = F.pad(far, (0, 0, 1, 0))  # see _aligned
        turned_far = [far, cx.rotate(far)] if by_magnitude else [far]
        # Queries are scaled, which are fewer than scores.
        by_content, by_place = (self.scale * (queries + term) for term in (self.u, self.v))
        return [
            (by_content @ k.mT).add_(_aligned(by_place @ r.mT))
            for k, r in zip(turned, turned_far, strict=True)
        ]

    def _plain(self, queries: Tensor, memory: KVCache, unseen: Tensor | None) -> Tensor:
        """Without terms of distance torch's own attention serves."""
        keys, values = memory.keys, memory.values
        on_cpu = queries.device.type == "cpu"
        if on_cpu:  # where bf16 attention is many times slower than fp32
            wide = torch.promote_types(values.dtype, torch.float32)
            queries, keys, values = (t.to(wide) for t in (queries, keys, values))
        with torch.autocast("cpu", enabled=False) if on_cpu else nullcontext():
            answers = F.scaled_dot_product_attention(
                queries,
                keys,
                values,
                None if unseen is None else ~unseen,
                self.dropout if self.training else 0.0,
                scale=self.scale,
            )
        return self.to_out(self._merge_heads(answers.to(memory.values.dtype)))


def _unseen(length: int, n_keys: int, window: int | None, device: torch.device) -> Tensor | None:
    """True where a query must not look: ahead, or further back than the window.

    Shape: (L, K), or None where each sees all
    """
    if length == 1 and (window is None or n_keys <= window + 1):
        return None
    ones = torch.ones(length, n_keys, dtype=torch.bool, device=device)
    unseen = ones.triu(n_keys - length + 1)
    return unseen if window is None else unseen | ones.tril(n_keys - length - window - 1)


def _hidden(scores: Tensor, unseen: Tensor) -> Tensor:
    """Scores with −∞ where a query must not look. Shape: (B, H, L, K), (L, K) -> (B, H, L, K)"""
    if not scores.requires_grad:
        return scores.masked_fill_(unseen, -math.inf)
    # Of finite scores a sum is the same, and gradients pass as they are.
    return scores + torch.zeros_like(unseen, dtype=scores.dtype).masked_fill_(unseen, -math.inf)


def _aligned(by_distance: Tensor) -> Tensor:
    """From a column of zeros and one for each distance K − 1, …, 0 to a column for each key.

    The key of query i in column j stands in column j + L − 1 − i: every row moves one less to the
    left. With one column more, read in rows of another length, the numbers fall into place; those
    of keys that lie ahead are of no use and masked later.

    Shape: (B, H, L, 1 + K) -> (B, H, L, K); (B, H, 1, K) stays as it is
    """
    length, n_columns = by_distance.shape[-2:]
    if length == 1:
        return by_distance
    return by_distance.flatten(-2)[..., length:].unflatten(-1, (length, n_columns - 1))
