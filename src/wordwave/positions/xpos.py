"""Extrapolatable position embedding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wordwave import complex as cx
from wordwave.errors import WordwaveError
from wordwave.positions.base import check_above, per_head
from wordwave.positions.rope import RoPE

FARTHEST = 30_000
"""Beyond it, factors leave the range of float32 at the default decay."""


class XPos(RoPE):
    """RoPE with a decay for each frequency (Sun et al., A Length-Extrapolatable Transformer, 2022).

        a_mn = Re Σ_c q_c·k̄_c·ζ_c^((m − n)/B)·e^{iω_c·(m − n)} / √d,   ζ_c = (c/(d/2) + γ)/(1 + γ)

    Queries are multiplied by ζ^(m/B) and keys by ζ^(−n/B); low frequencies keep more (as published,
    ζ grows with c). Scores fade with distance in causal attention, which the encoding is made for:
    keys after the query would grow instead. Only differences of positions matter, but the factors
    are powers of positions, so positions up to ±30,000 are allowed.

    Args:
        scale_base: B, the distance over which a score is multiplied by ζ.
        gamma: γ, the larger the slower is the fastest decay.
        base, values, n_heads, head_dim, device, dtype: as in `RoPE`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        check_above(0, scale_base=scale_base, gamma=gamma)
        self.scale_base, self.gamma = scale_base, gamma

    def decay(self, heads: Tensor, positions: Tensor) -> Tensor:
        """ζ^(pos/B). Shape: positions (L,), (B, L) or (B, H, L) -> (…, L, d/2)"""
        if not torch.compiler.is_compiling() and positions.numel():
            farthest = float(positions.abs().max())
            if farthest > FARTHEST:
                raise WordwaveError(
                    f"positions of XPos must be within ±{FARTHEST:,}, got {farthest:,.0f}; "
                    "subtract an offset, only differences matter"
                )
        half = self.head_dim // 2
        zeta = torch.arange(half, device=heads.device, dtype=torch.float64) / half
        zeta = (zeta + self.gamma) / (1 + self.gamma)
        exponent = per_head(positions).unsqueeze(-1).to(torch.float64) / self.scale_base
        return torch.exp(exponent * zeta.log()).to(heads.dtype)

    def encode_queries(self, heads: Tensor, positions: Tensor) -> Tensor:
        return cx.scale(self.rotate(heads, positions), self.decay(heads, positions))

    def encode_keys(self, heads: Tensor, positions: Tensor) -> Tensor:
        return cx.scale(self.rotate(heads, positions), self.decay(heads, -positions))
