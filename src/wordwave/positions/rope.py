"""Rotary position embedding, and p-RoPE."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from wordwave import complex as cx
from wordwave.angle import sinusoidal
from wordwave.errors import WordwaveError
from wordwave.positions.base import PositionEncoding, check_above, check_even, phases


class RoPE(PositionEncoding):
    """Rotary positions (Su et al., 2021): a query or key at pos is multiplied by e^{iω·pos}.

        a_mn = Re Σ_c q_c·k̄_c·e^{iω_c·(m − n)} / √d,   ω_c = base^(−2c/d)

    A real head of d numbers is read as d/2 complex ones, `[real | imag]`. Then q·k depends on
    positions only through their difference: the offset law of a word-shared wave, inside attention.

    Args:
        base: the lowest frequency is about 1/base.
        values: also rotate values by their positions and the output back by the query's, so that
            what is attended to, and not only how much, depends on distances.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        base: float = 10_000.0,
        values: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        check_even(type(self).__name__, head_dim)
        check_above(1, base=base)
        self.base, self.values = base, values

    def frequencies(self, like: Tensor) -> Tensor:
        """Shape: (d/2,)"""
        return sinusoidal(self.head_dim // 2, base=self.base, device=like.device)

    def rotation(self, heads: Tensor, positions: Tensor) -> Tensor:
        """e^{iω·pos}, in [real | imag] layout."""
        return cx.phasor(phases(self.frequencies(heads), positions, heads)).to(heads.dtype)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions (L,), (B, L) or (B, H, L) -> (B, H, L, d)"""
        return cx.multiply(heads, self.rotation(heads, positions))

    encode_queries = encode_keys = rotate

    def encode_values(self, heads: Tensor, positions: Tensor) -> Tensor:
        return self.rotate(heads, positions) if self.values else heads

    def decode_values(self, heads: Tensor, positions: Tensor) -> Tensor:
        if not self.values:
            return heads
        return cx.multiply(heads, cx.conj(self.rotation(heads, positions)))


class PRoPE(RoPE):
    """RoPE whose lowest frequencies do not rotate (Barbero et al., Round and Round We Go!, 2024).

        ω_c = base^(−2c/d) for c < p·d/2, else 0

    Low frequencies carry content, and over a long context even they turn far enough to disturb it;
    components that are not rotated match at any distance. p = 1 is RoPE, p = 0 is NoPE.

    Args:
        p: fraction of the frequencies that rotate, the highest ones.
        base, values, n_heads, head_dim, device, dtype: as in `RoPE`.
    """

    def __init__(self, n_heads: int, head_dim: int, *, p: float = 0.75, **options: Any) -> None:
        super().__init__(n_heads, head_dim, **options)
        if not 0 <= p <= 1:
            raise WordwaveError(f"p must be from 0 to 1, got {p}")
        self.p = p

    def frequencies(self, like: Tensor) -> Tensor:
        frequencies = super().frequencies(like)
        frequencies[int(self.p * len(frequencies)) :] = 0
        return frequencies
