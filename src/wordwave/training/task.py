"""What the loop and those who use it tell each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from wordwave.config_io import from_dict
from wordwave.errors import WordwaveError

Positions = Callable[[Tensor], Tensor | None]
"""From a mask (B, L) of where words are to their positions (B, L), `None` for 1 … L."""


class Task(Protocol):
    """What a model is trained for: batches, their loss, and how good the model is."""

    def batches(self, size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """The row numbers of each batch of one epoch."""

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        """The summed loss of some rows, how many answers it is of, and how many words they have."""

    def score(self, model: nn.Module) -> dict[str, float]:
        """Figures on held-out examples, more is better; the first one selects, the next ones where
        there is a tie. May be empty."""


@runtime_checkable
class StatefulTask(Protocol):
    """A task that carries something from batch to batch, such as the memory of a language model."""

    def state(self) -> dict[str, Tensor]:
        """What it carries now."""

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        """Refuse tensors whose names, dtypes and shapes `state` cannot have given."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Resume with what `state` gave."""


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0
    """Epochs that are done."""
    batch: int = 0
    """Batches of the current epoch that are done."""
    step: int = 0
    n_words: int = 0
    """Words read so far."""
    loss: float = 0.0
    """Sum of the losses of the steps since the last look at the dev part."""
    since_eval: int = 0
    """Those steps."""
    seconds: float = 0.0
    """What they took, as of the last saved state."""
    since_best: int = 0
    """Looks at the dev part that brought no better score; a tie won by another figure is none."""
    best_scores: list[float] = field(default_factory=list)
    """The figures of the best look, the one that selects first; none before the first look."""
    best_epoch: int = 0
    best_step: int = 0
    examples: str = ""
    """A fingerprint of the examples."""
    n_processes: int = 1

    @property
    def best_score(self) -> float:
        """The figure that selects, at its best."""
        return self.best_scores[0] if self.best_scores else -math.inf


def read_progress(plain: Any) -> Progress:
    """A progress from the header of a saved state, which must be one that a training can have."""
    progress = from_dict(Progress, plain, where="progress")
    for f in fields(Progress):
        if f.name not in plain:
            raise WordwaveError(f"progress has no {f.name!r}")
        value = getattr(progress, f.name)
        if isinstance(value, (int, float)) and f.name != "loss" and not 0 <= value < 2**53:
            raise WordwaveError(f"progress: {f.name} must be at least 0 and finite, got {value}")
    if not math.isfinite(progress.loss):
        raise WordwaveError(f"progress: loss must be finite, got {progress.loss}")
    for name, most in _AT_MOST.items():
        if getattr(progress, name) > getattr(progress, most):
            raise WordwaveError(
                f"progress: {name} must be at most {most}, {getattr(progress, most)}, "
                f"got {getattr(progress, name)}"
            )
    return progress


_AT_MOST = {
    "epoch": "step",
    "since_eval": "step",
    "since_best": "step",
    "best_step": "step",
    "best_epoch": "epoch",
}


@dataclass(frozen=True)
class Note:
    """Told when something else begins that takes its time."""

    text: str


@dataclass(frozen=True)
class Step:
    """Told after each step."""

    step: int
    n_steps: int
    loss: float
    n_words: int


@dataclass(frozen=True)
class Epoch:
    """Told after each epoch, or each `eval_every` steps."""

    epoch: int
    step: int
    loss: float
    scores: dict[str, float]
    is_best: bool
