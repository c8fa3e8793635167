"""Rotary position embedding."""

from __future__ import annotations

from torch import Tensor

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.complex import Device
from wordwave.errors import WordwaveError
from wordwave.positions.base import PositionEncoding


class RoPE(PositionEncoding):
    """Rotary positions (Su et al., 2021): a query or key at pos is multiplied by e^{iω·pos}.

    A real head of d numbers is read as d/2 complex ones, `[real | imag]`. Then q·k depends on
    positions only through their difference: the offset law of a word-shared wave, inside attention.
    """

    def __init__(self, n_heads: int, head_dim: int, *, device: Device = None) -> None:
        super().__init__(n_heads, head_dim, device=device)
        if head_dim % 2:
            raise WordwaveError(f"RoPE needs an even width per head, got {head_dim}")

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions (L,) or (B, L) -> (B, H, L, d)"""
        frequencies = sinusoidal(self.head_dim // 2, device=heads.device)
        rotation = cx.phasor(angle(frequencies, positions.unsqueeze(-1))).to(heads.dtype)
        return cx.multiply(heads, rotation if positions.dim() == 1 else rotation.unsqueeze(1))

    encode_queries = encode_keys = rotate
