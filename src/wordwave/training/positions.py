"""Random positions in training, see `wordwave.positions.random_positions`."""

from __future__ import annotations

import torch

from wordwave.errors import WordwaveError
from wordwave.positions.randomised import random_positions as random_positions


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
