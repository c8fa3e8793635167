"""Contextual position encoding."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.complex import Device, parameter_dtype
from wordwave.positions.base import PositionEncoding, relative


class CoPE(PositionEncoding):
    """Positions that count what matters (Golovneva et al., Contextual Position Encoding, 2024).

        g_mn = σ(q_m·k_n/√d)                 does n count for m?
        p_mn = Σ_{n ≤ t ≤ m} g_mt            how many that count lie between n and m
        a_mn = q_m·k_n/√d + q_m·e[p_mn]

    e[p] is interpolated between the learned vectors of the two nearest integers, and p is clamped
    to the last of them; the heads of a layer share them. Only the order of positions matters.
    Published for causal attention; keys after the query count the visible words from it on,
    p_mn = Σ_{m < t ≤ n} g_mt, and have vectors of their own.

    Args:
        n_positions: number of learned vectors for each side.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        n_positions: int = 64,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        cx.check_at_least_one(n_positions=n_positions)
        self.n_positions = n_positions
        shape, kind = (2 * n_positions, head_dim), parameter_dtype(dtype)
        self.vectors = nn.Parameter(torch.zeros(shape, device=device, dtype=kind))
        """Keys up to the query, then keys after it."""

    def count(
        self,
        queries: Tensor,
        keys: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
        visible: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """p_mn, and whether n is after m. Shape: as `content_bias` -> (B, H, L, M), (…, L, M)"""
        wide = torch.promote_types(queries.dtype, torch.float32)  # bfloat16 counts to 256
        gates = torch.sigmoid((queries @ keys.mT).to(wide) / math.sqrt(self.head_dim))
        if visible is not None:
            gates = gates * visible
        after = relative(query_positions, key_positions) < 0
        up_to_query = (gates * ~after).sum(-1, keepdim=True)
        counted = gates.cumsum(-1)
        return torch.where(after, counted - up_to_query, up_to_query - counted + gates), after

    def content_bias(
        self,
        queries: Tensor,
        keys: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
        visible: Tensor | None,
    ) -> Tensor:
        p, after = self.count(queries, keys, query_positions, key_positions, visible)
        p = p.clamp(min=0, max=self.n_positions - 1)
        at_integers = queries @ self.vectors.to(queries.dtype).T  # (B, H, L, 2·positions)
        below = p.floor()
        start = after * self.n_positions
        low = at_integers.gather(-1, below.long() + start)
        high = at_integers.gather(-1, p.ceil().long() + start)
        return low + (p - below) * (high - low)
