"""From the words of a sentence to one vector, padding left out."""

from __future__ import annotations

import math

from torch import Tensor


def pool_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return (x * mask.unsqueeze(-1)).sum(dim=1)


def pool_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L), true at least once in each row -> (B, W)"""
    return x.masked_fill(~mask.unsqueeze(-1), -math.inf).amax(dim=1)
