"""How a model is trained. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from wordwave.errors import WordwaveError
from wordwave.limits import COUNT, FRACTION, SCALE, SEED, Limited

Precision = Literal["auto", "fp32", "bf16"]
Schedule = Literal["one-cycle", "constant", "cosine", "inverse-sqrt"]
DEFAULT_EPOCHS = 8
MIN_STEPS = 1000
"""Without a number of epochs, small training sets are passed over until there are so many steps:
with few updates, a bag of words does not learn to tell classes apart from 200 texts."""


@dataclass(frozen=True)
class TrainingConfig(Limited):
    """Optimizer, learning-rate schedule and regularization; tasks have defaults of their own."""

    epochs: Annotated[int | None, (1, 1_000_000)] = None
    """Maximum number of passes over the training set; by default 8, and more of a small one, so
    that there are at least 1,000 steps."""
    max_steps: Annotated[int, COUNT] = 0
    """Maximum number of optimizer steps; 0 for no limit."""
    eval_every: Annotated[int, COUNT] = 0
    """Steps between two evaluations on the validation set; 0 to evaluate after each epoch."""
    patience: Annotated[int, COUNT] = 0
    """Stop after this many evaluations without improvement; 0 for never."""
    batch_size: Annotated[int, (1, 10**9)] = 32
    """Examples per batch and process."""
    grad_accumulation: Annotated[int, (1, 1_000_000)] = 1
    """Batches whose gradients are accumulated for one optimizer step."""
    learning_rate: Annotated[float, (0, 1e38)] = 2e-3
    """Peak learning rate."""
    schedule: Schedule = "one-cycle"
    """Learning rate after the warmup: linear decay to 0, constant, half a cosine to 0, or
    proportional to 1/√step."""
    warmup_fraction: Annotated[float, FRACTION] = 0.1
    """Fraction of the steps over which the learning rate rises."""
    weight_decay: Annotated[float, SCALE] = 0.0
    """Decoupled weight decay of all weights except those of the embedding."""
    vector_lr_scale: Annotated[float, SCALE] = 1.0
    """Learning rate of the word vectors (of waves, the amplitudes), relative to that of the other
    weights; lower ones keep pretrained vectors nearer to what they were."""
    frequency_lr_scale: Annotated[float, SCALE] = 0.1
    """Learning rate of the frequencies, relative to that of the other weights."""
    frequency_weight_decay: Annotated[float, SCALE] = 0.0
    """Weight decay of the frequencies; a frequency of 0 ignores positions."""
    beta2: Annotated[float, FRACTION] = 0.999
    """Adam's β₂; row-sparse tables always have 0.999."""
    max_grad_norm: float = 1.0
    """Gradient-norm clipping threshold."""
    row_sparse: bool = True
    """Update only those rows of the embedding's tables whose words are in the batch."""
    word_dropout: Annotated[float, FRACTION] = 0.0
    """Probability that a training word is replaced by the unknown word, which trains its vector."""
    random_positions: Annotated[int, (0, 10**9)] = 0
    """Highest position in training, whose positions are then random but in order; 0 for the
    positions 1, 2, …, L."""
    amplitude_penalty: Annotated[float, SCALE] = 0.0
    """Weight of mean |amplitude| (without waves, of |word vector|) in the loss, which shrinks words
    that the task does not need. Needs --no-row-sparse."""
    penalty_start: Annotated[float, FRACTION] = 1 / 6
    """Fraction of the training after which the penalty rises linearly from 0."""
    precision: Precision = "auto"
    """Format of matrix products; auto: bf16 where the processor supports it natively, else fp32."""
    seed: Annotated[int, SEED] = 0
    """Random seed; the same seed gives the same result."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise WordwaveError(f"{name} must be above 0, got {getattr(self, name)}")
        super().__post_init__()
        if self.amplitude_penalty and self.row_sparse:
            raise WordwaveError(
                "amplitude_penalty has a gradient in every row and needs row_sparse=False"
            )

    def n_epochs(self, steps_per_epoch: int) -> int:
        """The maximum number of epochs of so many steps each."""
        return self.epochs or max(DEFAULT_EPOCHS, -(-MIN_STEPS // steps_per_epoch))
