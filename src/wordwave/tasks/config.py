"""What a run of text classification is made of. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wordwave.limits import COUNT, check_limits
from wordwave.models.config import ModelConfig
from wordwave.training.settings import TrainingSettings

IN_MEMORY = "(in memory)"
"""Where examples come from that were never in a file."""


@dataclass(frozen=True)
class DataSettings:
    """Where examples come from."""

    data: str = ""
    """A data set by name (wordwave data list), or a file of your own: .csv, .tsv or .jsonl,
    also .gz; or hf:NAME for a data set of the Hugging Face hub."""
    dev: str | None = None
    """A file that selects the best epoch; by default a tenth of the training examples."""
    test: str | None = None
    """A file that is scored once, at the end."""
    text: str = "text"
    """The column of texts in files of your own."""
    label: str = "label"
    """The column of labels in files of your own."""
    fold: int = 0
    """Which tenth is the test part of data sets that have none of their own (mr, subj, cr,
    mpqa)."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and data sets of the hub, that it names; none for a data set by name."""
        from wordwave.data.catalogue import CATALOGUE

        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        return () if named in ((IN_MEMORY,), *((name,) for name in CATALOGUE)) else named


@dataclass(frozen=True)
class TextSettings:
    """How texts become word ids, and words get their first vectors."""

    tokeniser: Literal["plain", "kim", "bpe"] = "plain"
    """plain: lower-case words and marks; kim: the cleaning customary for these data sets; bpe:
    pieces of words, learnt from the training texts."""
    bpe_size: int = 8000
    """bpe: number of pieces."""
    min_count: int = 1
    """Words seen less often in training are unknown words."""
    max_vocabulary: int | None = None
    """Most words of the training texts, the frequent ones first."""
    vectors: str | None = None
    """Pretrained vectors: a file (word2vec .bin, GloVe or fastText text, .npy beside .words.txt),
    or the name of one under vectors/ in the data home. They set the width of the embedding."""
    vector_scale: float = 1.0
    """Pretrained vectors are multiplied by this."""
    freeze_vectors: bool = False
    """Keep pretrained vectors as they are."""
    extra_words: int = 100_000
    """Most words that have a pretrained vector but are not in the training texts."""

    def __post_init__(self) -> None:
        check_limits(
            self,
            {
                "bpe_size": (256, 1_000_000),
                "min_count": (1, COUNT[1]),
                "max_vocabulary": (1, COUNT[1]),
                "vector_scale": (-1e6, 1e6),
                "extra_words": COUNT,
            },
        )
        if self.max_vocabulary is not None and self.tokeniser == "bpe":
            raise ValueError("max_vocabulary does not go with 'bpe': bpe_size is how many pieces")
        if self.freeze_vectors and self.vectors is None:
            raise ValueError("freeze_vectors needs vectors to keep as they are, got none")


@dataclass(frozen=True)
class ClassifyConfig:
    """Train a text classifier: embedding → encoder → read-out → classes."""

    data: DataSettings = field(default_factory=DataSettings)
    text: TextSettings = field(default_factory=TextSettings)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingSettings = field(default_factory=TrainingSettings)
