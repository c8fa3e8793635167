"""Batches of sentences of about the same length, so that little of them is padding."""

from __future__ import annotations

import torch
from torch import Tensor

POOL = 50
"""Batches whose rows are sorted together."""


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
    pools = order.split(POOL * per_batch)
    batches = [batch for pool in pools for batch in pool[longest[pool].argsort()].split(per_batch)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    members = torch.arange(group)
    return [(batches[i].unsqueeze(1) * group + members).flatten() for i in shuffled]


def token_batches(lengths: Tensor, budget: int, *, generator: torch.Generator) -> list[Tensor]:
    """Row numbers of each batch of one epoch, in random order; batches fill a budget of words.

    Rows are shuffled, and sorted by length in pools of about 50 batches, so that little is padding
    and batches differ from epoch to epoch.

    Shape: lengths (N,) -> tensors of row numbers
    """
    order = torch.randperm(len(lengths), generator=generator)
    per_pool = max(int(POOL * budget / max(float(lengths.float().mean()), 1.0)), 1)
    batches = [batch for rows in order.split(per_pool) for batch in _filled(rows, lengths, budget)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]


def by_length(lengths: Tensor, budget: int) -> list[Tensor]:
    """Row numbers in batches that fill a budget of words, the short sentences first."""
    return _filled(torch.arange(len(lengths)), lengths, budget)


def _filled(rows: Tensor, lengths: Tensor, budget: int) -> list[Tensor]:
    """Rows, sorted by length, in batches of as many as fit `budget` words when all are padded to
    the longest; a row that alone has more is a batch by itself."""
    rows = rows[lengths[rows].argsort(stable=True)]
    cuts, start = [], 0
    for end, length in enumerate(lengths[rows].tolist()):
        if end > start and (end - start + 1) * length > budget:
            cuts.append(end)
            start = end
    return list(rows.tensor_split(cuts))
