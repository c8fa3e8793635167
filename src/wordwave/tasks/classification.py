"""Text classification: the training task, its scores, and the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from reprlib import repr as clipped
from statistics import fmean
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.data.registry import names
from wordwave.data.splits import Splits, cut_dev, load_from_hub, load_splits
from wordwave.data.tables import Examples, read_examples
from wordwave.dropout import draw_seed, kept
from wordwave.errors import WordwaveError, suggestion
from wordwave.memory import BYTES_PER_LOGIT, check_memory, check_training_fits, confusion_bytes
from wordwave.models.classifier import Classifier
from wordwave.models.fused import FusedBag
from wordwave.tasks.classifier import TextClassifier, batched_logits, classes_of
from wordwave.tasks.config import (
    ClassificationConfig,
    DataConfig,
)
from wordwave.tasks.run import Evaluation
from wordwave.tasks.sentence_job import SentenceJob, check_penalty, vocabulary_of
from wordwave.text.batching import Batch, Sentences, bucketed
from wordwave.text.encoder import TextEncoder
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID
from wordwave.training.loop import FusedStep, Positions, Training, in_order
from wordwave.training.positions import check_random_positions

NO_TARGET = -100
"""The target of words without a label, as in torch's cross-entropy."""
FROM_HUB = "hf:"
SAMPLE, MOST_TOKENS = 200_000, 10_000_000
"""Texts, and words of them, whose bigrams are counted."""
MAX_BIGRAMS = 1 << 17
CHECKED = 1000
"""Training texts whose predictions are checked to be of more than one class."""


@dataclass(frozen=True)
class LabelledSentences:
    """Encoded sentences and their labels.

    Shape: targets (N,), or (N, L) with -100 for words without a label
    """

    sentences: Sentences
    targets: Tensor


@dataclass(frozen=True)
class ClassificationTask:
    """Predict the class of a sentence, or one for each of its words."""

    train: LabelledSentences
    dev: LabelledSentences | None = None
    """The validation set."""
    group: int = 1
    """Consecutive rows that stay in one batch, 2 for minimal pairs."""
    word_dropout: float = 0.0
    """Fraction of training words that are replaced by the unknown word."""

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return bucketed(self.train.sentences.lengths, size, generator=generator, group=self.group)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        if self.train.targets.dim() == 1:
            return self._loss_of_texts(model, rows, positions, device)
        ids = self.train.sentences.padded(rows).to(device)
        targets = _truncated(self.train.targets[rows], ids).to(device)
        mask = ids != PADDING_ID
        drawn = positions(mask)
        if self.word_dropout:
            dropped = mask & (torch.rand(ids.shape, device=device) < self.word_dropout)
            ids = ids.masked_fill(dropped, UNKNOWN_ID)
        total = _cross_entropy(model(ids, drawn).float(), targets)
        return total, int((targets != NO_TARGET).sum()), int(mask.sum())

    def _loss_of_texts(
        self, model: nn.Module, rows: Tensor, positions: Positions, device: torch.device
    ) -> tuple[Tensor, int, int]:
        batch = self._batch(rows, positions, device)
        targets = self.train.targets[rows].to(device)
        return _cross_entropy(model(batch).float(), targets), len(rows), batch.n_words

    def _batch(
        self, rows: Tensor, positions: Positions, device: torch.device | None = None
    ) -> Batch:
        """Training texts, with random positions and unknown words."""
        batch = self.train.sentences.batch(rows)
        batch = batch if device is None else batch.to(device)
        if positions is not in_order and (drawn := positions(batch.word_mask())) is not None:
            batch = batch.moved(drawn)
        if self.word_dropout:
            dropped = kept(self.word_dropout, draw_seed(), len(batch.ids)) == 0
            batch = batch.without(dropped.to(batch.ids.device))
        return batch

    def fused(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> FusedStep | None:
        if self.train.targets.dim() > 1 or not FusedBag.supports(model, optimizers):
            return None
        assert isinstance(model, Classifier)
        return _FusedStep(self, FusedBag(model, optimizers))

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        n, (n_correct, loss) = len(self.dev.sentences), _correct_and_loss(model, self.dev)
        if self.dev.targets.dim() > 1:
            return {"accuracy": n_correct / n}
        return {"accuracy": n_correct / n, "likelihood": -loss / n}


@dataclass(frozen=True)
class _FusedStep:
    task: ClassificationTask
    bag: FusedBag

    def loss(self, rows: Tensor, positions: Positions) -> tuple[float, int, int]:
        batch = self.task._batch(rows, positions)
        return self.bag.loss(batch, self.task.train.targets[rows]), len(rows), batch.n_words

    def update(self, factor: float, max_norm: float) -> None:
        self.bag.update(factor, max_norm)


def accuracy(model: nn.Module, data: LabelledSentences) -> float:
    """Fraction of correct predictions; a sequence is correct if all of its words are."""
    return _correct_and_loss(model, data)[0] / len(data.sentences)


def _correct_and_loss(model: nn.Module, data: LabelledSentences) -> tuple[int, float]:
    """The number of correct predictions, and the summed loss."""
    n_correct, loss = 0, 0.0
    for rows, logits in batched_logits(model, data.sentences):
        targets = _truncated(data.targets[rows], logits)
        hits = (logits.argmax(-1) == targets) | (targets == NO_TARGET)
        n_correct += int(hits.view(len(rows), -1).all(1).sum())
        loss += float(_cross_entropy(logits.double(), targets))
    return n_correct, loss


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed over all predictions. Shape: (…, n_classes), (…)"""
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=NO_TARGET, reduction="sum"
    )


def _truncated(targets: Tensor, like: Tensor) -> Tensor:
    """To the length of a batch. Shape: targets (B,) or (B, L), like (B, L, …)"""
    return targets if targets.dim() == 1 else targets[:, : like.shape[1]]


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class."""

    n: int
    """Number of examples."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClassificationScores:
    """The scores of predictions."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    """95% confidence interval of the accuracy (Wilson)."""
    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""
    confusion: list[list[int]]
    """Rows: true classes; columns: predicted classes."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


def score(targets: Tensor, predicted: Tensor, labels: list[str]) -> ClassificationScores:
    """Compare predicted with true classes. Shape: targets (N,), predicted (N,)"""
    from scipy.stats import binomtest
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    if len(targets) == 0:
        raise WordwaveError("there must be at least one example to score, got none")
    check_memory(
        confusion_bytes(len(labels)),
        f"scoring {len(labels):,} classes",
        "the confusion matrix has a cell for each pair of classes; merge classes",
    )
    n_correct = int((targets == predicted).sum())
    interval = binomtest(n_correct, len(targets)).proportion_ci(method="wilson")
    numbers = list(range(len(labels)))
    *figures, counts = precision_recall_fscore_support(
        targets, predicted, labels=numbers, zero_division=0
    )
    classes = [
        ClassScores(int(n), *map(float, three)) for n, *three in zip(counts, *figures, strict=True)
    ]
    return ClassificationScores(
        n=len(targets),
        accuracy=n_correct / len(targets),
        interval=(float(interval.low), float(interval.high)),
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
        confusion=confusion_matrix(targets, predicted, labels=numbers).tolist(),
    )


def evaluate(classifier: TextClassifier, data: LabelledSentences) -> ClassificationScores:
    """The scores of a classifier on encoded examples."""
    return score(data.targets, classes_of(classifier.model, data.sentences), classifier.labels)


class _TestScores(TypedDict):
    n: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float


class _Warnings(TypedDict, total=False):
    only_class: str | None


class _Result(_Warnings):
    test: _TestScores | None
    dev_accuracy: float
    best_epoch: int
    parameters: int
    words_per_second: float | None


class ClassificationJob(SentenceJob[ClassificationConfig, Splits]):
    """Train or evaluate a text classifier."""

    examples = "examples"
    model_class, result_schema, counts_epochs = TextClassifier, _Result, True
    network_class: type[Classifier] = Classifier
    next_command = 'echo "a text" | wordwave predict {run}'
    config: ClassificationConfig
    text_model: TextClassifier
    task: ClassificationTask
    test: LabelledSentences | None

    @property
    def may_differ(self) -> tuple[str, ...]:
        counted = ("n_bigrams",) if self.config.model.n_bigrams is None else ()
        return super().may_differ + counted

    def load_data(self) -> Splits:
        return load_examples(self.config.data)

    def prepare(self, data: Splits) -> ClassificationJob:
        config = self.config
        labels = sorted(set(data.train.labels))
        if len(labels) < 2:
            raise WordwaveError(
                f"{data.train.name} must have two classes or more, got only {clipped(labels[0])}"
            )
        check_penalty(config)
        tokenizer, vocabulary, vectors = vocabulary_of(data.train.texts, config.text)
        if vectors is not None:
            config = replace(config, model=replace(config.model, dim=vectors.dim))
        self.notes = [f"{len(vocabulary):,} words, {len(labels)} classes"]
        hashed, length = config.text.unknown_words == "hashed", config.model.max_length
        encoder = TextEncoder(tokenizer, vocabulary, max_length=length, hashed=hashed)
        bigrams, n_bigrams = None, 0
        if config.model.encoder == "bag" and config.model.n_bigrams != 0:
            sample = encoder.encode(data.train.texts[:SAMPLE]).sentences
            bigrams = repeated_bigrams(sample, len(vocabulary))
            # Two rows for each, so that most have one of their own.
            n_bigrams = config.model.n_bigrams or min(max(2 * len(bigrams), 2), MAX_BIGRAMS)
            config = replace(config, model=replace(config.model, n_bigrams=n_bigrams))
        make = partial(self.network_class, config.model, len(vocabulary), len(labels))
        check_training_fits(
            make,
            f"it has {len(vocabulary):,} words (--max-vocabulary, --min-count) of width "
            f"{config.model.dim:,} (--dim), a hidden layer of {config.model.hidden_dim:,} "
            f"(--hidden-dim), {n_bigrams:,} bigrams (--n-bigrams) and "
            f"{len(labels):,} classes; a test set needs a confusion matrix of all pairs of classes",
            row_sparse=config.training.row_sparse,
            besides=BYTES_PER_LOGIT * min(config.training.batch_size, len(data.train)) * len(labels)
            + (0 if data.test is None else confusion_bytes(len(labels))),
        )
        model = self.network(make, config, vocabulary, vectors)
        if model.bigrams is not None and bigrams is not None:
            model.bigrams.assign(bigrams)
        self.text_model = TextClassifier(model, encoder, labels, config)
        train, dev, self.test = (
            None if part is None else self._encoded(part)
            for part in (data.train, data.dev, data.test)
        )
        assert train is not None
        check_random_positions(
            config.training.random_positions,
            int(train.sentences.lengths.max()),
            "words of the longest text",
            config.model.max_length if config.model.embedding.kind == "pe" else None,
        )
        self.task = ClassificationTask(train, dev, word_dropout=config.training.word_dropout)
        self.fingerprint = data.fingerprint()
        return self

    def _encoded(self, part: Examples) -> LabelledSentences:
        encoder = self.text_model.encoder
        sentences, n_truncated = encoder.encode(part.texts)
        if n_truncated:
            self.notes.append(
                f"{n_truncated:,} of {len(part.texts):,} texts of {part.name} were truncated to "
                f"{encoder.max_length} words (--max-length)"
            )
        return LabelledSentences(sentences, self.class_numbers(part.labels, part.name))

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        test = None if self.test is None else evaluate(self.text_model, self.test).plain()
        best = training.progress.best_score
        return {"test": test, "dev_accuracy": best, "only_class": self.only_class()}

    def only_class(self) -> str | None:
        """The class that all training texts are predicted as, if there is one; of many texts, all
        of a sample."""
        train = self.task.train.sentences
        rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:CHECKED]
        sample = Sentences.from_padded(train.padded(rows))
        found = classes_of(self.text_model.model, sample).unique()
        return self.text_model.labels[int(found)] if len(found) == 1 else None

    @property
    def run_name(self) -> str:
        data, model = Path(self.config.data.data).name.split(".")[0], self.config.model
        return f"{data}-{model.encoder}-{model.embedding.kind}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        validation = f"{result['dev_accuracy']:.4f} (epoch {result['best_epoch']})"
        lines = [f"validation accuracy {validation}"]
        if only := result.get("only_class"):
            lines.append(
                f"warning: all training texts are predicted as {clipped(only)}; train for more "
                "--epochs, on more texts, or with another --learning-rate"
            )
        if test := result["test"]:
            lines.append(f"test {_line(test)}, {test['n']:,} examples")
        return lines

    def read_data(self, **files: Any) -> Examples:
        """Args: data, text, label: a file and its columns, by default as in training."""
        columns = {c: files.get(c) or getattr(self.config.data, c) for c in ("text", "label")}
        return read_examples(files["data"], **columns)

    def test_part(self, data: Splits, folder: Path) -> Examples:
        if data.test is not None:
            return data.test
        assert data.dev is not None  # `load_data` cuts one
        return replace(data.dev, name=f"{data.dev.name} (which chose the weights: optimistic)")

    def evaluate(self, data: Examples, **options: Any) -> Evaluation:
        scores = evaluate(self.text_model, self._encoded(data)).plain()
        return Evaluation(
            scores, [f"{data.name}: {scores['n']:,} examples", _line(scores), *self.notes]
        )


def _line(scores: dict[str, Any]) -> str:
    low, high = scores["interval"]
    return (
        f"accuracy {scores['accuracy']:.4f}, 95% interval {low:.4f} to {high:.4f}, "
        f"macro-F1 {scores['macro_f1']:.4f}"
    )


def repeated_bigrams(sentences: Sentences, n_words: int) -> Tensor:
    """The pairs of neighbours that occur twice or more, the most frequent first.

    Shape: (N,), first·n_words + second
    """
    ids = sentences.ids[:MOST_TOKENS].long()
    pairs = ids[:-1] * n_words + ids[1:]
    inside = torch.ones(len(pairs), dtype=torch.bool)
    ends = sentences.starts[1:] - 1
    inside[ends[ends < len(pairs)]] = False
    found, counts = pairs[inside].unique(return_counts=True)
    found, counts = found[counts > 1], counts[counts > 1]
    return found[counts.argsort(descending=True, stable=True)]


def load_examples(data: DataConfig) -> Splits:
    """Training, validation and test examples; `test` is `None` if none are named."""
    if not data.data:
        raise WordwaveError(
            "there must be data to train on: --data FILE.csv, or --data NAME (wordwave data list)"
        )
    if data.data.startswith(FROM_HUB):
        if data.dev or data.test or data.fold:
            raise WordwaveError(f"--dev, --test and --fold do not go with {data.data!r}")
        return load_from_hub(data.data.removeprefix(FROM_HUB), text=data.text, label=data.label)
    if data.data in names("classification"):
        if data.dev or data.test:
            raise WordwaveError(
                f"--dev and --test go with files of your own, not with {data.data!r}"
            )
        return load_splits(data.data, fold=data.fold)
    if data.fold:
        raise WordwaveError(f"--fold goes with data sets by name, not with {data.data!r}")
    hint = suggestion(data.data, names("classification"))
    if hint and not Path(data.data).exists():
        raise WordwaveError(f"there is no data set or file {data.data!r}{hint}")
    train, dev, test = (
        read_examples(file, text=data.text, label=data.label) if file else None
        for file in (data.data, data.dev, data.test)
    )
    assert train is not None
    return Splits(*cut_dev(train), test) if dev is None else Splits(train, dev, test)
