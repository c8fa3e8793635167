"""How a model is trained. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingSettings:
    """The same for every row of a comparison."""

    epochs: int = 30
    """How often every example is seen."""
    batch_size: int = 128
    """Examples per step."""
    learning_rate: float = 3e-3
    """Highest learning rate; it warms up and decays in one cycle."""
    frequency_rate: float = 0.1
    """Learning rate of frequencies, as a share of the learning rate."""
    warm_up: float = 0.1
    """Share of the steps over which the learning rate rises."""
    weight_decay: float = 0.0
    """Pull of all weights but those of the embedding towards 0."""
    clip: float = 1.0
    """Longest gradient."""
    random_positions: int = 0
    """Highest position of a training sentence whose words stand at random places in their order;
    0 for the places 1, 2, …, L."""
    amplitude_penalty: float = 0.0
    """Price of mean |amplitude| (of |word vector| where there are no waves): words without a task
    fall silent."""
    penalty_start: float = 1 / 6
    """Share of the training after which the price rises from 0, evenly up to the end."""
    seed: int = 0
    """Same seed, same result."""
