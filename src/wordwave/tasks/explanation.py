"""What is known of why a text got its class. Needs no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class WordPart:
    """What one word brings to the probability p of the predicted class."""

    word: str
    known: bool
    amplitude: float
    """Mean |amplitude|, or the norm of its vector where the embedding has no amplitudes."""
    frequency: float | None
    """δ, its mean |frequency|, where the embedding has frequencies."""
    importance: float
    """p − p of the text without the word."""
    swap: float | None
    """How p changes when the word and the next one change places; the last has no next one."""
    moved_mean: float
    """Order sensitivity: mean |change of p| over the other places it was moved to."""
    moved_max: float
    """The largest of these changes."""
    moved_to: int | None
    """The place of the largest change, from 1; none if no move changes p."""


@dataclass(frozen=True)
class Move:
    """One word at another place, and what that does."""

    word: str
    place: int
    to: int
    text: str
    label: str
    probability: float
    """Of the class predicted for the text as it was."""


@dataclass(frozen=True)
class Explanation:
    """Why a text got its class."""

    text: str
    label: str
    probabilities: dict[str, float]
    words: list[WordPart]
    amplitude_is: str
    """What the words' `amplitude` is: "mean |amplitude|", or "vector norm" without waves."""
    n_cut: int
    """Words beyond the model's greatest length, which it does not see."""
    n_moves: int
    all_moves: bool
    """Whether every word was moved to every place, or to some only."""
    moves_to_other_class: int
    worst_move: Move | None
    """The move that lowers p most; none if none lowers it."""
    n_shuffles: int
    shuffle_change: float
    """Mean |change of p| when all words are shuffled."""
    shuffles_to_other_class: int
    after_move: list[list[float | None]] = field(repr=False)
    """p after moving the word of a row to the place of a column; `None` if not tried."""

    @property
    def probability(self) -> float:
        """p, that of the predicted class."""
        return self.probabilities[self.label]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)
