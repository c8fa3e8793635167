"""Random positions: train on short sentences, read long ones.

A network meets only the phases of the positions it was trained on. But a wave takes any position,
and order is kept when words move apart: so a training sentence of L words stands on a sorted random
subset of 1 … `highest`, drawn anew each time, and no later position is a stranger.
"""

from __future__ import annotations

import torch
from torch import Tensor


def random_positions(
    mask: Tensor, highest: int, generator: torch.Generator | None = None
) -> Tensor:
    """Distinct, increasing positions for the words of each sentence, 1 … highest.

    Shape: mask (B, L) true where a word is -> (B, L) integers; padding is given position 0
    """
    n, length = mask.shape
    if highest < length:
        raise ValueError(f"highest must be at least the longest sentence, {length}, got {highest}")
    order = torch.rand(n, highest, generator=generator).argsort(dim=1)[:, :length] + 1
    # Sorting with padding last leaves a uniform subset for the words.
    return order.masked_fill(~mask, highest + 1).sort(dim=1).values * mask
