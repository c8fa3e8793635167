"""Position inside attention: the later encodings that users compare waves with.

Both leave the embedding alone and act on queries, keys or scores.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal


class RoPE(nn.Module):
    """Rotary positions (Su et al., 2021): a query or key at pos is turned by e^{iω·pos}.

    A real head of d numbers is read as d/2 complex ones, `[real | imag]`. Then q·k depends on
    positions only through their difference: the offset law of a word-shared wave, inside attention.
    """

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"RoPE needs an even width per head, got {head_dim}")
        self.head_dim = head_dim

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions (L,) or (B, L) -> (B, H, L, d)"""
        frequencies = sinusoidal(self.head_dim // 2, device=heads.device)
        turning = cx.phasor(angle(frequencies, positions.unsqueeze(-1))).to(heads.dtype)
        return cx.multiply(heads, turning if positions.dim() == 1 else turning.unsqueeze(1))


class ALiBi(nn.Module):
    """Linear bias (Press et al., 2022): a score falls with distance, at a slope for each head.

    Published for causal attention, where all keys lie before the query. Here the slopes of the
    heads run the other way for keys after it: were both alike, a sentence and its mirror image
    would be the same.
    """

    slopes: Tensor

    def __init__(self, n_heads: int, *, device: torch.device | str | int | None = None) -> None:
        super().__init__()
        slopes = torch.tensor(
            [2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)], device=device
        )
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Shape: positions (L,) or (B, L) and (M,) or (B, M) -> (H, L, M) or (B, H, L, M)"""
        back = (queries.unsqueeze(-1) - keys.unsqueeze(-2)).unsqueeze(-3)
        before, after = self.slopes.view(-1, 1, 1), self.slopes.flip(0).view(-1, 1, 1)
        return torch.where(back >= 0, -before * back, after * back)
