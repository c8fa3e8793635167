"""How good predictions are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from reprlib import repr as clipped
from statistics import fmean, median
from typing import Any, TypedDict

import torch
from torch import Tensor

from wordwave.data.registry import CATALOGUE, data_home
from wordwave.data.splits import Splits, cut_dev, load_from_hub, load_splits
from wordwave.data.tables import Examples, read_examples
from wordwave.embedding.pretrained import Vectors, read_vectors
from wordwave.errors import WordwaveError, suggestion
from wordwave.memory import BYTES_PER_LOGIT, check_memory, check_training_fits, confusion_bytes
from wordwave.models.classifier import Classifier, count_parameters
from wordwave.tasks.classifier import (
    ClassificationTask,
    LabelledSentences,
    TextClassifier,
    classes_of,
)
from wordwave.tasks.config import ClassificationConfig, DataConfig, TextConfig
from wordwave.tasks.run import Prepared, check_same
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, TextTokenizer, build_tokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary
from wordwave.training.loop import Training
from wordwave.training.positions import check_reach


@dataclass(frozen=True)
class ClassScores:
    """Of one class."""

    n: int
    """Examples of it."""
    precision: float
    """Of those predicted to be of it, the share that is."""
    recall: float
    """Of those of it, the share predicted to be."""
    f1: float


@dataclass(frozen=True)
class Scores:
    """Figures of merit of predictions."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    """95% confidence interval of the accuracy (Wilson's)."""
    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""
    confusion: list[list[int]]
    """Row: the true class; column: the predicted one."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


def score(wanted: Tensor, said: Tensor, labels: list[str]) -> Scores:
    """Compare predicted classes with the true ones. Shape: wanted (N,), said (N,)"""
    from scipy.stats import binomtest
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    if len(wanted) == 0:
        raise WordwaveError("there must be at least one example to score, got none")
    check_memory(
        confusion_bytes(len(labels)),
        f"scoring {len(labels):,} classes",
        "the table of who is taken for whom has a cell for each pair; merge classes",
    )
    right = int((wanted == said).sum())
    interval = binomtest(right, len(wanted)).proportion_ci(method="wilson")
    numbers = list(range(len(labels)))
    *figures, counts = precision_recall_fscore_support(
        wanted, said, labels=numbers, zero_division=0
    )
    classes = [
        ClassScores(int(n), *map(float, three)) for n, *three in zip(counts, *figures, strict=True)
    ]
    return Scores(
        n=len(wanted),
        accuracy=right / len(wanted),
        interval=(float(interval.low), float(interval.high)),
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
        confusion=confusion_matrix(wanted, said, labels=numbers).tolist(),
    )


FROM_HUB = "hf:"


def load_examples(data: DataConfig) -> Splits:
    """Training, dev and test examples; the last are `None` where none are named."""
    if not data.data:
        raise WordwaveError(
            "there must be something to learn from: --data FILE.csv, or --data NAME "
            "(wordwave data list)"
        )
    if data.data.startswith(FROM_HUB):
        if data.dev or data.test or data.fold:
            raise WordwaveError(f"--dev, --test and --fold do not go with {data.data!r}")
        return load_from_hub(data.data.removeprefix(FROM_HUB), text=data.text, label=data.label)
    if data.data in CATALOGUE:
        if data.dev or data.test:
            raise WordwaveError(
                f"--dev and --test go with files of your own, not with {data.data!r}"
            )
        return load_splits(data.data, fold=data.fold)
    if data.fold:
        raise WordwaveError(f"--fold goes with data sets by name, not with {data.data!r}")
    hint = suggestion(data.data, CATALOGUE)
    if hint and not Path(data.data).exists():
        raise WordwaveError(f"there is no data set or file {data.data!r}{hint}")

    def read(file: str) -> Examples:
        return read_examples(file, text=data.text, label=data.label)

    train, test = read(data.data), read(data.test) if data.test else None
    if data.dev:
        return Splits(train, read(data.dev), test)
    return Splits(*cut_dev(train), test)


ENDINGS = ("*.npy", ".bin", ".bin.gz", ".vec", ".vec.gz", ".txt")
"""What may follow the name of vectors in the data home."""


class TestScores(TypedDict):
    """What is shown of `Scores`."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float


class Result(TypedDict):
    """What is shown of result.json."""

    test: TestScores | None
    dev_accuracy: float
    best_epoch: int
    parameters: int
    epoch_seconds: float | None
    words_per_second: float | None


@dataclass(frozen=True)
class PreparedClassifier(Prepared):
    """A classifier before its training."""

    classifier: TextClassifier
    task: ClassificationTask
    test: LabelledSentences | None
    notes: list[str]
    fingerprint: str

    @property
    def trained(self) -> TextClassifier:
        return self.classifier

    def result(
        self, training: Training, journal: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        progress = training.progress
        return {
            "test": None if self.test is None else evaluate(self.classifier, self.test).plain(),
            "examples": self.fingerprint,
            "dev_accuracy": progress.best_score,
            "best_epoch": progress.best_epoch,
            "epochs": progress.epoch,
            "parameters": count_parameters(self.classifier.model),
            "epoch_seconds": median(r["seconds"] for r in journal) if journal else None,
            "words_per_second": median(r["words_per_second"] for r in journal) if journal else None,
        }


def prepare(config: ClassificationConfig, parts: Splits) -> PreparedClassifier:
    """Make vocabulary, model and word ids; only the training part is looked at for the first two.

    The model depends on the config and the data alone, not on the global random state.
    """
    labels = sorted(set(parts.train.labels))
    if len(labels) < 2:
        raise WordwaveError(
            f"{parts.train.name} must have two classes or more, got only {clipped(labels[0])}"
        )
    settings = config.text
    if config.training.amplitude_penalty and settings.freeze_vectors:
        raise WordwaveError(
            "amplitude_penalty changes vectors that freeze_vectors keeps: choose one"
        )
    tokenizer = _tokenizer(settings, parts.train.texts)
    tokens = [tokenizer(text) for text in parts.train.texts]
    vectors = None
    extra_words = tokenizer.words if isinstance(tokenizer, BPETokenizer) else []
    if settings.vectors is not None:
        seen = {word for sentence in tokens for word in sentence}
        vectors = read_vectors(
            find_vectors(settings.vectors), vocabulary=seen, besides=settings.extra_words
        )
        # Those of the training texts are chosen by their counts.
        extra_words = [*extra_words, *(word for word in vectors.words if word not in seen)]
    vocabulary = Vocabulary.build(
        tokens,
        min_count=settings.min_count,
        max_size=settings.max_vocabulary,
        extra_words=extra_words,
    )
    config = _settled(config, vectors)
    encoder = TextEncoder(tokenizer, vocabulary, max_length=config.model.max_length)
    notes = [f"{len(vocabulary):,} words, {len(labels)} classes"]
    check_training_fits(
        lambda: Classifier(config.model, len(vocabulary), len(labels)),
        f"it has {len(vocabulary):,} words (--max-vocabulary, --min-count) of width "
        f"{config.model.dim:,} (--dim), a hidden layer of {config.model.hidden_dim:,} "
        f"(--hidden-dim) and {len(labels):,} classes; a test part needs a table of all pairs of "
        "classes",
        row_sparse=config.training.row_sparse,
        besides=BYTES_PER_LOGIT * min(config.training.batch_size, len(parts.train)) * len(labels)
        + (0 if parts.test is None else confusion_bytes(len(labels))),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        options: dict[str, Any] = {"sparse": config.training.row_sparse}
        if vectors is not None:
            aligned, found = vectors.aligned_to(vocabulary.words, scale=settings.vector_scale)
            options |= {"vectors": aligned, "freeze_vectors": settings.freeze_vectors}
            notes.append(f"{int(found.sum()):,} of them have a pretrained vector")
        model = Classifier(config.model, len(vocabulary), len(labels), **options)

    def labelled(part: Examples) -> LabelledSentences:
        sentences, n_cut = encoder.encode(part.texts)
        if n_cut:
            notes.append(
                f"{n_cut:,} of {len(part.texts):,} texts of {part.name} were cut to "
                f"{config.model.max_length} words (--max-length)"
            )
        return LabelledSentences(sentences, class_numbers(part.labels, labels, part.name))

    train = labelled(parts.train)
    check_reach(
        config.training.random_positions,
        int(train.sentences.lengths.max()),
        "words of the longest text",
        config.model.max_length if config.model.embedding == "pe" else None,
    )
    dev = None if parts.dev is None else labelled(parts.dev)
    test = None if parts.test is None else labelled(parts.test)
    task = ClassificationTask(train, dev, word_dropout=config.training.word_dropout)
    classifier = TextClassifier(model, encoder, labels, config)
    return PreparedClassifier(classifier, task, test, notes, parts.fingerprint())


def class_numbers(given: Iterable[str], labels: Sequence[str], name: str) -> Tensor:
    """The number of each label's class. Shape: (N,)"""
    number = {label: i for i, label in enumerate(labels)}
    try:
        return torch.tensor([number[label] for label in given], dtype=torch.long)
    except KeyError as problem:
        raise WordwaveError(
            f"{name} has the label {clipped(problem.args[0])}, which training does not have; "
            f"known: {', '.join(map(clipped, labels[:20]))}"
        ) from None


def check_same_run(config: ClassificationConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    vectors_set_the_width = ("model", "dim") if config.text.vectors is not None else None
    check_same(folder, TextClassifier.task, config, but=vectors_set_the_width)


def evaluate(classifier: TextClassifier, data: LabelledSentences) -> Scores:
    """How good a classifier is on examples."""
    said = classes_of(classifier.model, data.sentences)
    return score(data.targets, said, classifier.labels)


def _tokenizer(settings: TextConfig, texts: list[str]) -> TextTokenizer:
    if settings.tokenizer == "bpe":
        return train_bpe(texts, settings.bpe_size)
    return build_tokenizer(settings.tokenizer)


def find_vectors(name: str) -> Path:
    """A file of vectors: a path, or a name under vectors/ in the data home."""
    if Path(name).exists():
        return Path(name)
    folder = data_home() / "vectors"
    ended = [] if Path(name).is_absolute() else [sorted(folder.glob(name + e)) for e in ENDINGS]
    for candidate in (folder / name, *chain(*ended)):
        if candidate.is_file():
            return candidate
    raise WordwaveError(
        f"vectors must be a file or a name in '{folder}', got {name!r}: put such a file there, or "
        "name one of your own (--vectors FILE, or vectors: in a recipe)"
    )


def _settled(config: ClassificationConfig, vectors: Vectors | None) -> ClassificationConfig:
    """The config with what follows from the data: vectors set the width."""
    if vectors is None:
        return config
    return replace(config, model=replace(config.model, dim=vectors.dim))
