"""Rotary position embedding."""

from __future__ import annotations

from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.errors import WordwaveError


class RoPE(nn.Module):
    """Rotary positions (Su et al., 2021): a query or key at pos is turned by e^{iω·pos}.

    A real head of d numbers is read as d/2 complex ones, `[real | imag]`. Then q·k depends on
    positions only through their difference: the offset law of a word-shared wave, inside attention.
    """

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2:
            raise WordwaveError(f"RoPE needs an even width per head, got {head_dim}")
        self.head_dim = head_dim

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions (L,) or (B, L) -> (B, H, L, d)"""
        frequencies = sinusoidal(self.head_dim // 2, device=heads.device)
        turning = cx.phasor(angle(frequencies, positions.unsqueeze(-1))).to(heads.dtype)
        return cx.multiply(heads, turning if positions.dim() == 1 else turning.unsqueeze(1))
