"""The configs of the tasks. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from wordwave.config_io import task_of as task_of
from wordwave.data.pairs import PairDataConfig as PairDataConfig
from wordwave.data.parallel import ParallelDataConfig as ParallelDataConfig
from wordwave.data.splits import IN_MEMORY as IN_MEMORY
from wordwave.data.splits import DataConfig as DataConfig
from wordwave.errors import WordwaveError
from wordwave.limits import COUNT, FRACTION, SCALE, SEED, WIDTH, Limited, check_unused
from wordwave.models.config import (
    ClassifierConfig,
    PairModelConfig,
    SentenceEncoderConfig,
    TransformerXLConfig,
    TranslationModelConfig,
)
from wordwave.training.config import Precision, Schedule, TrainingConfig

Select = Literal["accuracy", "macro-f1", "likelihood", "last"]
BPE_SIZE = (256, 1_000_000)


class TaskConfig:
    """All settings of a task, in parts; a dataclass for each task."""

    task: ClassVar[str]
    """Its name in `wordwave train TASK`."""
    data: Any
    model: Any
    training: Any

    def __post_init__(self) -> None:
        if embedding := getattr(self.model, "embedding", None):
            most = WIDTH[1] // len(embedding.views)
            if self.model.dim > most:
                views = f"with {len(embedding.views)} views"
                raise WordwaveError(f"dim must be at most {most} {views}, got {self.model.dim}")


@dataclass(frozen=True)
class TextConfig(Limited):
    """Tokenizer, vocabulary and pretrained vectors."""

    tokenizer: Literal["plain", "kim", "bpe"] = "plain"
    """plain: lower-case words and punctuation; kim: the cleaning of Kim (2014), customary for these
    data sets; bpe: subwords, trained on the training set."""
    bpe_size: Annotated[int, BPE_SIZE] = 8000
    """bpe: vocabulary size."""
    min_count: Annotated[int, (1, COUNT[1])] = 1
    """Words that are rarer in the training set become the unknown word."""
    max_vocabulary: Annotated[int | None, (1, COUNT[1])] = None
    """Keep only this many of the most frequent training words."""
    unknown_words: Literal["shared", "hashed"] = "shared"
    """What stands for a word that is not in the vocabulary: one vector for all of them, or that of
    a rare training word, chosen by a hash, so that different unknown words stay different."""
    vectors: str | None = None
    """Pretrained vectors: a file (word2vec .bin, GloVe or fastText text, .npy beside .words.txt),
    or the name of one under vectors/ in the data home. They set the width of the embedding."""
    vector_scale: Annotated[float, (-1e6, 1e6)] = 1.0
    """Factor that pretrained vectors are multiplied by."""
    freeze_vectors: bool = False
    """Do not train pretrained vectors."""
    extra_words: Annotated[int, COUNT] = 100_000
    """Maximum number of words with a pretrained vector that are not in the training set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_vocabulary is not None and self.tokenizer == "bpe":
            raise WordwaveError("max_vocabulary does not go with 'bpe': set bpe_size instead")
        if self.freeze_vectors and self.vectors is None:
            raise WordwaveError("freeze_vectors needs vectors, got none")


@dataclass(frozen=True)
class ClassificationTrainingConfig(TrainingConfig):
    """Training of a classifier."""

    class_weight: Literal["none", "balanced"] = "none"
    """How much an example of a class counts in the loss: all the same, or balanced: inversely
    proportional to the number of training examples of its class, so that rare classes count."""
    select: Select | None = None
    """Validation score that selects the best weights, and that --patience follows: accuracy, the
    mean F1 of all classes, or the mean log-probability of the true class. last: none, the weights
    of the last epoch are kept. By default last for a bag without --patience, otherwise accuracy."""


@dataclass(frozen=True)
class ClassificationConfig(TaskConfig):
    """Train a text classifier: embedding → encoder → read-out → classes."""

    task = "classify"
    data: DataConfig = field(default_factory=DataConfig)
    text: TextConfig = field(default_factory=TextConfig)
    model: ClassifierConfig = field(default_factory=ClassifierConfig)
    training: ClassificationTrainingConfig = field(default_factory=ClassificationTrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.select == "last" and self.training.patience:
            raise WordwaveError(
                "patience must be 0 with select 'last', which follows no validation score, "
                f"got {self.training.patience}"
            )

    @property
    def select(self) -> Select:
        """What selects the best weights."""
        is_bag = self.model.encoder == "bag" and not self.training.patience
        return self.training.select or ("last" if is_bag else "accuracy")


@dataclass(frozen=True)
class MatchingTrainingConfig(TrainingConfig):
    """Training of a matcher."""

    epochs: int = 12
    batch_size: int = 64
    word_dropout: float = 0.0
    word_renaming: Annotated[float, FRACTION] = 0.5
    """Probability that a word of a training pair, except the 100 most frequent ones, is replaced by
    a random other one, the same wherever it stands in both sentences: what decides is then how
    words are arranged."""


@dataclass(frozen=True)
class MatchingConfig(TaskConfig):
    """Train a matcher of sentence pairs: each sentence → vector, both compared → classes."""

    task = "match"
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
class SentenceTextConfig(Limited):
    """The subwords of an encoder."""

    bpe_size: Annotated[int, BPE_SIZE] = 24_000
    """Number of BPE subwords of lower-cased words, trained on the sentences."""


@dataclass(frozen=True)
class SentenceTrainingConfig(TrainingConfig):
    """Training of an encoder."""

    epochs: int = 10
    batch_size: Annotated[int, (2, 10**9)] = 256
    """Sentences per batch and process; they are compared with each other."""
    learning_rate: float = 2e-2
    word_dropout: float = 0.0
    """Not for encoders."""
    temperature: Annotated[float, (1e-3, 1e3)] = 0.2
    """Differences of cosines are divided by this in the order loss."""
    similarity_loss: Annotated[float, SCALE] = 30.0
    """Weight of the squared differences between the cosines of each part in a batch and those of
    the teacher; without a teacher, between the cosines of the order part and the meaning part."""
    order_loss: Annotated[float, SCALE] = 0.3
    """Weight of the loss that makes a sentence with reordered words less similar than one without a
    word or two."""
    random_positions: int = 0
    """Not for encoders."""
    amplitude_penalty: float = 0.0
    """Not for encoders."""
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        unused = ("word_dropout", "random_positions", "amplitude_penalty")
        check_unused(self, "sentence encoders", *unused)


@dataclass(frozen=True)
class SentenceEmbeddingConfig(TaskConfig):
    """Train a sentence encoder: subwords → a sum of vectors, and sums of waves."""

    task = "embed"
    data: SentenceDataConfig = field(default_factory=SentenceDataConfig)
    text: SentenceTextConfig = field(default_factory=SentenceTextConfig)
    model: SentenceEncoderConfig = field(default_factory=SentenceEncoderConfig)
    training: SentenceTrainingConfig = field(default_factory=SentenceTrainingConfig)


@dataclass(frozen=True)
class SubwordConfig(Limited):
    """The subword vocabulary that both languages share."""

    words: Literal["moses", "spaced"] = "moses"
    """moses: normalize and separate punctuation; spaced: the text is tokenized already."""
    lower_case: bool = False
    """Lower-case all text, as most published scores on Multi30k do; translations are recased by the
    spelling of the training set."""
    bpe_size: Annotated[int, BPE_SIZE] = 10_000
    """Number of BPE subwords, trained on the training set of both languages."""


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
    label_smoothing: Annotated[float, FRACTION] = 0.1
    """Probability mass spread evenly over all tokens of the target."""
    average: Annotated[int, (0, 1_000)] = 5
    """At the end, average the weights of this many last evaluations, and keep the average if it
    scores higher on the validation set; 0 for none."""
    eval_bleu: Annotated[int, COUNT] = 200
    """Validation sentences translated (greedily) at each evaluation, for their BLEU; 0 for none."""
    select: Literal["likelihood", "bleu"] = "likelihood"
    """Validation score that selects the best weights: mean log-probability of a token, or BLEU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.row_sparse:
            raise WordwaveError("row_sparse must be off for translation: every row has a gradient")
        if self.select == "bleu" and not self.eval_bleu:
            raise WordwaveError("select 'bleu' needs eval_bleu above 0, got 0")


@dataclass(frozen=True)
class TranslationConfig(TaskConfig):
    """Train a translation model: subwords → encoder → decoder → subwords."""

    task = "translate"
    data: ParallelDataConfig = field(default_factory=ParallelDataConfig)
    text: SubwordConfig = field(default_factory=SubwordConfig)
    model: TranslationModelConfig = field(default_factory=TranslationModelConfig)
    training: TranslationTrainingConfig = field(default_factory=TranslationTrainingConfig)


@dataclass(frozen=True)
class LanguageModelDataConfig(Limited):
    """The text of a language model."""

    data: str = "python-help"
    """python-help (the documentation in Python itself, no download), text8, enwik8, or a UTF-8 text
    file of your own, also .gz and .xz, which is split 90/5/5 into training, validation and test."""
    unit: Literal["char", "byte"] | None = None
    """Predict characters or bytes; by default characters, for enwik8 bytes."""
    eval_chars: Annotated[int, COUNT] = 20_000
    """Characters at the start of the validation set that each evaluation in training scores; 0 for
    all."""
    test_chars: Annotated[int, COUNT] = 0
    """Characters of the validation and the test set that the finished model is scored on; 0 for
    all."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file that it names; none for a text by name."""
        from wordwave.data.corpora import corpus_names

        return () if self.data in corpus_names() else (self.data,)

    def __post_init__(self) -> None:
        super().__post_init__()
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
        check_unused(self, "language models", "row_sparse", "word_dropout", "random_positions")


@dataclass(frozen=True)
class LanguageModelConfig(TaskConfig):
    """Train a character-level language model: Transformer-XL, real or complex."""

    task = "lm"
    data: LanguageModelDataConfig = field(default_factory=LanguageModelDataConfig)
    model: TransformerXLConfig = field(default_factory=TransformerXLConfig)
    training: LanguageModelTrainingConfig = field(default_factory=LanguageModelTrainingConfig)


@dataclass(frozen=True)
class Sampling(Limited):
    """How the next character is sampled."""

    temperature: float = 0.8
    """Softmax temperature; lower is more predictable, 0 for greedy decoding."""
    top_k: Annotated[int, COUNT] = 0
    """Sample from the k most probable characters only; 0 for all."""
    top_p: float = 1.0
    """Sample from the smallest set of characters with this total probability (nucleus sampling)."""
    seed: Annotated[int, SEED] = 0
    """Random seed; the same seed gives the same text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise WordwaveError(f"temperature must be at least 0, got {self.temperature}")
        super().__post_init__()
        if not 0 < self.top_p <= 1:
            raise WordwaveError(f"top_p must be in (0, 1], got {self.top_p}")
