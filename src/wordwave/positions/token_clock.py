"""The token clock: each word advances the position by a learned amount."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from wordwave.complex import Device, parameter_dtype
from wordwave.positions.base import per_head
from wordwave.positions.rope import RoPE


class TokenClock(RoPE):
    """RoPE by a clock that words advance by amounts of their own, instead of by 1.

        a_mn = Re Σ_c q_c·k̄_c·e^{iω_c·(C_m − C_n)} / √d,   C_m = Σ_{t ≤ m} τ(k_t),   τ(k) = 1 + w·k

    The amount is a linear function of a word's key, for each head; w starts at 0, where this is
    `RoPE`. A clock that stands still at some words counts the others; one that advances by half a
    turn at a word keeps the parity of its occurrences. The exponent is that of the linear
    recurrence h ← λ^τ(w)·h + r_w. Positions counted within words are a clock set by hand.

    Positions with gaps or an offset advance the clock by τ times their differences. In
    cross-attention, queries keep their positions: the clock counts the words of the source.

    Args:
        base, values, n_heads, head_dim, device, dtype: as in `RoPE`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        made: dict[str, Any] = {"device": device, "dtype": parameter_dtype(dtype)}
        self.weight = nn.Parameter(torch.zeros(n_heads, 1, head_dim, **made))
        """w. Shape: (H, 1, d)"""

    def amount(self, keys: Tensor) -> Tensor:
        """τ. Shape: (B, H, M, d) -> (B, H, M)"""
        wide = torch.promote_types(keys.dtype, torch.float32)
        return 1 + (keys.to(wide) * self.weight).sum(-1)  # autocast leaves it in float32

    def clock(
        self, keys: Tensor, positions: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        amount = self.amount(keys)
        # Sums in float64, where it exists: an angle at position 10,000 needs more than float32.
        wide = torch.float32 if keys.device.type == "mps" else torch.float64
        at = per_head(positions).to(wide)
        if past is None:  # the first word advances the clock by its amount, too
            start, before = at[..., :1] - 1, at[..., :1] - 1
        else:
            start, before = past[0].to(wide), per_head(past[1]).to(wide)
        steps = torch.cat([before.expand(*at.shape[:-1], -1), at], -1).diff(dim=-1)
        return start + (amount.to(wide) * steps).cumsum(-1)
