"""Randomised positions, for any encoding: train on short texts, generalise to long ones.

A network only meets the phases or distances of the positions it was trained on. But encodings take
any position, and order is kept when words move apart: so a training text of L words gets a sorted
random subset of 1 … `highest` as its positions, drawn anew each time, and later positions are not
new (Ruoss et al., Randomized Positional Encodings Boost Length Generalization of Transformers,
ACL 2023).
"""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.errors import WordwaveError


def random_positions(
    mask: Tensor, highest: int, generator: torch.Generator | None = None
) -> Tensor:
    """Distinct, increasing positions for the words of each text, in 1 … highest.

    Shape: mask (B, L), true for words, padding last -> (B, L) integers; 0 for padding
    """
    length = mask.shape[1]
    if highest < length:
        raise WordwaveError(
            f"highest must be at least the longest sentence, {length}, got {highest}"
        )
    n_words = mask.sum(1, keepdim=True)
    uniform = torch.rand(mask.shape, generator=generator, device=mask.device)
    drawn = uniform.masked_fill(~mask, 1).sort(dim=1).values
    # Sorted draws may coincide; adding k to the k-th one makes them distinct.
    spare = highest - n_words
    gaps = torch.minimum((drawn * (spare + 1)).long(), spare)
    return (gaps + torch.arange(1, length + 1, device=mask.device)) * mask
