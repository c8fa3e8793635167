"""Polar coordinate position embedding."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import sinusoidal
from wordwave.complex import TURN, Device, parameter_dtype
from wordwave.positions.base import PositionEncoding, check_above, phases


class PoPE(PositionEncoding):
    """Magnitudes from content, phases from positions (Gopalakrishnan et al., 2025, Eq. 6).

        a_mn = Σ_c softplus(q_c)·softplus(k_c)·cos((n − m)·ω_c + δ_c) / √d,   ω_c = base^(−c/d)

    That is Re Σ_c softplus(q_c)·e^{iω_c·m} times the conjugate of softplus(k_c)·e^{i(ω_c·n + δ_c)}.
    In RoPE the angle between the complex numbers q_c and k_c adds to that of the positions, so that
    content moves the distance a head attends to; here it cannot. δ is learned for each head and
    component (within [−2π, 0] in the paper; without bounds here, as a phase has none). Queries and
    keys become vectors of 2·d numbers, for any attention kernel.

    Args:
        base: the lowest frequency is about 1/base.
        phase_range: δ is initialized uniformly in [−phase_range, 0]; 2π in the paper, or 0, with
            which it extrapolates better.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        base: float = 10_000.0,
        phase_range: float = TURN,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        check_above(1, base=base)
        check_above(-1e-9, phase_range=phase_range)
        self.base = base
        drawn = torch.rand(n_heads, 1, head_dim, device=device, dtype=parameter_dtype(dtype))
        self.delta = nn.Parameter(-phase_range * drawn)
        """δ. Shape: (H, 1, d)"""

    def query_phases(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions -> what broadcasts to (B, H, L, d)"""
        return phases(
            sinusoidal(self.head_dim, base=self.base, device=heads.device), positions, heads
        )

    def key_phases(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, M, d), positions -> what broadcasts to (B, H, M, d)"""
        return PoPE.query_phases(self, heads, positions) + self.delta

    def encode_queries(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: (B, H, L, d) -> (B, H, L, 2·d)"""
        return _wave(F.softplus(heads), self.query_phases(heads, positions))

    def encode_keys(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: (B, H, M, d) -> (B, H, M, 2·d)"""
        return _wave(F.softplus(heads), self.key_phases(heads, positions))


def _wave(magnitude: Tensor, phase: Tensor) -> Tensor:
    """r·e^{iφ} in [real | imag] layout. The dot product of two of them is Re of a·conj(b)."""
    return cx.scale(cx.phasor(phase).to(magnitude.dtype), magnitude)
