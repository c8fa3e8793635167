"""Words in and words out of a translation model, through one table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.layers import Dropout, Linear
from wordwave.layers.cross_entropy import linear_cross_entropy
from wordwave.models.classifier import embedding_from
from wordwave.models.translation_config import TranslationModelConfig

S = TypeVar("S")
"""What a model keeps of the sources and of the words written so far."""
PADDING, UNKNOWN, START, END = range(4)
"""The first ids of a vocabulary of translation."""
N_SPECIALS = 4


class WordsInAndOut(nn.Module, ABC, Generic[S]):
    """A model whose embedding is also its output: a state is compared with every word.

    With a wave, what it is compared with is the amplitude, a word's meaning whatever its place.
    """

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size
        self.embedding = embedding_from(config.embedding_config, vocab_size)
        self.dropout = Dropout(config.dropout, field=config.field)
        self.by_magnitude = config.field == "complex" and config.readout == "magnitude"
        self.to_words: Linear | None = None
        if config.field == "complex":
            width = config.dim if self.by_magnitude else 2 * config.dim
            self.to_words = Linear(width, config.dim, field="real", bias=False)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_positions: Tensor | None = None,
        target_positions: Tensor | None = None,
        *,
        wanted: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Logits, or, given the words that should follow, how surprising they are altogether.

        Shape: source (B, S), target (B, T) beginning with START, wanted (B, T) -> (B, T, V) or ()
        """
        written = self.begin(source, source_positions)
        states, _ = self._write(target, written, target_positions)
        if wanted is None:
            return self.words(states)
        return self.surprise(states, wanted, label_smoothing)

    def step(self, written: S, words: Tensor) -> tuple[Tensor, S]:
        """Logits of the word after these, which follow what is written. Shape: (B,) -> (B, V)"""
        states, written = self._write(words.unsqueeze(1), written, None)
        return self.words(states[:, 0]), written

    @abstractmethod
    def begin(self, source: Tensor, positions: Tensor | None = None) -> S:
        """Read the source. Shape: (B, S)"""

    @abstractmethod
    def _write(self, target: Tensor, written: S, positions: Tensor | None) -> tuple[Tensor, S]:
        """States of words that follow what is written. Shape: target (B, T) -> (B, T, parts·D)"""

    def embed(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (B, L), positions broadcastable to it, or 1 … L -> (B, L, parts·D)"""
        x: Tensor = self.embedding(ids, positions)
        return self.dropout(x * math.sqrt(self.config.dim))

    def words(self, states: Tensor) -> Tensor:
        """The logit of every word. Shape: (..., parts·D) -> (..., V)"""
        return F.linear(self._meant(states), self.embedding.meaning)

    def surprise(self, states: Tensor, wanted: Tensor, label_smoothing: float) -> Tensor:
        """The summed cross-entropy of the wanted words; padding does not count.

        Shape: states (B, T, parts·D), wanted (B, T) -> ()
        """
        flat = wanted.flatten()
        there = (flat != PADDING).nonzero().squeeze(1)
        meant = self._meant(states.flatten(0, 1).index_select(0, there))
        return linear_cross_entropy(
            meant, self.embedding.meaning, flat[there], label_smoothing=label_smoothing
        )

    def _meant(self, states: Tensor) -> Tensor:
        """What is compared with words. Shape: (..., parts·D) -> (..., D)"""
        if self.to_words is None:
            return states
        meant: Tensor = self.to_words(cx.magnitude(states) if self.by_magnitude else states)
        return meant


def log_probabilities(logits: Tensor) -> Tensor:
    """In float32 at least. Shape: (..., V) -> (..., V)"""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(wide).log_softmax(-1)
