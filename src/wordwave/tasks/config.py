"""The configs of the tasks. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wordwave.config_io import conform, read_settings
from wordwave.data.pairs import pair_set_names
from wordwave.data.registry import BUILT_IN, dataset_named, names
from wordwave.errors import WordwaveError
from wordwave.limits import COUNT, SCALE, check_fractions, check_limits
from wordwave.models.config import (
    ClassifierConfig,
    PairModelConfig,
    SentenceEncoderConfig,
    TransformerXLConfig,
    TranslationModelConfig,
)
from wordwave.training.config import Precision, Schedule, TrainingConfig


def task_of(folder: Path) -> str:
    """The task of a run: classify, match, embed, translate or lm."""
    return str(run_config(folder)["task"])


def run_config(folder: Path) -> dict[str, Any]:
    """The content of config.yaml in a run folder: a task, and its settings."""
    path = folder / "config.yaml"
    if not folder.is_dir() or not path.exists():
        raise WordwaveError(f"'{folder}' is not a run folder: it has no config.yaml")
    plain = read_settings(path)
    conform(plain.get("task"), str, where=f"'{path}': task")
    return plain


IN_MEMORY = "(in memory)"
"""The `data` of examples that were not read from a file."""


@dataclass(frozen=True)
class DataConfig:
    """The labelled texts of a classifier."""

    data: str = ""
    """A data set by name (wordwave data list), or a file of your own: .csv, .tsv or .jsonl,
    also .gz; or hf:NAME for a data set of the Hugging Face hub."""
    dev: str | None = None
    """Validation set: a file; by default a tenth of the training examples. It selects the best
    epoch."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text: str = "text"
    """The column of texts in files of your own."""
    label: str = "label"
    """The column of labels in files of your own."""
    fold: int = 0
    """Cross-validation fold of data sets without a test set (mr, subj, cr, mpqa): which tenth is
    tested on."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and data sets of the hub, that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *names("classification")]
        return () if len(named) == 1 and named[0] in known else named


@dataclass(frozen=True)
class TextConfig:
    """Tokenizer, vocabulary and pretrained vectors."""

    tokenizer: Literal["plain", "kim", "bpe"] = "plain"
    """plain: lower-case words and punctuation; kim: the cleaning of Kim (2014), customary for these
    data sets; bpe: subwords, trained on the training set."""
    bpe_size: int = 8000
    """bpe: vocabulary size."""
    min_count: int = 1
    """Words that are rarer in the training set become the unknown word."""
    max_vocabulary: int | None = None
    """Keep only this many of the most frequent training words."""
    unknown_words: Literal["shared", "hashed"] = "shared"
    """What stands for a word that is not in the vocabulary: one vector for all of them, or that of
    a rare training word, chosen by a hash, so that different unknown words stay different."""
    vectors: str | None = None
    """Pretrained vectors: a file (word2vec .bin, GloVe or fastText text, .npy beside .words.txt),
    or the name of one under vectors/ in the data home. They set the width of the embedding."""
    vector_scale: float = 1.0
    """Factor that pretrained vectors are multiplied by."""
    freeze_vectors: bool = False
    """Do not train pretrained vectors."""
    extra_words: int = 100_000
    """Maximum number of words with a pretrained vector that are not in the training set."""

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
            raise WordwaveError("max_vocabulary does not go with 'bpe': set bpe_size instead")
        if self.freeze_vectors and self.vectors is None:
            raise WordwaveError("freeze_vectors needs vectors, got none")


@dataclass(frozen=True)
class ClassificationConfig:
    """Train a text classifier: embedding → encoder → read-out → classes."""

    data: DataConfig = field(default_factory=DataConfig)
    text: TextConfig = field(default_factory=TextConfig)
    model: ClassifierConfig = field(default_factory=ClassifierConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


@dataclass(frozen=True)
class PairDataConfig:
    """The pairs of sentences of a matcher."""

    data: str = ""
    """built-in (a part of PAWS-Wiki, no download), another data set by name (paws-wiki, paws-qqp,
    sts-b, sick), or a file of your own: .csv, .tsv or .jsonl, also .gz."""
    dev: str | None = None
    """Validation set: a file; by default a tenth of the training pairs, cut so that it shares no
    sentence with the others. It selects the best epoch."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text_a: str = "text_a"
    """The column of first sentences in files of your own."""
    text_b: str = "text_b"
    """The column of second sentences."""
    label: str = "label"
    """The column of labels: any names of classes."""
    similarity: str | None = None
    """A column of numbers, such as similarities, to predict instead of a label."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *pair_set_names()]
        return () if len(named) == 1 and named[0] in known else named

    @property
    def predicts_scores(self) -> bool:
        """Whether a number is predicted, not a class."""
        if self.data in names("matching"):
            return not dataset_named(self.data).classes
        return self.similarity is not None


@dataclass(frozen=True)
class MatchingTrainingConfig(TrainingConfig):
    """Training of a matcher."""

    epochs: int = 12
    batch_size: int = 64
    word_dropout: float = 0.0
    word_renaming: float = 0.5
    """Probability that a word of a training pair, except the 100 most frequent ones, is replaced by
    a random other one, the same wherever it stands in both sentences: what decides is then how
    words are arranged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fractions(self, "word_renaming")


@dataclass(frozen=True)
class MatchingConfig:
    """Train a matcher of sentence pairs: each sentence → vector, both compared → classes."""

    data: PairDataConfig = field(default_factory=PairDataConfig)
    text: TextConfig = field(default_factory=lambda: TextConfig(unknown_words="hashed"))
    model: PairModelConfig = field(default_factory=PairModelConfig)
    training: MatchingTrainingConfig = field(default_factory=MatchingTrainingConfig)


@dataclass(frozen=True)
class SentenceDataConfig:
    """The sentences of an encoder."""

    data: str = ""
    """Sentences, one per line: a text file, also .gz."""
    teacher: str | None = None
    """Vectors of these sentences by another model, which are imitated: a .npy file with a float16
    or float32 row per sentence, or the name or folder of a sentence-transformers model, which
    encodes them once. By default none: two halves of a sentence are trained to be similar."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and the teacher, that it names."""
        return tuple(name for name in (self.data, self.teacher) if name)


@dataclass(frozen=True)
class SentenceTextConfig:
    """The subwords of an encoder."""

    bpe_size: int = 24_000
    """Number of BPE subwords of lower-cased words, trained on the sentences."""

    def __post_init__(self) -> None:
        check_limits(self, {"bpe_size": (256, 1_000_000)})


@dataclass(frozen=True)
class SentenceTrainingConfig(TrainingConfig):
    """Training of an encoder."""

    epochs: int = 10
    batch_size: int = 256
    """Sentences per batch and process; they are compared with each other."""
    learning_rate: float = 2e-2
    word_dropout: float = 0.0
    """Not for encoders."""
    temperature: float = 0.2
    """Differences of cosines are divided by this in the order loss."""
    similarity_loss: float = 30.0
    """Weight of the squared differences between the cosines of each part in a batch and those of
    the teacher; without a teacher, between the cosines of the order part and the meaning part."""
    order_loss: float = 0.3
    """Weight of the loss that makes a sentence with reordered words less similar than one without a
    word or two."""
    random_positions: int = 0
    """Not for encoders."""
    amplitude_penalty: float = 0.0
    """Not for encoders."""
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(
            self,
            {
                "batch_size": (2, 10**9),  # sentences of a batch are compared with each other
                "temperature": (1e-3, 1e3),
                "similarity_loss": SCALE,
                "order_loss": SCALE,
            },
        )
        for name in ("word_dropout", "random_positions", "amplitude_penalty"):
            if getattr(self, name):
                raise WordwaveError(
                    f"{name} has no meaning for sentence encoders, got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class SentenceEmbeddingConfig:
    """Train a sentence encoder: subwords → a sum of vectors, and sums of waves."""

    data: SentenceDataConfig = field(default_factory=SentenceDataConfig)
    text: SentenceTextConfig = field(default_factory=SentenceTextConfig)
    model: SentenceEncoderConfig = field(default_factory=SentenceEncoderConfig)
    training: SentenceTrainingConfig = field(default_factory=SentenceTrainingConfig)


@dataclass(frozen=True)
class ParallelDataConfig:
    """The sentence pairs of a translation model."""

    data: str = BUILT_IN
    """built-in (user-interface sentences, no download) or multi30k; ignored with --source."""
    source: str | None = None
    """A text file of your own, one sentence per line, also .gz."""
    target: str | None = None
    """Its translation, line by line."""
    dev_source: str | None = None
    """Validation set: sentences to select the best weights by; by default a tenth of the pairs, at
    most 1,000."""
    dev_target: str | None = None
    """Their translations."""
    test_source: str | None = None
    """Test set: sentences that are translated and scored once, at the end."""
    test_target: str | None = None
    """Their translations."""
    source_language: str = "en"
    """Code of the source language, such as en or pt-br; the named data sets have en and de.
    Languages without Moses rules use the English ones."""
    target_language: str = "de"
    """Code of the target language."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = (getattr(self, name) for pair in PAIRS for name in pair)
        return tuple(name for name in named if name)

    @property
    def name(self) -> str:
        """Of the data set, or of the source file."""
        return self.data if self.source is None else Path(self.source).name.split(".")[0]

    def __post_init__(self) -> None:
        for one, other in PAIRS:
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise WordwaveError(f"{one} and {other} go together, got only one of them")
        if self.source is None and (self.dev_source or self.test_source):
            raise WordwaveError(f"dev_source and test_source need source, got data {self.data!r}")
        for name in ("source_language", "target_language"):
            if not re.fullmatch("[a-z]{2,3}([-_][A-Za-z]+)?", getattr(self, name)):
                raise WordwaveError(
                    f"{name} must be a code of two or three small letters such as de, "
                    f"got {getattr(self, name)!r}"
                )


PAIRS = (("source", "target"), ("dev_source", "dev_target"), ("test_source", "test_target"))
"""The settings that name two files, line by line each other's translation."""


@dataclass(frozen=True)
class SubwordConfig:
    """The subword vocabulary that both languages share."""

    words: Literal["moses", "spaced"] = "moses"
    """moses: normalize and separate punctuation; spaced: the text is tokenized already."""
    lower_case: bool = False
    """Lower-case all text, as most published scores on Multi30k do; translations are recased by the
    spelling of the training set."""
    bpe_size: int = 10_000
    """Number of BPE subwords, trained on the training set of both languages."""

    def __post_init__(self) -> None:
        check_limits(self, {"bpe_size": (256, 1_000_000)})


@dataclass(frozen=True)
class TranslationTrainingConfig(TrainingConfig):
    """Training of a translation model."""

    epochs: int = 1000
    max_steps: int = 2000
    eval_every: int = 200
    batch_size: int = 1024
    """Tokens per batch and process, padding included: sentence pairs times their longest side."""
    learning_rate: float = 3e-3
    schedule: Schedule = "inverse-sqrt"
    warmup_fraction: float = 0.2
    row_sparse: bool = False
    """Not for translation: the embedding is the output layer too, so every row has a gradient."""
    word_dropout: float = 0.0
    """Probability that an input token, of the source or of the target, is replaced by the unknown
    token."""
    label_smoothing: float = 0.1
    """Probability mass spread evenly over all tokens of the target."""
    average: int = 5
    """At the end, average the weights of this many last evaluations, and keep the average if it
    scores higher on the validation set; 0 for none."""
    eval_bleu: int = 200
    """Validation sentences translated (greedily) at each evaluation, for their BLEU; 0 for none."""
    select: Literal["likelihood", "bleu"] = "likelihood"
    """Validation score that selects the best weights: mean log-probability of a token, or BLEU."""

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
    """Train a translation model: subwords → encoder → decoder → subwords."""

    data: ParallelDataConfig = field(default_factory=ParallelDataConfig)
    text: SubwordConfig = field(default_factory=SubwordConfig)
    model: TranslationModelConfig = field(default_factory=TranslationModelConfig)
    training: TranslationTrainingConfig = field(default_factory=TranslationTrainingConfig)


@dataclass(frozen=True)
class LanguageModelDataConfig:
    """The text of a language model."""

    data: str = "python-help"
    """python-help (the documentation in Python itself, no download), text8, enwik8, or a UTF-8 text
    file of your own, also .gz and .xz, which is split 90/5/5 into training, validation and test."""
    unit: Literal["char", "byte"] | None = None
    """Predict characters or bytes; by default characters, for enwik8 bytes."""
    eval_chars: int = 20_000
    """Characters at the start of the validation set that each evaluation in training scores; 0 for
    all."""
    test_chars: int = 0
    """Characters of the validation and the test set that the finished model is scored on; 0 for
    all."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file that it names; none for a text by name."""
        from wordwave.data.corpora import corpus_names

        return () if self.data in corpus_names() else (self.data,)

    def __post_init__(self) -> None:
        check_limits(self, {"eval_chars": COUNT, "test_chars": COUNT})
        for name in ("eval_chars", "test_chars"):
            if getattr(self, name) == 1:
                raise WordwaveError(f"{name} must be 0 or at least 2, got {getattr(self, name)}")


@dataclass(frozen=True)
class LanguageModelTrainingConfig(TrainingConfig):
    """Training of a language model."""

    epochs: int = 1000
    max_steps: int = 1500
    eval_every: int = 250
    batch_size: int = 16
    """Parallel streams of text per process."""
    learning_rate: float = 3e-3
    schedule: Schedule = "cosine"
    warmup_fraction: float = 0.05
    max_grad_norm: float = 0.5
    row_sparse: bool = False
    """Not for language models: every row has a gradient."""
    word_dropout: float = 0.0
    """Not for language models."""
    random_positions: int = 0
    """Not for language models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("row_sparse", "word_dropout", "random_positions"):
            if getattr(self, name):
                raise WordwaveError(
                    f"{name} has no meaning for language models, got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class LanguageModelConfig:
    """Train a character-level language model: Transformer-XL, real or complex."""

    data: LanguageModelDataConfig = field(default_factory=LanguageModelDataConfig)
    model: TransformerXLConfig = field(default_factory=TransformerXLConfig)
    training: LanguageModelTrainingConfig = field(default_factory=LanguageModelTrainingConfig)


@dataclass(frozen=True)
class Sampling:
    """How the next character is sampled."""

    temperature: float = 0.8
    """Softmax temperature; lower is more predictable, 0 for greedy decoding."""
    top_k: int = 0
    """Sample from the k most probable characters only; 0 for all."""
    top_p: float = 1.0
    """Sample from the smallest set of characters with this total probability (nucleus sampling)."""
    seed: int = 0
    """Random seed; the same seed gives the same text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise WordwaveError(f"temperature must be at least 0, got {self.temperature}")
        check_limits(self, {"top_k": COUNT, "seed": (0, 2**63 - 1)})
        if not 0 < self.top_p <= 1:
            raise WordwaveError(f"top_p must be in (0, 1], got {self.top_p}")
