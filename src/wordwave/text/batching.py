"""Sentences as ids in one flat tensor, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wordwave.compiled import compiled
from wordwave.errors import WordwaveError
from wordwave.text.ngrams import Words, ranges
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID


class Batch(NamedTuple):
    """Some sentences, one after the other, without padding.

    A word may have several ids, all at its position: its own first, then those of its parts.

    Shape: ids (T,), starts (B + 1,), positions (T,), weights (T,)
    """

    ids: Tensor
    starts: Tensor
    """Where each sentence begins; the last element is T."""
    positions: Tensor
    """The position of each id's word in its sentence, from 1."""
    weights: Tensor
    """What each id counts in the sum of its sentence."""
    one_each: bool = True
    """Whether every word has one id."""
    in_order: bool = True
    """Whether the positions of words are 1, 2, …"""

    @property
    def size(self) -> int:
        """Number B of sentences."""
        return len(self.starts) - 1

    def to(self, device: torch.device) -> Batch:
        ids, starts, positions, weights = (part.to(device) for part in self[:4])
        return Batch(ids, starts, positions, weights, *self[4:])

    @property
    def lengths(self) -> Tensor:
        """Ids of each sentence. Shape: (B,)"""
        return self.starts.diff()

    @property
    def owners(self) -> Tensor:
        """The number of each id's sentence. Shape: (T,)"""
        numbers = torch.arange(self.size, device=self.ids.device)
        return numbers.repeat_interleave(self.lengths, output_size=len(self.ids))

    @property
    def begins_word(self) -> Tensor:
        """Which ids are the first of a word. Shape: (T,)"""
        if self.one_each:
            return torch.ones_like(self.ids, dtype=torch.bool)
        changed = self.positions != self.positions.roll(1)
        return changed.index_fill(0, self.starts[:-1], True)

    @property
    def n_words(self) -> int:
        return len(self.ids) if self.one_each else int(self.begins_word.sum())

    def padded(self) -> tuple[Tensor, Tensor | None]:
        """Ids and positions, padded with 0 to the longest sentence; `None` for 1, 2, …

        Shape: two (B, L)
        """
        lengths = self.lengths.unsqueeze(1)
        columns = torch.arange(int(lengths.max()) if self.size else 0, device=self.ids.device)
        is_word = columns < lengths
        ids = self.ids.new_zeros(is_word.shape).masked_scatter_(is_word, self.ids)
        if self.one_each and self.in_order:
            return ids, None
        return ids, self.positions.new_zeros(is_word.shape).masked_scatter_(is_word, self.positions)

    def word_mask(self) -> Tensor:
        """Where words are, padded to the sentence with most. Shape: (B, words)"""
        n_words = self.positions[self.starts[1:] - 1].unsqueeze(1)
        return torch.arange(int(n_words.max()), device=self.ids.device) < n_words

    def moved(self, positions: Tensor) -> Batch:
        """The words at other positions. Shape: positions (B, words)"""
        moved = positions[self.owners, self.positions - 1]
        return self._replace(positions=moved, in_order=False)

    def without(self, dropped: Tensor) -> Batch:
        """Some words replaced by the unknown word. Shape: dropped (T,); of a word with several
        ids, that of the first counts"""
        if self.one_each:
            return self._replace(ids=self.ids.masked_fill(dropped, UNKNOWN_ID))
        begins = self.begins_word
        dropped = dropped[begins][begins.cumsum(0) - 1]
        ids = self.ids.masked_fill(dropped, UNKNOWN_ID)
        return self._replace(ids=ids, weights=self.weights.masked_fill(dropped & ~begins, 0.0))

    def shares(self, power: float) -> Tensor:
        """Weights divided by (their sum in the sentence)^power. Shape: (T,)"""
        if power == 0:
            return self.weights
        totals = self.weights.new_zeros(self.size).index_add_(0, self.owners, self.weights)
        return self.weights * totals.masked_fill(totals == 0, 1.0).pow(-power)[self.owners]


class Sentences:
    """Concatenated sentences, without padding.

    An empty sentence becomes one unknown word, so that every sentence has at least one.

    Args:
        positions: of each id's word, from 1, if words have several ids; by default 1, 2, …
        weights: what each id counts in the sum of its sentence; by default 1.
        unknown: the words that have no id of their own, if they are needed.

    Shape: ids (sum of lengths,), lengths (N,); integers; positions and weights as ids
    """

    def __init__(
        self,
        ids: Tensor,
        lengths: Tensor,
        *,
        positions: Tensor | None = None,
        weights: Tensor | None = None,
        unknown: Words | None = None,
    ) -> None:
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
        for name, part in (("positions", positions), ("weights", weights)):
            if part is not None and part.shape != ids.shape:
                shapes = f"{tuple(ids.shape)}, got {tuple(part.shape)}"
                raise WordwaveError(f"{name} must have the shape of ids, {shapes}")
        if not lengths.all():
            worded, lengths = lengths > 0, lengths.clamp(min=1)
            there = worded.repeat_interleave(lengths)

            def filled(part: Tensor, value: int) -> Tensor:
                return part.new_full((len(there),), value).masked_scatter_(there, part)

            ids = filled(ids, UNKNOWN_ID)
            positions = None if positions is None else filled(positions, 1)
            weights = None if weights is None else filled(weights, 1)
        self.ids = ids
        self.positions = positions
        self.weights = weights
        self.unknown = unknown
        self.lengths = lengths
        self.starts = lengths.cumsum(0) - lengths

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """For the kernels: without positions or weights, they are empty."""
        positions = torch.empty(0).int() if self.positions is None else self.positions
        weights = torch.empty(0) if self.weights is None else self.weights
        parts = (self.starts, self.lengths, self.ids, positions, weights)
        return tuple(part.numpy() for part in parts)

    @cached_property
    def _unknown_by_sentence(self) -> tuple[Any, Any]:
        """The order in which unknown words are those of sentence 0, 1, …, and where each begins.

        Shape: (n,), (N + 1,)
        """
        assert self.unknown is not None
        order = np.argsort(self.unknown.owners, kind="stable")
        return order, np.searchsorted(self.unknown.owners[order], np.arange(len(self) + 1))

    def unknown_of(self, rows: Tensor | Sequence[int]) -> Words | None:
        """The unknown words of some sentences, which are numbered from 0. Shape: rows (B,)"""
        if self.unknown is None:
            return None
        order, begins = self._unknown_by_sentence
        numbers = torch.as_tensor(rows, dtype=torch.long).numpy()
        sizes = begins[numbers + 1] - begins[numbers]
        words = self.unknown.take(order[ranges(begins[numbers], sizes)])
        return words._replace(owners=np.repeat(np.arange(len(numbers)), sizes))

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

    def subset(self, rows: Tensor | Sequence[int]) -> Sentences:
        """Some sentences. Shape: rows (n,)"""
        batch = self.batch(rows)
        return Sentences(batch.ids, batch.lengths, unknown=self.unknown_of(rows))

    def batch(self, rows: Tensor | Sequence[int]) -> Batch:
        """Some sentences without padding. Shape: rows (B,)"""
        rows = torch.as_tensor(rows, dtype=torch.long)
        one_each = self.positions is None
        if (kernels := compiled()) is not None:
            numbers = rows.numpy()
            n_ids = int(self._arrays[1][numbers].sum())
            made = [np.empty(n, np.int64) for n in (n_ids, len(rows) + 1, n_ids)]
            made.append(np.empty(n_ids, np.float32))
            kernels.take_tokens(numbers, *self._arrays, *made)
            ids, starts, positions, weights = map(torch.from_numpy, made)
            return Batch(ids, starts, positions, weights, one_each)
        starts = torch.zeros(len(rows) + 1, dtype=torch.long)
        lengths = self.lengths[rows]
        starts[1:] = lengths.cumsum(0)
        n_ids = int(starts[-1])
        places = torch.arange(n_ids) - starts[:-1].repeat_interleave(lengths)
        at = places + self.starts[rows].repeat_interleave(lengths)
        positions = places + 1 if self.positions is None else self.positions[at].long()
        weights = torch.ones(n_ids) if self.weights is None else self.weights[at].float()
        return Batch(self.ids[at].long(), starts, positions, weights, one_each)


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
    if group == 1:
        return [batches[i] for i in shuffled]
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


def consecutive(lengths: Tensor, budget: int, most: int) -> list[Tensor]:
    """Row indices in batches of consecutive rows, `most` at most, that have about `budget` tokens
    or one row.

    Shape: lengths (N,) -> tensors of row indices
    """
    number = (lengths.cumsum(0) - lengths) // max(budget, 1)
    cuts = (number.diff() > 0).nonzero().flatten() + 1
    parts = torch.arange(len(lengths)).tensor_split(cuts)
    return [rows for part in parts for rows in part.split(most)]
