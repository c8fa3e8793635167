"""What the loop and those who use it tell each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Positions = Callable[[Tensor], Tensor | None]
"""From a mask (B, L) of where words are to their positions (B, L), `None` for 1 … L."""


class Task(Protocol):
    """What a model is trained for: batches, their loss, and how good the model is."""

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        """The row numbers of each batch of one epoch."""

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        """The summed loss of some rows, how many answers it is of, and how many words they have."""

    def score(self, model: nn.Module) -> dict[str, float]:
        """Figures on held-out examples, more is better; the first one selects. May be empty."""


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0
    """Epochs begun and judged."""
    batch: int = 0
    """Batches of the current epoch that are done."""
    step: int = 0
    best_score: float = -math.inf
    best_epoch: int = 0
    epoch_loss: float = 0.0
    """Sum of the current epoch's losses so far."""
    n_words: int = 0
    """Words read so far."""


@dataclass(frozen=True)
class Step:
    """Told after each step."""

    step: int
    n_steps: int
    loss: float
    n_words: int


@dataclass(frozen=True)
class Epoch:
    """Told after each epoch."""

    epoch: int
    step: int
    loss: float
    scores: dict[str, float]
    is_best: bool
