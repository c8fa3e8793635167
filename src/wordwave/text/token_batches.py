"""Batches of pairs of sentences that fill a budget of words."""

from __future__ import annotations

import torch
from torch import Tensor


def token_batches(
    lengths: Tensor, budget: int, *, generator: torch.Generator, pool: int = 50
) -> list[Tensor]:
    """Row numbers of each batch of one epoch, in random order.

    A batch has as many rows as fit `budget` words when all are padded to its longest; a row that
    alone has more is a batch by itself. Rows are shuffled, and sorted by length in pools of about
    `pool` batches, so that little is padding and batches differ from epoch to epoch.

    Shape: lengths (N,) of the longer side of each pair -> tensors of row numbers
    """
    order = torch.randperm(len(lengths), generator=generator)
    per_pool = max(int(pool * budget / max(float(lengths.float().mean()), 1.0)), 1)
    batches = []
    for rows in order.split(per_pool):
        rows = rows[lengths[rows].argsort(stable=True)]
        start = 0
        for end, length in enumerate(lengths[rows].tolist()):
            if end > start and (end - start + 1) * length > budget:
                batches.append(rows[start:end])
                start = end
        batches.append(rows[start:])
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]
