"""Bits per character of a text, exact: how it is cut for reading does not change them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave.data.characters import Alphabet, Text
from wordwave.models.evaluating import evaluating
from wordwave.models.transformer_xl import Reading, TransformerXL
from wordwave.models.xl_config import XLConfig


@dataclass(frozen=True)
class Bits:
    """How well a text was predicted."""

    total: float
    """Bits of all predictions."""
    n: int
    """Predictions: one for each character but the first."""

    @property
    def per_character(self) -> float:
        return self.total / self.n


def bits_of(
    model: TransformerXL,
    alphabet: Alphabet,
    text: Text,
    *,
    memory_length: int | None = None,
    batch_size: int = 16,
    segment_length: int = 128,
) -> Bits:
    """Score a whole text, each character after `memory_length` others and itself in sight.

    The text is read at `batch_size` places at once. In a layer a character sees M others, through n
    layers n·M; so each place but the first starts n·M characters early, which do not count, where
    positions count on from the text before; every character is predicted from just what it would
    be predicted from in one go.

    Args:
        memory_length: the model's `evaluation_memory` if None.
    """
    if len(text) < 2:
        raise ValueError(f"{text.name} must hold at least 2 characters to score, got {len(text)}")
    memory_length = model.config.evaluation_memory if memory_length is None else memory_length
    n = len(text) - 1
    early = min(len(model.layers) * memory_length, n)
    # Reading twice what counts once is still quicker than reading at fewer places.
    n_places = max(min(batch_size, n // max(early, 1)), 1)
    # The first place counts what the others read early, so that all have as much to read.
    stride = -(-(n - early) // n_places) if n_places > 1 else n - early
    to_read = stride + early
    starts = np.arange(n_places) * stride
    total, past = torch.zeros((), dtype=torch.float64), None
    with evaluating(model) as device:
        n_read: Tensor | int = 0
        if n_places > 1:
            at = torch.from_numpy(starts)
            n_read = counted_before(text, at, alphabet, model.config).to(device)
        for begin in range(0, to_read, segment_length):
            length = min(segment_length, to_read - begin)
            ids, counted = _segment(text, alphabet, starts + begin, length)
            if begin < early:
                counted[1:, : early - begin] = False
            logits, past = model.read(
                ids[:, :-1].to(device), past, memory_length=memory_length, n_read=n_read
            )
            wanted = ids[:, 1:].to(device)
            losses = F.cross_entropy(logits.float().mT, wanted, reduction="none")
            total += losses.double().cpu()[counted].sum()
    return Bits(float(total) / math.log(2), n)


def _segment(
    text: Text, alphabet: Alphabet, starts: np.ndarray, length: int
) -> tuple[Tensor, Tensor]:
    """Characters at several places and the one after them; beyond the end nothing counts.

    Shape: starts (B,) -> ids (B, length + 1), counted (B, length)
    """
    rows = np.zeros((len(starts), length + 1), np.int64)
    counted = np.zeros((len(starts), length), bool)
    for row, count, start in zip(rows, counted, starts.tolist(), strict=True):
        ids = alphabet.ids(text.symbols[start : start + length + 1])
        row[: len(ids)] = ids
        count[: max(len(ids) - 1, 0)] = True
    return torch.from_numpy(rows), torch.from_numpy(counted)


def counted_before(text: Text, starts: Tensor, alphabet: Alphabet, config: XLConfig) -> Tensor:
    """What a model has counted that read a text up to some places, see `TransformerXL.counted`.

    Shape: (B,) -> (B, 1)
    """
    if config.counts != "word":
        return starts.unsqueeze(1)
    limit = config.wave_period
    return torch.tensor([[alphabet.letters_before(text, i, limit)] for i in starts.tolist()])


def read_on(
    model: TransformerXL,
    ids: Tensor,
    past: Reading | None = None,
    *,
    memory_length: int | None = None,
    segment_length: int = 128,
) -> tuple[Tensor, Reading]:
    """Read a text of any length in segments; the logits after its last character.

    Shape: ids (B, L) -> (B, V)
    """
    for part in ids.split(segment_length, dim=1):
        logits, past = model.read(part, past, memory_length=memory_length)
    assert past is not None
    return logits[:, -1], past
