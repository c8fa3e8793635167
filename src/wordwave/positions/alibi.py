"""Attention with linear biases."""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.complex import Device
from wordwave.positions.base import PositionEncoding


class ALiBi(PositionEncoding):
    """Linear bias (Press et al., 2022): a score falls with distance, at a slope for each head.

    Published for causal attention, where all keys lie before the query. Here the order of the
    slopes is reversed for keys after it: with the same slopes on both sides, a sentence and its
    mirror image would get the same output.
    """

    slopes: Tensor

    def __init__(self, n_heads: int, head_dim: int, *, device: Device = None) -> None:
        super().__init__(n_heads, head_dim, device=device)
        slopes = [2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)]
        self.register_buffer("slopes", torch.tensor(slopes, device=device), persistent=False)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        back = (query_positions.unsqueeze(-1) - key_positions.unsqueeze(-2)).unsqueeze(-3)
        before, after = self.slopes.view(-1, 1, 1), self.slopes.flip(0).view(-1, 1, 1)
        return torch.where(back >= 0, -before * back, after * back)
