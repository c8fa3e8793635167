"""The training task of text classification: batches, loss and validation scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.dropout import draw_seed, kept
from wordwave.models.classifier import Classifier
from wordwave.models.fused import FusedBag
from wordwave.tasks.classifier import TextClassifier, batched_logits, classes_of, logits_of
from wordwave.tasks.config import Select
from wordwave.tasks.scores import (
    ClassificationScores,
    MultiLabelScores,
    score,
    score_label_sets,
)
from wordwave.text.batching import Batch, Sentences, bucketed
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID
from wordwave.training.loop import FusedSteps, Positions, in_order

NO_TARGET = -100
"""The target of words without a label, as in torch's cross-entropy."""


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

    def fused(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> FusedSteps | None:
        if self.of_words or not FusedBag.supports(model, optimizers):
            return None
        assert isinstance(model, Classifier)
        return _FusedSteps(self, FusedBag(model, optimizers))

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        totals = _totals(model, self.dev)
        if self.of_words:
            return {"accuracy": totals.accuracy}
        scores = {"accuracy": totals.accuracy, "likelihood": -totals.loss / totals.n}
        if self.select == "macro-f1":
            scores["macro_f1"] = totals.macro_f1
        return {self.first_score: scores[self.first_score], **scores}

    @property
    def first_score(self) -> str:
        """The validation score that comes first, which selects the best epoch."""
        return "accuracy" if self.keeps_last else self.select.replace("-", "_")

    @property
    def keeps_last(self) -> bool:
        return self.select == "last"


TOKENS_AT_ONCE, MOST_STEPS = 8192, 64
"""Tokens of the steps that kernels take in one call, about, and the largest number of steps."""


class _FusedSteps:
    """Several steps of a `FusedBag` at once: to call kernels takes as long as a short step."""

    def __init__(self, task: ClassificationTask, bag: FusedBag) -> None:
        self.task, self.bag = task, bag
        self._mean_length = float(task.train.sentences.lengths.float().mean())

    def run(
        self,
        batches: Sequence[Tensor],
        begin: Callable[[int], None],
        positions: Positions,
        max_norm: float,
    ) -> list[tuple[float, int, int]]:
        task = self.task
        if positions is not in_order or task.word_dropout:
            batches = batches[:1]
            begin(0)  # which random positions and unknown words depend on
            batch = task._batch(batches[0], positions)
            draws = self.bag.draws([batch.size], lambda _: None)
        else:
            n_at_once = TOKENS_AT_ONCE / max(len(batches[0]) * self._mean_length, 1.0)
            batches = batches[: min(max(round(n_at_once), 1), MOST_STEPS)]
            draws = self.bag.draws(list(map(len, batches)), begin)
            batch = task._batch(torch.cat(list(batches)), positions)
        rows, sizes = torch.cat(list(batches)), list(map(len, batches))
        losses = self.bag.steps(
            batch, task.train.targets[rows], task.weights(rows), draws, sizes, max_norm
        )
        ends = batch.starts[[0, *accumulate(sizes)]]
        if not batch.one_each:
            ends = F.pad(batch.begins_word.cumsum(0), (1, 0))[ends]
        return list(zip(losses, sizes, ends.diff().tolist(), strict=False))


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


def evaluate(
    classifier: TextClassifier, data: LabelledSentences
) -> ClassificationScores | MultiLabelScores:
    """The scores of a classifier on encoded examples."""
    if classifier.multi_label:
        predicted = logits_of(classifier.model, data.sentences) >= 0
        return score_label_sets(data.targets, predicted, classifier.labels)
    return score(data.targets, classes_of(classifier.model, data.sentences), classifier.labels)


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


def balanced(targets: Tensor, weights: Tensor | None, n_classes: int) -> Tensor:
    """Factors by which all classes count the same, and examples 1 on average.

    Shape: targets (N,), how much each example counts otherwise (N,) -> (n_classes,); of several
    labels (N, n_classes) -> (2, n_classes), for examples without and with a label; 1 where there
    are no such examples, as a validation set may have some
    """
    weights = torch.ones(len(targets)) if weights is None else weights
    if targets.dtype == torch.bool:
        true = (targets * weights.double().unsqueeze(1)).sum(0)
        both = torch.stack([weights.sum() - true, true])
        return torch.where(both > 0, weights.sum() / 2 / both, 1.0).float()
    totals = torch.bincount(targets, weights.double(), minlength=n_classes)
    return torch.where(totals > 0, totals.sum() / n_classes / totals, 1.0).float()


def in_loss(targets: Tensor, weights: Tensor | None, factors: Tensor | None) -> Tensor:
    """How much each example counts in the loss.

    Shape: targets, weights (N,), factors (n_classes,) -> (N,); of several labels, targets
    (N, n_classes) with factors (2, n_classes) -> (N, n_classes)
    """
    found = torch.ones(len(targets)) if weights is None else weights
    if targets.dtype == torch.bool and factors is not None:
        return found.unsqueeze(1) * torch.where(targets, factors[1], factors[0])
    return found if factors is None else found * factors[targets]
