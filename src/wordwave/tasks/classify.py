"""Text classification from examples to a run folder: data + model + loss + figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from reprlib import repr as clipped
from statistics import median
from typing import Any, TypedDict

import torch
from torch import Tensor

from wordwave.data.home import data_home
from wordwave.data.splits import Parts
from wordwave.data.tables import Examples
from wordwave.embedding.vectors import Vectors, read_vectors
from wordwave.models.classifier import Classifier, count_parameters
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassifyConfig, TextSettings
from wordwave.tasks.footprint import BYTES_PER_LOGIT, check_training_fits, confusion_bytes
from wordwave.tasks.prepared import Prepared
from wordwave.tasks.run_folder import check_same
from wordwave.tasks.scores import Scores, score
from wordwave.tasks.sentences import Labelled, SentenceTask, classes_of
from wordwave.text.bpe import BpeTokeniser, train_bpe
from wordwave.text.encode import TextEncoder
from wordwave.text.tokenise import Tokeniser, build_tokeniser
from wordwave.text.vocabulary import Vocabulary
from wordwave.training.loop import Training
from wordwave.training.positions import check_reach

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
    task: SentenceTask
    test: Labelled | None
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


def prepare(config: ClassifyConfig, parts: Parts) -> PreparedClassifier:
    """Make vocabulary, model and word ids; only the training part is looked at for the first two.

    The model depends on the config and the data alone, not on the global random state.
    """
    labels = sorted(set(parts.train.labels))
    if len(labels) < 2:
        raise ValueError(
            f"{parts.train.name} must have two classes or more, got only {clipped(labels[0])}"
        )
    settings = config.text
    if config.training.amplitude_penalty and settings.freeze_vectors:
        raise ValueError("amplitude_penalty changes vectors that freeze_vectors keeps: choose one")
    tokeniser = _tokeniser(settings, parts.train.texts)
    tokens = [tokeniser(text) for text in parts.train.texts]
    vectors = None
    extra_words = tokeniser.words if isinstance(tokeniser, BpeTokeniser) else []
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
    encoder = TextEncoder(tokeniser, vocabulary, max_length=config.model.max_length)
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

    def labelled(part: Examples) -> Labelled:
        sentences, n_cut = encoder.encode(part.texts)
        if n_cut:
            notes.append(
                f"{n_cut:,} of {len(part.texts):,} texts of {part.name} were cut to "
                f"{config.model.max_length} words (--max-length)"
            )
        return Labelled(sentences, class_numbers(part.labels, labels, part.name))

    train = labelled(parts.train)
    check_reach(
        config.training.random_positions,
        int(train.sentences.lengths.max()),
        "words of the longest text",
        config.model.max_length if config.model.embedding == "pe" else None,
    )
    dev = None if parts.dev is None else labelled(parts.dev)
    test = None if parts.test is None else labelled(parts.test)
    task = SentenceTask(train, dev, word_dropout=config.training.word_dropout)
    classifier = TextClassifier(model, encoder, labels, config)
    return PreparedClassifier(classifier, task, test, notes, parts.fingerprint())


def class_numbers(given: Iterable[str], labels: Sequence[str], name: str) -> Tensor:
    """The number of each label's class. Shape: (N,)"""
    number = {label: i for i, label in enumerate(labels)}
    try:
        return torch.tensor([number[label] for label in given], dtype=torch.long)
    except KeyError as problem:
        raise ValueError(
            f"{name} has the label {clipped(problem.args[0])}, which training does not have; "
            f"known: {', '.join(map(clipped, labels[:20]))}"
        ) from None


def check_same_run(config: ClassifyConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    vectors_set_the_width = ("model", "dim") if config.text.vectors is not None else None
    check_same(folder, TextClassifier.task, config, but=vectors_set_the_width)


def evaluate(classifier: TextClassifier, data: Labelled) -> Scores:
    """How good a classifier is on examples."""
    said = classes_of(classifier.model, data.sentences)
    return score(data.targets, said, classifier.labels)


def _tokeniser(settings: TextSettings, texts: list[str]) -> Tokeniser:
    if settings.tokeniser == "bpe":
        return train_bpe(texts, settings.bpe_size)
    return build_tokeniser(settings.tokeniser)


def find_vectors(name: str) -> Path:
    """A file of vectors: a path, or a name under vectors/ in the data home."""
    if Path(name).exists():
        return Path(name)
    folder = data_home() / "vectors"
    ended = [] if Path(name).is_absolute() else [sorted(folder.glob(name + e)) for e in ENDINGS]
    for candidate in (folder / name, *chain(*ended)):
        if candidate.is_file():
            return candidate
    raise ValueError(
        f"vectors must be a file or a name in '{folder}', got {name!r}: put such a file there, or "
        "name one of your own (--vectors FILE, or vectors: in a recipe)"
    )


def _settled(config: ClassifyConfig, vectors: Vectors | None) -> ClassifyConfig:
    """The config with what follows from the data: vectors set the width."""
    if vectors is None:
        return config
    return replace(config, model=replace(config.model, dim=vectors.dim))
