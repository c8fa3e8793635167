"""What a run of translation is made of. Needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wordwave.data.parallel_catalogue import PARALLEL
from wordwave.data.parallel_text import (
    BUILT_IN,
    ParallelParts,
    cut_dev,
    first_release,
    load_named,
    read_pairs,
)
from wordwave.limits import COUNT, check_fractions, check_limits
from wordwave.models.translation_config import TranslationModelConfig
from wordwave.names import unknown
from wordwave.training.settings import Schedule, TrainingSettings


@dataclass(frozen=True)
class ParallelSettings:
    """Where sentences and their translations come from."""

    data: str = BUILT_IN
    """built-in (user-interface sentences, no download) or multi30k; not looked at with --source."""
    source: str | None = None
    """A text file of your own, a sentence a line, also .gz."""
    target: str | None = None
    """Its translation, line by line."""
    dev_source: str | None = None
    """Sentences that select the best weights; by default a tenth of the pairs, at most 1,000."""
    dev_target: str | None = None
    """Their translations."""
    test_source: str | None = None
    """Sentences that are translated and scored once, at the end."""
    test_target: str | None = None
    """Their translations."""
    source_language: str = "en"
    """The language to translate from, by its code, such as en or pt-br; data sets by name take en
    and de. One that Moses has no rules for takes English abbreviations."""
    target_language: str = "de"
    """The language to translate to."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = (getattr(self, name) for pair in (("source", "target"), *_HELD) for name in pair)
        return tuple(name for name in named if name)

    def __post_init__(self) -> None:
        for one, other in (("source", "target"), *_HELD):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"{one} and {other} go together, got only one of them")
        if self.source is None and (self.dev_source or self.test_source):
            raise ValueError(f"files to choose and test by go with source, not with {self.data!r}")
        for name in ("source_language", "target_language"):
            if not re.fullmatch("[a-z]{2,3}([-_][A-Za-z]+)?", getattr(self, name)):
                raise ValueError(
                    f"{name} must be a code of two or three small letters such as de, "
                    f"got {getattr(self, name)!r}"
                )


_HELD = (("dev_source", "dev_target"), ("test_source", "test_target"))


@dataclass(frozen=True)
class PieceSettings:
    """How sentences become pieces of words, the same ones for both languages."""

    words: Literal["moses", "spaced"] = "moses"
    """moses: normalise marks and set them apart; spaced: words are between spaces already."""
    lower_case: bool = False
    """Learn with small letters only, as most figures for Multi30k do; translations get capitals
    by how words were spelled in the training sentences."""
    bpe_size: int = 10_000
    """Number of pieces, learnt from the training sentences of both languages."""

    def __post_init__(self) -> None:
        check_limits(self, {"bpe_size": (256, 1_000_000)})


@dataclass(frozen=True)
class TranslationTraining(TrainingSettings):
    """How a translation model is trained."""

    epochs: int = 1000
    """How often every pair is seen at most."""
    max_steps: int = 2000
    """Steps after which training ends; 0 for no limit of steps."""
    judge_every: int = 200
    """Steps between two looks at the dev part; 0 for one look at the end of each epoch."""
    batch_size: int = 1024
    """Words per batch and process: rows times the longest sentence of either side."""
    learning_rate: float = 3e-3
    """Highest learning rate."""
    schedule: Schedule = "inverse-sqrt"
    """After the warm-up the learning rate falls evenly to 0, stays, falls to 0 along half a cosine,
    or falls as 1/√step."""
    warm_up: float = 0.2
    """Share of the steps over which the learning rate rises."""
    row_sparse: bool = False
    """Not for translation: the embedding is the output too, which touches every row."""
    word_dropout: float = 0.0
    """Share of training words, read or written before, that are read as unknown."""
    label_smoothing: float = 0.1
    """Share of each answer that is spread over all words."""
    average: int = 5
    """The last so many looks' weights are averaged in the end, and taken if dev likes them better;
    0 for none."""
    judge_bleu: int = 200
    """Dev sentences translated (greedily) at each look for their BLEU; 0 for none."""
    select: Literal["likelihood", "bleu"] = "likelihood"
    """What selects the best weights: the mean log-probability of a piece, or BLEU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.row_sparse:
            raise ValueError("row_sparse must be off for translation: every row has a gradient")
        check_limits(self, {"average": (0, 1_000), "judge_bleu": COUNT})
        check_fractions(self, "label_smoothing")
        if self.select == "bleu" and not self.judge_bleu:
            raise ValueError("select 'bleu' needs judge_bleu above 0, got 0")


@dataclass(frozen=True)
class TranslateConfig:
    """Train a translation model: words → pieces → encoder → decoder → words."""

    data: ParallelSettings = field(default_factory=ParallelSettings)
    text: PieceSettings = field(default_factory=PieceSettings)
    model: TranslationModelConfig = field(default_factory=TranslationModelConfig)
    training: TranslationTraining = field(default_factory=TranslationTraining)


def load_pairs(data: ParallelSettings) -> ParallelParts:
    """Training, dev and test pairs; the last are `None` where none are named."""
    if data.source is None:
        known = (BUILT_IN, *PARALLEL)
        if data.data not in known:
            raise ValueError(
                f"{unknown('data', data.data, known)}; files of your own are named by --source "
                "and --target"
            )
        return load_named(data.data, data.source_language, data.target_language)
    assert data.target is not None
    train = read_pairs(data.source, data.target)
    dev, test = (
        read_pairs(getattr(data, one), getattr(data, other)) if getattr(data, one) else None
        for one, other in _HELD
    )
    if dev is not None:
        return ParallelParts(train, dev, test)
    return ParallelParts(*cut_dev(train), test)


def first_release_targets(data: ParallelSettings) -> list[str] | None:
    """What the test part's targets were in the first release of a set by name, if it is here."""
    if data.source is not None or data.target_language != "de":
        return None
    return first_release(data.data)


def name_of(data: ParallelSettings) -> str:
    """What a run on this data is called."""
    return data.data if data.source is None else Path(data.source).name.split(".")[0]
