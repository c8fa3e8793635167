"""How a model is trained. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wordwave.errors import WordwaveError
from wordwave.limits import COUNT, SCALE, check_fractions, check_limits

Precision = Literal["auto", "fp32", "bf16"]
Schedule = Literal["one-cycle", "constant", "cosine", "inverse-sqrt"]


@dataclass(frozen=True)
class TrainingConfig:
    """The same for every row of a comparison."""

    epochs: int = 15
    """How often every example is seen at most."""
    max_steps: int = 0
    """Steps after which training ends, however many epochs that is; 0 for no limit of steps."""
    eval_every: int = 0
    """Steps between two looks at the dev part; 0 for one look at the end of each epoch."""
    patience: int = 0
    """Looks at the dev part without a better score after which training stops; 0 for never."""
    batch_size: int = 32
    """Examples per batch and process."""
    grad_accumulation: int = 1
    """Batches whose gradients are added up for one step."""
    learning_rate: float = 2e-3
    """Highest learning rate."""
    schedule: Schedule = "one-cycle"
    """After the warm-up the learning rate falls evenly to 0, stays, falls to 0 along half a cosine,
    or falls as 1/√step."""
    warmup_fraction: float = 0.1
    """Share of the steps over which the learning rate rises."""
    weight_decay: float = 0.0
    """Pull of all weights but those of the embedding towards 0."""
    frequency_lr_scale: float = 0.1
    """Learning rate of frequencies, as a share of the learning rate."""
    frequency_weight_decay: float = 0.0
    """Pull of frequencies towards 0, where place does not matter."""
    beta2: float = 0.999
    """How much of the mean square of gradients is kept in each step, which their sizes are divided
    by; of row-sparse tables it is always 0.999."""
    max_grad_norm: float = 1.0
    """Longest gradient; a longer one is scaled down."""
    row_sparse: bool = True
    """Update only those rows of the embedding's tables whose words a batch holds."""
    word_dropout: float = 0.1
    """Share of training words that are read as unknown, which teaches what an unknown word says."""
    random_positions: int = 0
    """Highest position of a training sentence whose words stand at random places in their order;
    0 for the places 1, 2, …, L."""
    amplitude_penalty: float = 0.0
    """Price of mean |amplitude| (of |word vector| where there are no waves): words without a task
    fall silent. Needs --no-row-sparse."""
    penalty_start: float = 1 / 6
    """Share of the training after which the price rises from 0, evenly up to the end."""
    precision: Precision = "auto"
    """Matrix products in this format; auto: bf16 where the processor has it natively, else fp32."""
    seed: int = 0
    """Same seed, same result."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise WordwaveError(f"{name} must be above 0, got {getattr(self, name)}")
        check_limits(
            self,
            {
                "epochs": (1, 1_000_000),
                "max_steps": COUNT,
                "eval_every": COUNT,
                "patience": COUNT,
                "batch_size": (1, 10**9),
                "grad_accumulation": (1, 1_000_000),
                "learning_rate": (0, 1e38),
                "weight_decay": SCALE,
                "frequency_lr_scale": SCALE,
                "frequency_weight_decay": SCALE,
                "random_positions": (0, 10**9),
                "amplitude_penalty": SCALE,
                "seed": (0, 2**63 - 1),
            },
        )
        check_fractions(self, "warmup_fraction", "beta2", "word_dropout", "penalty_start")
        if self.amplitude_penalty and self.row_sparse:
            raise WordwaveError(
                "amplitude_penalty touches every row of a table and needs row_sparse=False"
            )
