"""Attention with linear biases."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wordwave.complex import Device
from wordwave.positions.base import PositionEncoding, relative


class ALiBi(PositionEncoding):
    """Linear bias (Press et al., 2022): a score falls with distance, at a slope for each head.

        a_mn = q_m·k_n/√d − 2^(−8h/H)·(m − n),   h = 1 … H

    Published for causal attention, where all keys lie before the query. Here the order of the
    slopes is reversed for keys after it: with the same slopes on both sides, a sentence and its
    mirror image would get the same output.
    """

    slopes: Tensor

    def __init__(
        self, n_heads: int, head_dim: int, *, device: Device = None, **options: Any
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        slopes = [2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)]
        self.register_buffer("slopes", torch.tensor(slopes, device=device), persistent=False)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        back = relative(query_positions, key_positions)
        before, after = self.slopes.view(-1, 1, 1), self.slopes.flip(0).view(-1, 1, 1)
        return torch.where(back >= 0, -before * back, after * back)
