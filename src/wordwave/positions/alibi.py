"""Attention with linear biases."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
