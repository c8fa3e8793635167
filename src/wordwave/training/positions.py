"""Random positions: train on short sentences, generalise to long ones.

A network only meets the phases of the positions it was trained on. But a wave takes any position,
and order is kept when words move apart: so a training sentence of L words gets a sorted random
subset of 1 … `highest` as its positions, drawn anew each time, and later positions are not new.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.errors import WordwaveError


def random_positions(
    mask: Tensor, highest: int, generator: torch.Generator | None = None
) -> Tensor:
    """Distinct, increasing positions for the words of each sentence, in 1 … highest.

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


def check_random_positions(highest: int, longest: int, what: str, limit: int | None = None) -> None:
    """Raise if there are fewer positions than the longest sentence needs, or more than exist.

    Args:
        highest: the setting `random_positions`, 0 for none.
        longest: length of the longest sentence.
        what: names `longest` in the message.
        limit: highest position of the embedding, `None` if it takes any.
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
    """The highest random position of a batch.

    The reach grows from `shortest` to `highest`, linearly on a logarithmic scale: a model that
    starts with positions of all magnitudes does not learn order, one that starts with neighbours
    does. Half of the batches use the whole reach, so that distant positions are frequent enough,
    and half a random part of it, so that neighbours are not forgotten.

    Args:
        progress: fraction of the training that is over; `highest` is reached at one half.
    """
    share = min(2 * progress, 1.0)
    whole, part = torch.rand(2, generator=generator).tolist()
    if whole < 0.5:
        share *= part
    return round(shortest * (highest / shortest) ** share)
