"""Text classification: the training task, its scores, and the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from reprlib import repr as clipped
from statistics import fmean
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.data.examples import Examples
from wordwave.data.registry import names
from wordwave.data.splits import (
    FEW,
    Splits,
    cut_dev,
    held_out_share,
    load_from_hub,
    load_splits,
    split_labels,
)
from wordwave.data.tables import read_examples
from wordwave.dropout import draw_seed, kept
from wordwave.errors import WordwaveError, suggestion
from wordwave.memory import BYTES_PER_LOGIT, check_memory, check_training_fits, confusion_bytes
from wordwave.models.classifier import Classifier
from wordwave.models.fused import FusedBag
from wordwave.progress import track
from wordwave.tasks.classifier import TextClassifier, batched_logits, classes_of, logits_of
from wordwave.tasks.config import (
    ClassificationConfig,
    DataConfig,
    Select,
)
from wordwave.tasks.run import Evaluation
from wordwave.tasks.sentence_job import SentenceJob, check_penalty, vocabulary_of
from wordwave.tasks.stacking import (
    USUAL_WEIGHTS,
    Counts,
    fit,
    folds_of,
    most_texts,
    n_subwords_of,
    stacking_weights,
)
from wordwave.text.batching import Batch, Sentences, bucketed
from wordwave.text.encoder import TextEncoder
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID, Vocabulary
from wordwave.training.devices import OneProcess
from wordwave.training.loop import FusedStep, Positions, Training, in_order
from wordwave.training.positions import check_random_positions

NO_TARGET = -100
"""The target of words without a label, as in torch's cross-entropy."""
FROM_HUB = "hf:"
SAMPLE, MOST_TOKENS = 200_000, 10_000_000
"""Texts, and words of them, whose bigrams are counted."""
MAX_BIGRAMS = 1 << 17
FEWEST = 20
"""Of fewer training texts than these, n-grams have their usual weight."""
Weights = tuple[Tensor | None, Tensor | None]
"""How much each training and each validation example counts, `None` for 1. Shape: (N,)"""
CHECKED = 1000
"""Training texts whose predictions are checked to be of more than one class."""


@dataclass(frozen=True)
class LabelledSentences:
    """Encoded sentences and their labels.

    Shape: targets (N,); of several labels (N, n_classes), true where one applies; of words (N, L),
    -100 for those without a label; weights (N,), or (N, n_classes) in the loss of several labels
    """

    sentences: Sentences
    targets: Tensor
    weights: Tensor | None = None
    """How much each counts, in the loss and in scores of the validation set; `None` for 1."""


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
    select: Select = "accuracy"
    """The first of the scores."""

    @property
    def of_words(self) -> bool:
        """Whether each word has a class."""
        return self.train.targets.dim() > 1 and self.train.targets.dtype != torch.bool

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return bucketed(self.train.sentences.lengths, size, generator=generator, group=self.group)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        if not self.of_words:
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
        targets, weights = self.train.targets[rows].to(device), self.weights(rows)
        weights = None if weights is None else weights.to(device)
        return _cross_entropy(model(batch).float(), targets, weights), len(rows), batch.n_words

    def weights(self, rows: Tensor) -> Tensor | None:
        """How much some training texts count. Shape: (B,) -> (B,) or (B, n_classes)"""
        return None if self.train.weights is None else self.train.weights[rows]

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
        if self.of_words or not FusedBag.supports(model, optimizers):
            return None
        assert isinstance(model, Classifier)
        return _FusedStep(self, FusedBag(model, optimizers))

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        totals = _totals(model, self.dev)
        if self.of_words:
            return {"accuracy": totals.accuracy}
        scores = {"accuracy": totals.accuracy, "likelihood": -totals.loss / totals.n}
        if self.select == "macro-f1":
            scores["macro_f1"] = totals.macro_f1
        first = "accuracy" if self.keeps_last else self.select.replace("-", "_")
        return {first: scores[first], **scores}

    @property
    def keeps_last(self) -> bool:
        return self.select == "last"


@dataclass(frozen=True)
class _FusedStep:
    task: ClassificationTask
    bag: FusedBag

    def loss(self, rows: Tensor, positions: Positions) -> tuple[float, int, int]:
        batch = self.task._batch(rows, positions)
        targets, weights = self.task.train.targets[rows], self.task.weights(rows)
        return self.bag.loss(batch, targets, weights), len(rows), batch.n_words

    def update(self, factor: float, max_norm: float) -> None:
        self.bag.update(factor, max_norm)


def accuracy(model: nn.Module, data: LabelledSentences) -> float:
    """Fraction of correct predictions; a sequence is correct if all of its words are."""
    return _totals(model, data).accuracy


@dataclass
class _Totals:
    """Weighted counts of predictions, and their summed loss."""

    n: float = 0.0
    correct: float = 0.0
    loss: float = 0.0
    of_classes: Tensor | float = 0.0
    """Correct predictions, predictions and examples of each class. Shape: (3, n_classes)"""

    @property
    def accuracy(self) -> float:
        return self.correct / self.n

    @property
    def macro_f1(self) -> float:
        assert isinstance(self.of_classes, Tensor)
        correct, predicted, true = self.of_classes
        return float((2 * correct / (predicted + true)).nan_to_num(0.0).mean())


def _totals(model: nn.Module, data: LabelledSentences) -> _Totals:
    totals = _Totals()
    for rows, logits in batched_logits(model, data.sentences):
        targets, predicted = _truncated(data.targets[rows], logits), predictions(logits, data)
        weights = (torch.ones(len(rows)) if data.weights is None else data.weights[rows]).double()
        hits = ((predicted == targets) | (targets == NO_TARGET)).view(len(rows), -1).all(1)
        totals.n += float(weights.sum())
        totals.correct += float((hits * weights).sum())
        if targets.dtype == torch.bool:
            totals.loss += float(_cross_entropy(logits.double(), targets, weights.unsqueeze(1)))
            counted = [
                (part * weights.unsqueeze(1)).sum(0)
                for part in (targets & predicted, predicted, targets)
            ]
            totals.of_classes = totals.of_classes + torch.stack(counted)
        elif targets.dim() == 1:
            totals.loss += float(_cross_entropy(logits.double(), targets, weights))
            count = partial(torch.bincount, minlength=logits.shape[-1])
            found = [(targets[hits], weights[hits]), (predicted, weights), (targets, weights)]
            totals.of_classes = totals.of_classes + torch.stack([count(*each) for each in found])
    return totals


def predictions(logits: Tensor, data: LabelledSentences) -> Tensor:
    """The class, or all labels, that are predicted. Shape: (…, n_classes) -> like the targets"""
    return logits >= 0 if data.targets.dtype == torch.bool else logits.argmax(-1)


def _cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Summed over all predictions.

    Shape: (…, n_classes), (…), weights (B,) of targets (B,), (B, …) of labels (B, n_classes)
    """
    if targets.dtype == torch.bool:
        if weights is not None and weights.dim() == 1:
            weights = weights.unsqueeze(1)
        return F.binary_cross_entropy_with_logits(
            logits, targets.to(logits.dtype), weight=weights, reduction="sum"
        )
    if weights is not None:
        return (F.cross_entropy(logits, targets, reduction="none") * weights).sum()
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=NO_TARGET, reduction="sum"
    )


def _truncated(targets: Tensor, like: Tensor) -> Tensor:
    """To the length of a batch. Shape: targets (B,) or (B, L), like (B, L, …)"""
    is_of_words = targets.dim() > 1 and targets.dtype != torch.bool
    return targets[:, : like.shape[1]] if is_of_words else targets


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


@dataclass(frozen=True)
class MultiLabelScores:
    """The scores of predicted labels, of which each example may have several."""

    n: int
    accuracy: float
    """Subset accuracy: of examples whose labels are all predicted, and no other."""
    interval: tuple[float, float]
    """95% confidence interval of the subset accuracy (Wilson)."""
    micro_f1: float
    macro_f1: float
    labels: list[str]
    classes: list[ClassScores]
    """One for each label."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"interval": list(self.interval)}


def score_label_sets(targets: Tensor, predicted: Tensor, labels: list[str]) -> MultiLabelScores:
    """Compare predicted with true labels. Shape: targets, predicted (N, n_classes), bool"""
    from scipy.stats import binomtest

    if len(targets) == 0:
        raise WordwaveError("there must be at least one example to score, got none")
    n_correct = int((targets == predicted).all(1).sum())
    interval = binomtest(n_correct, len(targets)).proportion_ci(method="wilson")
    counts = torch.stack([(targets & predicted).sum(0), predicted.sum(0), targets.sum(0)]).double()

    def ratios(correct: Tensor, predicted: Tensor, true: Tensor) -> list[Tensor]:
        divided = (correct / predicted, correct / true, 2 * correct / (predicted + true))
        return [part.nan_to_num(0.0) for part in divided]

    classes = [
        ClassScores(int(n), *map(float, three))
        for n, *three in zip(counts[2], *ratios(*counts), strict=True)
    ]
    return MultiLabelScores(
        n=len(targets),
        accuracy=n_correct / len(targets),
        interval=(float(interval.low), float(interval.high)),
        micro_f1=float(ratios(*counts.sum(1))[2]),
        macro_f1=fmean(one.f1 for one in classes),
        labels=list(labels),
        classes=classes,
    )


def score_labels(labels: Sequence[str], predicted: Sequence[str]) -> ClassificationScores:
    """Compare predicted with true classes, by their names."""
    names = sorted({*labels, *predicted})
    numbers = {name: i for i, name in enumerate(names)}
    targets, found = (torch.tensor([numbers[x] for x in some]) for some in (labels, predicted))
    return score(targets, found, names)


def evaluate(
    classifier: TextClassifier, data: LabelledSentences
) -> ClassificationScores | MultiLabelScores:
    """The scores of a classifier on encoded examples."""
    if classifier.multi_label:
        predicted = logits_of(classifier.model, data.sentences) >= 0
        return score_label_sets(data.targets, predicted, classifier.labels)
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
    dev_accuracy: float | None
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
    class_factors: Tensor | None = None
    """How much each class counts in the loss; `None` for 1. Shape: (n_classes,), of several labels
    (2, n_classes)"""
    new_network: Callable[[], Classifier]
    """Another network with the same initial weights."""

    @property
    def may_differ(self) -> tuple[str, ...]:
        model = self.config.model
        counted = [n for n in ("n_bigrams", "n_subwords") if getattr(model, n) is None]
        return (*super().may_differ, *counted)

    def load_data(self) -> Splits:
        return load_examples(self.config.data, patience=self.config.training.patience)

    def prepare(
        self,
        data: Splits,
        weights: Weights = (None, None),
        class_weight: Mapping[str, float] | None = None,
    ) -> ClassificationJob:
        """As `Job.prepare`.

        Args:
            weights: how much training and validation examples count.
            class_weight: how much those of each label count in the loss, by default as the config
                says.
        """
        config = self.config
        labels = sorted(
            {label for cell in set(data.train.labels) for label in self._labels_in(cell)}
        )
        if len(labels) < 2:
            raise WordwaveError(
                f"{data.train.name} must have two classes or more, got only "
                f"{clipped(labels[0]) if labels else 'examples without a label'}"
            )
        check_penalty(config)
        tokenizer, vocabulary, vectors = vocabulary_of(data.train.texts, config.text)
        if vectors is not None:
            config = replace(config, model=replace(config.model, dim=vectors.dim))
        self.notes = [
            f"{len(vocabulary):,} words, {len(labels)} classes",
            *self.held_out_note(data),
        ]
        hashed, length = config.text.unknown_words == "hashed", config.model.max_length
        encoder = TextEncoder(
            tokenizer,
            vocabulary,
            max_length=length,
            hashed=hashed,
            keep_unknown=config.model.has_ngrams,
        )
        bigrams, n_bigrams = None, 0
        if config.model.encoder == "bag" and config.model.n_bigrams != 0:
            sample = encoder.encode(data.train.texts[:SAMPLE]).sentences
            bigrams = repeated_bigrams(sample, len(vocabulary))
            # Two rows for each, so that most have one of their own.
            n_bigrams = config.model.n_bigrams or min(max(2 * len(bigrams), 2), MAX_BIGRAMS)
            config = replace(config, model=replace(config.model, n_bigrams=n_bigrams))
        config = self._with_ngrams(config, vocabulary, n_bigrams, len(labels))
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

        def network() -> Classifier:
            model = self.network(make, config, vocabulary, vectors)
            if model.bigrams is not None and bigrams is not None:
                model.bigrams.assign(bigrams)
            return model

        self.new_network = network
        self.text_model = TextClassifier(network(), encoder, labels, config)
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
        if class_weight is not None:
            factors = torch.tensor([class_weight.get(label, 1.0) for label in labels])
            self.class_factors = factors / in_loss(train.targets, weights[0], factors).mean()
        elif config.training.class_weight == "balanced":
            self.class_factors = balanced(train.targets, weights[0], len(labels))
        if weights[0] is not None or self.class_factors is not None:
            train = replace(train, weights=in_loss(train.targets, weights[0], self.class_factors))
        dev = None if dev is None else replace(dev, weights=weights[1])
        settings = config.training
        self.task = ClassificationTask(
            train, dev, word_dropout=settings.word_dropout, select=config.select
        )
        self.fingerprint = data.fingerprint()
        return self

    def _with_ngrams(
        self, config: ClassificationConfig, vocabulary: Vocabulary, n_bigrams: int, n_classes: int
    ) -> ClassificationConfig:
        """The settings with a number of subwords, or without n-grams if they would be too many."""
        model = config.model
        if not model.has_ngrams:
            return config
        room = n_subwords_of(vocabulary, n_bigrams, n_classes)
        if room is None:
            self.notes.append("no linear model of n-grams: there are too many words and classes")
            return replace(config, model=replace(model, ngrams=False))
        n_subwords = room if model.n_subwords is None else model.n_subwords
        return replace(config, model=replace(model, n_subwords=n_subwords))

    def complete(self) -> None:
        """Fit the n-grams, and the weights of head and n-grams on texts that are held out."""
        model, dev = self.text_model.model, self.task.dev
        if model.ngrams is None:
            return
        train, n_classes = self._sampled(model.n_classes), model.n_classes
        targets = train.targets.numpy()
        weighted = in_loss(train.targets, train.weights, None).numpy()
        size = len(model.ngrams.subwords) - 1
        vocabulary = self.text_model.encoder.vocabulary
        counts = Counts(train.sentences, vocabulary, model.bigrams, size)
        fitted = fit(counts, targets, n_classes, weights=weighted)
        weights = USUAL_WEIGHTS
        if dev is not None:
            of_head = logits_of(model, dev.sentences).double().numpy()
            model.scale.zero_()
            fitted.assign(model.ngrams, counts.keys, 1.0)
            of_ngrams = logits_of(model, dev.sentences).double().numpy()
            of_dev = in_loss(dev.targets, dev.weights, self.class_factors).numpy()
            weights = stacking_weights(of_head, of_ngrams, dev.targets.numpy(), of_dev)
        elif len(targets) >= FEWEST:
            held = [self._held_out(train, counts, *fold) for fold in self._folds(targets)]
            rows, of_head, of_ngrams = (np.concatenate(part) for part in zip(*held, strict=True))
            weights = stacking_weights(of_head, of_ngrams, targets[rows], weighted[rows])
        model.scale.fill_(weights[0])
        fitted.assign(model.ngrams, counts.keys, weights[1])

    def _folds(self, targets: Any) -> list[tuple[Any, Any]]:
        """All of a cross-validation of few texts, one of ten of many."""
        return folds_of(targets, 5) if len(targets) < FEW else folds_of(targets, 10)[:1]

    def _sampled(self, n_classes: int) -> LabelledSentences:
        """The training texts, or a random sample of as many as n-grams are fitted to."""
        train, most = self.task.train, most_texts(n_classes)
        if len(train.sentences) <= most:
            return train
        chosen = np.random.default_rng(0).choice(len(train.sentences), most, replace=False)
        rows = torch.from_numpy(np.sort(chosen))
        weights = None if train.weights is None else train.weights[rows]
        return LabelledSentences(train.sentences.subset(rows), train.targets[rows], weights)

    def _held_out(
        self, train: LabelledSentences, counts: Counts, rows: Any, held: Any
    ) -> tuple[Any, Any, Any]:
        """Logits of texts by a head and n-grams that are trained on other texts only.

        Shape: (n,), (n, C), (n, C)
        """
        weights = None if train.weights is None else train.weights[rows]
        part = LabelledSentences(train.sentences.subset(rows), train.targets[rows], weights)
        model = self.new_network()
        task = ClassificationTask(part, word_dropout=self.task.word_dropout)
        for _ in Training(model, task, self.text_model.config.training, OneProcess()).run():
            pass
        of_head = logits_of(model, train.sentences.subset(held)).double().numpy()
        weighted = in_loss(train.targets, train.weights, None).numpy()
        targets = train.targets.numpy()
        fitted = fit(counts, targets, model.n_classes, rows=rows, weights=weighted)
        return held, of_head, fitted.logits(counts, held)

    def _encoded(self, part: Examples) -> LabelledSentences:
        encoder = self.text_model.encoder
        n = len(part.texts)
        sentences, n_truncated = encoder.encode(track(part.texts, "encoding texts", n))
        if n_truncated:
            self.notes.append(
                f"{n_truncated:,} of {len(part.texts):,} texts of {part.name} were truncated to "
                f"{encoder.max_length} words (--max-length)"
            )
        if self.config.data.multi_label is None:
            return LabelledSentences(sentences, self.class_numbers(part.labels, part.name))
        cells = sorted(set(part.labels))
        found = [self._labels_in(cell) for cell in cells]
        columns = self.class_numbers([label for labels in found for label in labels], part.name)
        rows = torch.arange(len(cells)).repeat_interleave(torch.tensor(list(map(len, found))))
        of_cells = torch.zeros(len(cells), len(self.text_model.labels), dtype=torch.bool)
        of_cells[rows, columns] = True
        number = {cell: i for i, cell in enumerate(cells)}
        numbers = np.fromiter(map(number.__getitem__, part.labels), np.int64, n)
        return LabelledSentences(sentences, of_cells[torch.from_numpy(numbers)])

    def _labels_in(self, cell: str) -> list[str]:
        """The labels of an example: one, or those that are separated by `multi_label`."""
        separator = self.config.data.multi_label
        return [cell] if separator is None else split_labels(cell, separator)

    def best_scores(self, training: Training) -> dict[str, float]:
        """The scores of the best weights on the validation set, if there is one."""
        if self.task.dev is None:
            return {}
        first = "accuracy" if self.task.keeps_last else self.task.select.replace("-", "_")
        names = dict.fromkeys((first, "accuracy", "likelihood"))
        if self.text_model.model.ngrams is not None:
            return self.task.score(self.text_model.model)  # n-grams came after the training
        best = training.progress
        return dict(zip(names, best.best_scores, strict=False)) or {"accuracy": best.best_score}

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        test = None if self.test is None else evaluate(self.text_model, self.test).plain()
        best = {f"dev_{name}": value for name, value in self.best_scores(training).items()}
        return {"test": test, "dev_accuracy": None, **best, "only_class": self.only_class()}

    def only_class(self) -> str | None:
        """The class that all training texts are predicted as, if there is one; of many texts, all
        of a sample."""
        train = self.task.train.sentences
        rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:CHECKED]
        sample = train.subset(rows)
        if self.text_model.multi_label:
            found = (logits_of(self.text_model.model, sample) >= 0).unique(dim=0)
            same = [self.text_model.labels[i] for i in found[0].nonzero().flatten().tolist()]
            return (", ".join(same) or "without a label") if len(found) == 1 else None
        found = classes_of(self.text_model.model, sample).unique()
        return self.text_model.labels[int(found)] if len(found) == 1 else None

    @property
    def run_name(self) -> str:
        data, model = Path(self.config.data.data).name.split(".")[0], self.config.model
        return f"{data}-{model.encoder}-{model.embedding.kind}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        lines = ["no validation set: the weights of the last epoch"]
        if result["dev_accuracy"] is not None:
            validation = f"{result['dev_accuracy']:.4f} (epoch {result['best_epoch']})"
            which = "accuracy" if self.config.data.multi_label is None else "subset accuracy"
            lines = [f"validation {which} {validation}"]
        if "dev_macro_f1" in result:
            lines[0] += f", macro-F1 {result['dev_macro_f1']:.4f}"
        if only := result.get("only_class"):
            lines.append(
                f"warning: all training texts are predicted as {clipped(only)}; train for more "
                "--epochs, on more texts, or with another --learning-rate"
            )
        if test := result["test"]:
            lines.append(f"test {_line(test)}, {test['n']:,} examples")
        return lines

    def read_data(self, **files: Any) -> Examples:
        """Args: data, text, label, table: a file and its columns, by default as in training."""
        options = ("text", "label", "table")
        given = {name: files.get(name) or getattr(self.config.data, name) for name in options}
        several = self.config.data.multi_label is not None
        return read_examples(files["data"], **given, several_labels=several, may_be_empty=True)

    def test_part(self, data: Splits, folder: Path) -> Examples:
        if data.test is not None:
            return data.test
        if data.dev is None:
            raise WordwaveError(
                f"'{folder}' has no test set and no validation set: name examples with --data"
            )
        return replace(data.dev, name=f"{data.dev.name} (which chose the weights: optimistic)")

    def evaluate(self, data: Examples, **options: Any) -> Evaluation:
        scores = evaluate(self.text_model, self._encoded(data)).plain()
        return Evaluation(
            scores, [f"{data.name}: {scores['n']:,} examples", _line(scores), *self.notes]
        )


def _line(scores: dict[str, Any]) -> str:
    low, high = scores["interval"]
    if "micro_f1" in scores:
        return (
            f"subset accuracy {scores['accuracy']:.4f}, 95% interval {low:.4f} to {high:.4f}, "
            f"micro-F1 {scores['micro_f1']:.4f}, macro-F1 {scores['macro_f1']:.4f}"
        )
    return (
        f"accuracy {scores['accuracy']:.4f}, 95% interval {low:.4f} to {high:.4f}, "
        f"macro-F1 {scores['macro_f1']:.4f}"
    )


def balanced(targets: Tensor, weights: Tensor | None, n_classes: int) -> Tensor:
    """Factors by which all classes count the same, and examples 1 on average.

    Shape: targets (N,), how much each example counts otherwise (N,) -> (n_classes,); of several
    labels (N, n_classes) -> (2, n_classes), for examples without and with a label
    """
    weights = torch.ones(len(targets)) if weights is None else weights
    if targets.dtype == torch.bool:
        true = (targets * weights.double().unsqueeze(1)).sum(0)
        both = torch.stack([weights.sum() - true, true])
        return (weights.sum() / 2 / both.clamp(min=1e-6)).float()
    totals = torch.bincount(targets, weights.double(), minlength=n_classes)
    return (totals.sum() / n_classes / totals).float()


def in_loss(targets: Tensor, weights: Tensor | None, factors: Tensor | None) -> Tensor:
    """How much each example counts in the loss.

    Shape: targets, weights (N,), factors (n_classes,) -> (N,); of several labels, targets
    (N, n_classes) with factors (2, n_classes) -> (N, n_classes)
    """
    found = torch.ones(len(targets)) if weights is None else weights
    if targets.dtype == torch.bool and factors is not None:
        return found.unsqueeze(1) * torch.where(targets, factors[1], factors[0])
    return found if factors is None else found * factors[targets]


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


def load_examples(data: DataConfig, *, patience: int = 0) -> Splits:
    """Training, validation and test examples; `test` is `None` if none are named, `dev` if none
    are held out.

    Args:
        patience: of early stopping, which needs validation examples.
    """
    parts = _named_examples(data)
    if parts.dev is not None:
        return parts
    share = held_out_share(len(parts.train), data.dev_share, patience=patience)
    if not share:
        return parts
    held_out = cut_dev(parts.train, share=share, multi_label=data.multi_label)
    return Splits(*held_out, parts.test)


def _named_examples(data: DataConfig) -> Splits:
    """The examples that a config names; `dev` is `None` if it is to be cut."""
    if not data.data:
        raise WordwaveError(
            "there must be data to train on: --data FILE.csv, or --data NAME (wordwave data list)"
        )
    if data.data.startswith(FROM_HUB):
        if data.dev or data.test or data.fold or data.multi_label is not None:
            options = "--dev, --test, --fold and --multi-label"
            raise WordwaveError(f"{options} do not go with {data.data!r}")
        return load_from_hub(data.data.removeprefix(FROM_HUB), text=data.text, label=data.label)
    if data.data in names("classification"):
        if data.dev or data.test or data.multi_label is not None:
            options = "--dev, --test and --multi-label"
            raise WordwaveError(f"{options} go with files of your own, not with {data.data!r}")
        return load_splits(data.data, fold=data.fold)
    if data.fold:
        raise WordwaveError(f"--fold goes with data sets by name, not with {data.data!r}")
    hint = suggestion(data.data, names("classification"))
    if hint and not Path(data.data).exists():
        raise WordwaveError(f"there is no data set or file {data.data!r}{hint}")
    train, dev, test = (
        read_examples(
            file,
            text=data.text,
            label=data.label,
            several_labels=data.multi_label is not None,
            table=data.table,
        )
        if file
        else None
        for file in (data.data, data.dev, data.test)
    )
    assert train is not None
    return Splits(train, dev, test)
