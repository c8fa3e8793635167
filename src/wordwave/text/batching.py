"""Sentences as ids in one flat tensor, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID


class Sentences:
    """Concatenated sentences, without padding.

    An empty sentence becomes one unknown word, so that every sentence has at least one.

    Shape: ids (sum of lengths,), lengths (N,); integers
    """

    def __init__(self, ids: Tensor, lengths: Tensor) -> None:
        lengths = lengths.long()
        if ids.dim() != 1 or lengths.dim() != 1:
            shapes = f"{tuple(ids.shape)} and {tuple(lengths.shape)}"
            raise WordwaveError(f"ids and lengths must have one dimension, got {shapes}")
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise WordwaveError(f"ids must be integers, got {ids.dtype}")
        if (lengths < 0).any() or int(lengths.sum()) != len(ids):
            rule = f"at least 0 and add up to the {len(ids)} ids"
            raise WordwaveError(f"lengths must be {rule}, got a sum of {int(lengths.sum())}")
        if len(ids) and (least := int(ids.min())) <= PADDING_ID:
            raise WordwaveError(f"ids must be above {PADDING_ID}, the padding, got {least}")
        if not lengths.all():
            worded, lengths = lengths > 0, lengths.clamp(min=1)
            filled = ids.new_full((int(lengths.sum()),), UNKNOWN_ID)
            filled[worded.repeat_interleave(lengths)] = ids
            ids = filled
        self.ids = ids
        self.lengths = lengths
        self.starts = lengths.cumsum(0) - lengths

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> Sentences:
        """Sentences from lists of ids."""
        rows = list(rows)
        ids = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
        return cls(ids, torch.tensor([len(row) for row in rows], dtype=torch.long))

    @classmethod
    def from_padded(cls, ids: Tensor) -> Sentences:
        """Sentences from a padded matrix. Shape: ids (N, L), padded with 0 at the end"""
        if ids.dim() != 2:
            raise WordwaveError(f"ids must be (N, L), got {tuple(ids.shape)}")
        is_word = ids != PADDING_ID
        lengths = is_word.sum(dim=1)
        broken = (is_word[:, 1:] & ~is_word[:, :-1]).any(dim=1)
        if broken.any():
            row = ids[broken][0].tolist()
            raise WordwaveError(f"ids must have padding at the end of a row only, got {row}")
        return cls(ids[is_word], lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, rows: Tensor | Sequence[int]) -> Tensor:
        """Some sentences as one batch, padded with 0 to the longest of them.

        Shape: rows (B,) -> (B, L), int64
        """
        rows = torch.as_tensor(rows)
        if rows.numel() == 0:
            return torch.zeros(0, 0, dtype=torch.long)
        lengths = self.lengths[rows].unsqueeze(1)
        columns = torch.arange(int(lengths.max()))
        places = self.starts[rows].unsqueeze(1) + columns
        # Past the end of a sentence are the words of the next; the mask removes them.
        return self.ids[places.clamp_(max=len(self.ids) - 1)].long() * (columns < lengths)


POOL = 50
"""The number of batches whose rows are sorted by length together."""


def bucketed(
    lengths: Tensor, batch_size: int, *, generator: torch.Generator, group: int = 1
) -> list[Tensor]:
    """The row indices of each batch of an epoch, bucketed by length.

    Rows are shuffled, sorted by length within pools of 50 batches, and cut into batches, which are
    shuffled. `group` consecutive rows (the two sentences of a minimal pair) stay together.

    Shape: lengths (N,) -> tensors of at most batch_size row indices
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
    """As `bucketed`, in batches that have at most `budget` tokens.

    Shape: lengths (N,) -> tensors of row indices
    """
    order = torch.randperm(len(lengths), generator=generator)
    per_pool = max(int(POOL * budget / max(float(lengths.float().mean()), 1.0)), 1)
    pools = order.split(per_pool)
    batches = [pool[rows] for pool in pools for rows in by_length(lengths[pool], budget)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]


def by_length(lengths: Tensor, budget: int) -> list[Tensor]:
    """Row indices, sorted by length, in the largest batches that have at most `budget` tokens,
    padding included; a longer row is a batch of its own.

    Shape: lengths (N,) -> tensors of row indices
    """
    rows = lengths.argsort(stable=True)
    cuts, start = [], 0
    for end, length in enumerate(lengths[rows].tolist()):
        if end > start and (end - start + 1) * length > budget:
            cuts.append(end)
            start = end
    return list(rows.tensor_split(cuts))
