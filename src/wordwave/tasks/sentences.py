"""Labelled sentences, as the training loop wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.probes import NO_TARGET
from wordwave.models.evaluating import evaluating
from wordwave.text.batches import bucketed, by_length
from wordwave.text.sentences import Sentences
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID
from wordwave.training.task import Positions

BATCH_WORDS = 4096
"""Words scored at once."""
LOGITS_AT_ONCE = 1 << 24
"""Numbers that answer them: with many classes, fewer words are scored at once."""


@dataclass(frozen=True)
class Labelled:
    """Sentences and their labels.

    Shape: targets (N,), or (N, L) with -100 where nothing is asked
    """

    sentences: Sentences
    targets: Tensor


@dataclass(frozen=True)
class SentenceTask:
    """Say the class of a sentence, or one at each of its words.

    Args:
        train: what is learnt from.
        dev: what selects the best epoch, or `None`.
        group: rows that stay together in a batch, 2 for minimal pairs.
        word_dropout: share of training words that are read as unknown.
    """

    train: Labelled
    dev: Labelled | None = None
    group: int = 1
    word_dropout: float = 0.0

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return bucketed(self.train.sentences.lengths, size, generator=generator, group=self.group)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        ids = self.train.sentences.padded(rows).to(device)
        targets = _cut(self.train.targets[rows], ids).to(device)
        mask = ids != PADDING_ID
        places = positions(mask)
        if self.word_dropout:
            dropped = mask & (torch.rand(ids.shape, device=device) < self.word_dropout)
            ids = ids.masked_fill(dropped, UNKNOWN_ID)
        logits = model(ids, places)
        total = F.cross_entropy(
            logits.float().flatten(0, -2),
            targets.flatten(),
            ignore_index=NO_TARGET,
            reduction="sum",
        )
        return total, int((targets != NO_TARGET).sum()), int(mask.sum())

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        if self.dev.targets.dim() > 1:
            return {"accuracy": accuracy(model, self.dev)}
        right, loss = 0, 0.0
        for rows, logits in read(model, self.dev.sentences):
            targets = self.dev.targets[rows]
            right += int((logits.argmax(-1) == targets).sum())
            loss += float(F.cross_entropy(logits.double(), targets, reduction="sum"))
        n = len(self.dev.sentences)
        return {"accuracy": right / n, "likelihood": -loss / n}


def read(model: nn.Module, sentences: Sentences) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of sentences, the short ones first, and the logits of each: some at a time.

    Shape: (B,), (B, n_classes)
    """
    at_once = max(LOGITS_AT_ONCE // getattr(model, "n_classes", 1), 1)
    with evaluating(model) as device:
        for batch in by_length(sentences.lengths, BATCH_WORDS):
            for rows in batch.split(at_once):
                yield rows, model(sentences.padded(rows).to(device)).float().cpu()


def logits_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """What a classifier says of each sentence, in their order. Shape: (N, n_classes)"""
    rows, logits = zip(*read(model, sentences), strict=True)
    return torch.cat(logits)[torch.cat(rows).argsort()]


def classes_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """The likeliest class of each sentence, without the logits of all at once. Shape: (N,)"""
    said = torch.empty(len(sentences), dtype=torch.long)
    for rows, logits in read(model, sentences):
        said[rows] = finite(logits).argmax(-1)
    return said


def finite(logits: Tensor) -> Tensor:
    """The same logits; refuses those that are no numbers, which have no probabilities."""
    if not logits.isfinite().all():
        raise ValueError("the model gives no finite scores: its weights are too large")
    return logits


def accuracy(model: nn.Module, data: Labelled) -> float:
    """Share of right answers; a sequence is right where all of its answers are."""
    if data.targets.dim() == 1:
        return float((classes_of(model, data.sentences) == data.targets).double().mean())
    return _sequences_right(model, data)


def _sequences_right(model: nn.Module, data: Labelled) -> float:
    right = 0
    with evaluating(model) as device:
        for rows in by_length(data.sentences.lengths, BATCH_WORDS):
            ids = data.sentences.padded(rows).to(device)
            wanted = _cut(data.targets[rows], ids).to(device)
            hits = (model(ids).argmax(-1) == wanted) | (wanted == NO_TARGET)
            right += int(hits.all(1).sum())
    return right / len(data.sentences)


def _cut(targets: Tensor, ids: Tensor) -> Tensor:
    return targets if targets.dim() == 1 else targets[:, : ids.shape[1]]
