"""Random positions: train on short sentences, read long ones.

A network meets only the phases of the positions it was trained on. But a wave takes any position,
and order is kept when words move apart: so a training sentence of L words stands on a sorted random
subset of 1 … `highest`, drawn anew each time, and no later position is a stranger.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.errors import WordwaveError


def random_positions(
    mask: Tensor, highest: int, generator: torch.Generator | None = None
) -> Tensor:
    """Distinct, increasing positions for the words of each sentence, in 1 … highest.

    Shape: mask (B, L) true where a word is, padding last -> (B, L) integers; 0 for padding
    """
    length = mask.shape[1]
    if highest < length:
        raise WordwaveError(
            f"highest must be at least the longest sentence, {length}, got {highest}"
        )
    n_words = mask.sum(1, keepdim=True)
    drawn = (
        torch.rand(mask.shape, generator=generator, device=mask.device)
        .masked_fill(~mask, 1)
        .sort(dim=1)
        .values
    )
    # Sorted draws may coincide; the k-th word's own place, k, is added to keep them apart.
    spare = highest - n_words
    gaps = torch.minimum((drawn * (spare + 1)).long(), spare)
    return (gaps + torch.arange(1, length + 1, device=mask.device)) * mask


def check_reach(highest: int, longest: int, what: str, limit: int | None = None) -> None:
    """Refuse positions that are too few for the longest sentence, or more than can be told apart.

    Args:
        highest: of the random positions, 0 for none.
        longest: length of the longest sentence.
        what: it is counted in.
        limit: highest position that the embedding knows, `None` if it knows all.
    """
    if highest and highest < longest:
        raise WordwaveError(
            f"random_positions must be 0 or at least {longest}, the {what}, got {highest}"
        )
    if limit is not None and highest > limit:
        raise WordwaveError(
            f"random_positions must be at most {limit}, the positions of 'pe', got {highest}"
        )


def spread(
    progress: float, shortest: int, highest: int, generator: torch.Generator | None = None
) -> int:
    """How far the positions of a batch are spread.

    The reach grows from `shortest` to `highest`, evenly on a logarithmic scale: from the start on
    positions of every kind, order is never found; learnt on neighbours first, it carries on. Half
    of the batches are spread over the whole reach, so that far places are seen often enough, and
    half over a random part of it, so that neighbours are not forgotten.

    Args:
        progress: share of the training that is over; after half of it `highest` is reached.
    """
    share = min(2 * progress, 1.0)
    whole, part = torch.rand(2, generator=generator).tolist()
    if whole < 0.5:
        share *= part
    return round(shortest * (highest / shortest) ** share)
