"""What a run of language modelling is made of. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wordwave.limits import COUNT, check_limits
from wordwave.models.xl_config import XLConfig
from wordwave.training.settings import Precision, Schedule, TrainingSettings


@dataclass(frozen=True)
class LmDataSettings:
    """The text that is learnt from."""

    data: str = "python-help"
    """python-help (the help that comes with Python, no download), text8, enwik8, or a text file of
    your own in UTF-8, also .gz and .xz: nine tenths to learn from, a twentieth each to select and
    to test."""
    unit: Literal["char", "byte"] | None = None
    """Predict characters or bytes; by default characters, of enwik8 bytes."""
    judge_on: int = 20_000
    """Characters of the valid part that each look in training scores, from its start; 0 for all."""
    score_on: int = 0
    """Characters of the valid and the test part that the finished model is scored on; 0 for all."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file that it names; none for a text by name."""
        from wordwave.data.corpora import BUILT_IN
        from wordwave.data.corpus_catalogue import CORPORA

        return () if self.data in (BUILT_IN, *CORPORA) else (self.data,)

    def __post_init__(self) -> None:
        check_limits(self, {"judge_on": COUNT, "score_on": COUNT})
        for name in ("judge_on", "score_on"):
            if getattr(self, name) == 1:
                raise ValueError(f"{name} must be 0 or at least 2, got {getattr(self, name)}")


@dataclass(frozen=True)
class LmTrainingSettings(TrainingSettings):
    """The settings of every training, with defaults for language models."""

    epochs: int = 1000
    """How often the text is read at most; --max-steps usually ends sooner."""
    max_steps: int = 1500
    """Steps after which training ends, however many epochs that is; 0 for no limit of steps."""
    judge_every: int = 250
    """Steps between two looks at the valid part; 0 for one look at the end of each epoch."""
    batch_size: int = 16
    """Places of the text that are read in parallel, per process."""
    learning_rate: float = 3e-3
    """Highest learning rate."""
    schedule: Schedule = "cosine"
    """After the warm-up the learning rate falls evenly to 0, stays, falls to 0 along half a cosine,
    or falls as 1/√step."""
    warm_up: float = 0.05
    """Share of the steps over which the learning rate rises."""
    clip: float = 0.5
    """Longest gradient; a longer one is scaled down."""
    row_sparse: bool = False
    """Of no use here: predictions touch every row."""
    word_dropout: float = 0.0
    """Of no use here: no character is read as another."""
    random_positions: int = 0
    """Of no use here: distances within a text are what they are."""
    precision: Precision = "auto"
    """Matrix products in this format; auto: bf16 where the processor has it natively, else fp32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("row_sparse", "word_dropout", "random_positions"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} has no meaning for language models, got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class LmConfig:
    """Train a language model of characters: Transformer-XL, real or with waves."""

    data: LmDataSettings = field(default_factory=LmDataSettings)
    model: XLConfig = field(default_factory=XLConfig)
    training: LmTrainingSettings = field(default_factory=LmTrainingSettings)
