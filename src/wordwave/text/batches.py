"""Batches of sentences of about the same length, so that little of them is padding."""

from __future__ import annotations

import torch
from torch import Tensor


def bucketed(
    lengths: Tensor, batch_size: int, *, generator: torch.Generator, group: int = 1
) -> list[Tensor]:
    """Row numbers of each batch of one epoch, in random order.

    Rows are shuffled, sorted by length within pools of 50 batches, and cut. `group` consecutive
    rows (the two sentences of a minimal pair) stay together.

    Shape: lengths (N,) -> tensors of at most batch_size row numbers
    """
    per_batch = max(batch_size // group, 1)
    longest = lengths.view(-1, group).amax(dim=1)
    order = torch.randperm(len(longest), generator=generator)
    pools = order.split(50 * per_batch)
    batches = [batch for pool in pools for batch in pool[longest[pool].argsort()].split(per_batch)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    members = torch.arange(group)
    return [(batches[i].unsqueeze(1) * group + members).flatten() for i in shuffled]


def by_length(lengths: Tensor, batch_words: int) -> list[Tensor]:
    """Row numbers in batches of about so many words each, the short sentences first."""
    order = lengths.argsort(stable=True)
    widest = lengths[order].tolist()
    cuts, start = [], 0
    for end, width in enumerate(widest):
        if end > start and (end - start + 1) * width > batch_words:
            cuts.append(end)
            start = end
    return list(order.tensor_split(cuts))
