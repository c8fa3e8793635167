"""Sentences and their translations, as the training loop wants them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.models.evaluating import evaluating
from wordwave.models.words import END, PADDING, START, UNKNOWN
from wordwave.tasks.translate_config import TranslationTraining
from wordwave.tensor_files import check_like
from wordwave.text.batches import by_length, token_batches
from wordwave.text.sentences import Sentences
from wordwave.training.task import Positions

Weights = dict[str, Tensor]

BATCH_WORDS = 2048
"""Words scored at once."""


@dataclass(frozen=True)
class SentencePairs:
    """Source and target ids, one for one, without start and end."""

    sources: Sentences
    targets: Sentences

    @property
    def lengths(self) -> Tensor:
        """Words of the longer side, the end of the target counted. Shape: (N,)"""
        return torch.maximum(self.sources.lengths, self.targets.lengths + 1)

    def batch(self, rows: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """What is read, what has been written, and what is to be written next.

        Shape: rows (B,) -> (B, S), (B, T + 1), (B, T + 1)
        """
        source, target = self.sources.padded(rows), self.targets.padded(rows)
        before = F.pad(target, (1, 0), value=START)
        after = F.pad(target, (0, 1), value=PADDING)
        after[torch.arange(len(rows)), self.targets.lengths[rows]] = END
        # Nothing is read after the last word, so the words before are as many as those to write.
        before = before.masked_fill(after == PADDING, PADDING)
        return source.to(device), before.to(device), after.to(device)


@dataclass
class PairTask:
    """Say the next word of a translation.

    Args:
        train: what is learnt from.
        dev: what selects the best weights.
        settings: label smoothing, word dropout, and how many looks' weights are remembered.
        bleu: BLEU on a part of dev, or `None`.
    """

    train: SentencePairs
    dev: SentencePairs
    settings: TranslationTraining
    bleu: Callable[[], float] | None = None
    recent: deque[Weights] = field(init=False)
    """The weights at the last looks, the latest one last."""

    def __post_init__(self) -> None:
        self.recent = deque(maxlen=self.settings.average)

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return token_batches(self.train.lengths, size, generator=generator)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        source, before, after = self.train.batch(rows, device)
        places = positions(source != PADDING), positions(before != PADDING)
        total = model(
            self._dropped(source),
            self._dropped(before),
            *places,
            wanted=after,
            label_smoothing=self.settings.label_smoothing,
        )
        n = int((after != PADDING).sum())
        return total, n, n + int((source != PADDING).sum())

    def _dropped(self, ids: Tensor) -> Tensor:
        """With some words taken for unknown ones. Shape: (B, L) -> (B, L)"""
        share = self.settings.word_dropout
        if not share:
            return ids
        dropped = (torch.rand(ids.shape, device=ids.device) < share) & (ids > END)
        return ids.masked_fill(dropped, UNKNOWN)

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.settings.average:
            weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            self.recent.append(weights)
        return self.figures(model)

    def figures(self, model: nn.Module) -> dict[str, float]:
        """How good a model is on dev, what selects first."""
        scores = {"likelihood": likelihood(model, self.dev)}
        if not math.isfinite(scores["likelihood"]):
            raise ValueError(
                f"the likelihood of dev is {scores['likelihood']}: lower learning_rate, "
                f"got {self.settings.learning_rate}"
            )
        if self.bleu is not None:
            scores["bleu"] = self.bleu()
        select = self.settings.select
        return {select: scores.pop(select), **scores}

    def state(self) -> Weights:
        return {f"{i}.{k}": v for i, weights in enumerate(self.recent) for k, v in weights.items()}

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        weights = model.state_dict()
        n = min(-(-len(state) // len(weights)), self.settings.average)
        check_like(state, {f"{i}.{k}": v for i in range(n) for k, v in weights.items()})

    def load_state(self, state: Weights) -> None:
        by_look: dict[int, Weights] = {}
        for name, value in state.items():
            look, _, key = name.partition(".")
            by_look.setdefault(int(look), {})[key] = value
        self.recent = deque((by_look[i] for i in sorted(by_look)), maxlen=self.settings.average)

    def averaged(self) -> Weights:
        """The mean of the weights at the last looks; empty if none are remembered."""
        if not self.recent:
            return {}
        return {k: torch.stack([w[k] for w in self.recent]).mean(0) for k in self.recent[0]}


def likelihood(model: nn.Module, pairs: SentencePairs) -> float:
    """The mean log-probability of a piece of the true translations."""
    total, n = 0.0, 0
    with evaluating(model) as device:
        for rows in by_length(pairs.lengths, BATCH_WORDS):
            source, before, after = pairs.batch(rows, device)
            total += float(model(source, before, wanted=after))
            n += int((after != PADDING).sum())
    return -total / n
