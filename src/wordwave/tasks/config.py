"""Which task a run folder is of. Needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wordwave.config_io import conform, read_yaml
from wordwave.data.parallel import (
    BUILT_IN,
    PARALLEL,
    ParallelSplits,
    cut_dev,
    first_release,
    load_named,
    read_pairs,
)
from wordwave.errors import WordwaveError, unknown
from wordwave.limits import COUNT, check_fractions, check_limits
from wordwave.models.config import ModelConfig, TransformerXLConfig, TranslationModelConfig
from wordwave.training.config import Precision, Schedule, TrainingConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def task_of(folder: Path) -> str:
    """The task that a run was trained for: classify, lm, …"""
    task: str = run_config(folder)["task"]
    return task


def run_config(folder: Path) -> dict[str, Any]:
    """What config.yaml of a run folder says: a task, and its settings."""
    path = folder / "config.yaml"
    if not folder.is_dir() or not path.exists():
        raise WordwaveError(f"'{folder}' is not a run folder: it has no config.yaml")
    plain = read_yaml(path)
    conform(plain.get("task"), str, where=f"'{path}': task")
    return plain


IN_MEMORY = "(in memory)"
"""Where examples come from that were never in a file."""


@dataclass(frozen=True)
class DataConfig:
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
        from wordwave.data.registry import CATALOGUE

        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        return () if named in ((IN_MEMORY,), *((name,) for name in CATALOGUE)) else named


@dataclass(frozen=True)
class TextConfig:
    """How texts become word ids, and words get their first vectors."""

    tokenizer: Literal["plain", "kim", "bpe"] = "plain"
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
        if self.max_vocabulary is not None and self.tokenizer == "bpe":
            raise WordwaveError(
                "max_vocabulary does not go with 'bpe': bpe_size is how many pieces"
            )
        if self.freeze_vectors and self.vectors is None:
            raise WordwaveError("freeze_vectors needs vectors to keep as they are, got none")


@dataclass(frozen=True)
class ClassificationConfig:
    """Train a text classifier: embedding → encoder → read-out → classes."""

    data: DataConfig = field(default_factory=DataConfig)
    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


@dataclass(frozen=True)
class ParallelDataConfig:
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
                raise WordwaveError(f"{one} and {other} go together, got only one of them")
        if self.source is None and (self.dev_source or self.test_source):
            raise WordwaveError(
                f"files to choose and test by go with source, not with {self.data!r}"
            )
        for name in ("source_language", "target_language"):
            if not re.fullmatch("[a-z]{2,3}([-_][A-Za-z]+)?", getattr(self, name)):
                raise WordwaveError(
                    f"{name} must be a code of two or three small letters such as de, "
                    f"got {getattr(self, name)!r}"
                )


_HELD = (("dev_source", "dev_target"), ("test_source", "test_target"))


@dataclass(frozen=True)
class SubwordConfig:
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
class TranslationTrainingConfig(TrainingConfig):
    """How a translation model is trained."""

    epochs: int = 1000
    """How often every pair is seen at most."""
    max_steps: int = 2000
    """Steps after which training ends; 0 for no limit of steps."""
    eval_every: int = 200
    """Steps between two looks at the dev part; 0 for one look at the end of each epoch."""
    batch_size: int = 1024
    """Words per batch and process: rows times the longest sentence of either side."""
    learning_rate: float = 3e-3
    """Highest learning rate."""
    schedule: Schedule = "inverse-sqrt"
    """After the warm-up the learning rate falls evenly to 0, stays, falls to 0 along half a cosine,
    or falls as 1/√step."""
    warmup_fraction: float = 0.2
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
    eval_bleu: int = 200
    """Dev sentences translated (greedily) at each look for their BLEU; 0 for none."""
    select: Literal["likelihood", "bleu"] = "likelihood"
    """What selects the best weights: the mean log-probability of a piece, or BLEU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.row_sparse:
            raise WordwaveError("row_sparse must be off for translation: every row has a gradient")
        check_limits(self, {"average": (0, 1_000), "eval_bleu": COUNT})
        check_fractions(self, "label_smoothing")
        if self.select == "bleu" and not self.eval_bleu:
            raise WordwaveError("select 'bleu' needs eval_bleu above 0, got 0")


@dataclass(frozen=True)
class TranslationConfig:
    """Train a translation model: words → pieces → encoder → decoder → words."""

    data: ParallelDataConfig = field(default_factory=ParallelDataConfig)
    text: SubwordConfig = field(default_factory=SubwordConfig)
    model: TranslationModelConfig = field(default_factory=TranslationModelConfig)
    training: TranslationTrainingConfig = field(default_factory=TranslationTrainingConfig)


def load_pairs(data: ParallelDataConfig) -> ParallelSplits:
    """Training, dev and test pairs; the last are `None` where none are named."""
    if data.source is None:
        known = (BUILT_IN, *PARALLEL)
        if data.data not in known:
            raise WordwaveError(
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
        return ParallelSplits(train, dev, test)
    return ParallelSplits(*cut_dev(train), test)


def first_release_targets(data: ParallelDataConfig) -> list[str] | None:
    """What the test part's targets were in the first release of a set by name, if it is here."""
    if data.source is not None or data.target_language != "de":
        return None
    return first_release(data.data)


def name_of(data: ParallelDataConfig) -> str:
    """What a run on this data is called."""
    return data.data if data.source is None else Path(data.source).name.split(".")[0]


@dataclass(frozen=True)
class LanguageModelDataConfig:
    """The text that is learnt from."""

    data: str = "python-help"
    """python-help (the help that comes with Python, no download), text8, enwik8, or a text file of
    your own in UTF-8, also .gz and .xz: nine tenths to learn from, a twentieth each to select and
    to test."""
    unit: Literal["char", "byte"] | None = None
    """Predict characters or bytes; by default characters, of enwik8 bytes."""
    eval_chars: int = 20_000
    """Characters of the valid part that each look in training scores, from its start; 0 for all."""
    test_chars: int = 0
    """Characters of the valid and the test part that the finished model is scored on; 0 for all."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file that it names; none for a text by name."""
        from wordwave.data.corpora import BUILT_IN, CORPORA

        return () if self.data in (BUILT_IN, *CORPORA) else (self.data,)

    def __post_init__(self) -> None:
        check_limits(self, {"eval_chars": COUNT, "test_chars": COUNT})
        for name in ("eval_chars", "test_chars"):
            if getattr(self, name) == 1:
                raise WordwaveError(f"{name} must be 0 or at least 2, got {getattr(self, name)}")


@dataclass(frozen=True)
class LanguageModelTrainingConfig(TrainingConfig):
    """The settings of every training, with defaults for language models."""

    epochs: int = 1000
    """How often the text is read at most; --max-steps usually ends sooner."""
    max_steps: int = 1500
    """Steps after which training ends, however many epochs that is; 0 for no limit of steps."""
    eval_every: int = 250
    """Steps between two looks at the valid part; 0 for one look at the end of each epoch."""
    batch_size: int = 16
    """Places of the text that are read in parallel, per process."""
    learning_rate: float = 3e-3
    """Highest learning rate."""
    schedule: Schedule = "cosine"
    """After the warm-up the learning rate falls evenly to 0, stays, falls to 0 along half a cosine,
    or falls as 1/√step."""
    warmup_fraction: float = 0.05
    """Share of the steps over which the learning rate rises."""
    max_grad_norm: float = 0.5
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
                raise WordwaveError(
                    f"{name} has no meaning for language models, got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class LanguageModelConfig:
    """Train a language model of characters: Transformer-XL, real or with waves."""

    data: LanguageModelDataConfig = field(default_factory=LanguageModelDataConfig)
    model: TransformerXLConfig = field(default_factory=TransformerXLConfig)
    training: LanguageModelTrainingConfig = field(default_factory=LanguageModelTrainingConfig)


@dataclass(frozen=True)
class Sampling:
    """Narrower choices make safer and duller texts."""

    temperature: float = 0.8
    """Below 1 likely characters become likelier; 0 always takes the likeliest."""
    top_k: int = 0
    """Draw from so many of the likeliest characters; 0 for all."""
    top_p: float = 1.0
    """Draw from the fewest characters that have this probability together."""
    seed: int = 0
    """Same seed, same text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise WordwaveError(f"temperature must be at least 0, got {self.temperature}")
        check_limits(self, {"top_k": COUNT, "seed": (0, 2**63 - 1)})
        if not 0 < self.top_p <= 1:
            raise WordwaveError(f"top_p must be in (0, 1], got {self.top_p}")


def draw(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """A number drawn by logits. Shape: logits (V,)"""
    import torch

    if sampling.temperature == 0:
        return int(logits.argmax())
    order = logits.argsort(descending=True, stable=True)
    ahead = logits[order].double() - logits.max()  # none above 0, so that nothing overflows
    likely = (ahead / sampling.temperature).softmax(0)
    if sampling.top_k:
        likely = likely[: sampling.top_k]
    if sampling.top_p < 1:
        before = likely.cumsum(0) - likely
        likely = likely[before < sampling.top_p * likely.sum()]
    return int(order[torch.multinomial(likely, 1, generator=generator)])
