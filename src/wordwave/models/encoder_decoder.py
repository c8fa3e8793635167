"""Words in and words out of a translation model, through one table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.layers import Dropout, FeedForward, KVCache, LayerNorm, Linear, MultiHeadAttention
from wordwave.layers.loss import linear_cross_entropy
from wordwave.models.classifier import embedding_from
from wordwave.models.config import TranslationModelConfig, position_in_attention

S = TypeVar("S")
"""What a model keeps of the sources and of the words written so far."""
PADDING, UNKNOWN, START, END = range(4)
"""The first ids of a vocabulary of translation."""
N_SPECIALS = 4


class EncoderDecoder(nn.Module, ABC, Generic[S]):
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
        return self.loss(states, wanted, label_smoothing)

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

    def loss(self, states: Tensor, wanted: Tensor, label_smoothing: float) -> Tensor:
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


class Shortcut(nn.Module):
    """A layer around which its input is passed on, with a norm before (`pre`) or after (`post`)."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        self.norm = LayerNorm(config.dim, field=config.field)
        self.dropout = Dropout(config.dropout, field=config.field)
        self.before = config.norm == "pre"

    def forward(self, x: Tensor, layer: Callable[[Tensor], Tensor]) -> Tensor:
        """Shape: x (B, L, W) -> (B, L, W)"""
        y = x + self.dropout(layer(self.inner(x)))
        return y if self.before else self.norm(y)

    def inner(self, x: Tensor) -> Tensor:
        """What the layer gets. Shape: x (B, L, W) -> (B, L, W)"""
        return self.norm(x) if self.before else x


def attention(
    config: TranslationModelConfig, position: Literal["rope", "alibi"] | None = None
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.dim,
        config.n_heads,
        field=config.field,
        share=config.share,
        score=config.score,
        position=position,
    )


def ask_source(attention: MultiHeadAttention, x: Tensor, source: KVCache, mask: Tensor) -> Tensor:
    """Attend to sources, each of which may be that of several rows.

    A source has no order for those who ask, so all rows that ask the same one do so at once.

    Shape: x (n·B, L, W), source (B rows) of M words, mask (B, M) -> (n·B, L, W)
    """
    asked = x.reshape(mask.shape[0], -1, x.shape[-1])
    return attention.answer(asked, source, mask=mask).view(x.shape)


def rows_of(memory: KVCache, rows: Tensor) -> KVCache:
    """Some rows of a memory whose rows all have the same positions."""
    keys, values = (t.index_select(0, rows) for t in (memory.keys, memory.values))
    return KVCache(keys, values, memory.positions)


class _Layer(nn.Module):
    """What reading and writing layers have in common: attention to themselves, feed-forward."""

    def __init__(self, config: TranslationModelConfig, n_shortcuts: int) -> None:
        super().__init__()
        self.attention = attention(config, position_in_attention(config.embedding))
        self.feed_forward = FeedForward(
            config.dim,
            config.feed_forward_dim,
            field=config.field,
            share=config.share,
            dropout=config.dropout,
        )
        self.shortcuts = nn.ModuleList(Shortcut(config) for _ in range(n_shortcuts))


class EncoderLayer(_Layer):
    """Reads: every word hears every other one."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__(config, 2)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, L, W)"""
        to_itself, onwards = self.shortcuts
        x = to_itself(x, lambda y: self.attention(y, mask=mask, positions=positions))
        return onwards(x, self.feed_forward)


class DecoderLayer(_Layer):
    """Writes: a word hears those before it, and all of the source."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__(config, 3)
        self.to_source = attention(config)  # a place in one language is none in the other

    def forward(
        self,
        x: Tensor,
        source: KVCache,
        mask: Tensor,
        past: KVCache | None,
        positions: Tensor | None,
    ) -> tuple[Tensor, KVCache]:
        """Write on from the past; the memory holds it and the new words.

        Several rows one after the other may be about the same source, as the beams of a search.

        Shape: x (n·B, L, W), source (B rows) of M words, mask (B, M) -> (n·B, L, W)
        """
        x, memory = self._hear_the_past(x, past, positions)
        _, to_source, onwards = self.shortcuts
        x = to_source(x, lambda y: ask_source(self.to_source, y, source, mask))
        return onwards(x, self.feed_forward), memory

    def heard(self, x: Tensor, source: KVCache, mask: Tensor) -> Tensor:
        """How much each word to write hears of each source word.

        Shape: x (B, L, W), source of M words, mask (B, M) -> (B, H, L, M)
        """
        x, _ = self._hear_the_past(x, None, None)
        return self.to_source.weights(self.shortcuts[1].inner(x), source, mask=mask)  # type: ignore[operator]

    def _hear_the_past(
        self, x: Tensor, past: KVCache | None, positions: Tensor | None
    ) -> tuple[Tensor, KVCache]:
        memories = []

        def answer(y: Tensor) -> Tensor:
            memories.append(self.attention.read(y, past, positions))
            causal = y.shape[1] > 1
            return self.attention.answer(y, memories[0], causal=causal, positions=positions)

        x = self.shortcuts[0](x, answer)
        return x, memories[0]


@dataclass(frozen=True)
class DecoderState:
    """What a decoder keeps of the sources and of the words written so far, for each layer.

    Several rows of words one after the other may be about the same source.
    """

    sources: tuple[KVCache, ...]
    mask: Tensor
    pasts: tuple[KVCache | None, ...]
    n_words: int = 0

    def pick(self, rows: Tensor, sources: Tensor | None = None) -> DecoderState:
        """Some rows of words, in another order, and some of the sources, or all."""
        picked = replace(self, pasts=tuple(p and rows_of(p, rows) for p in self.pasts))
        if sources is None:
            return picked
        kept = tuple(rows_of(memory, sources) for memory in self.sources)
        return replace(picked, sources=kept, mask=self.mask[sources])


class TransformerEncoderDecoder(EncoderDecoder[DecoderState]):
    """Logits of target words given source words; ids are padded with 0 at the end.

    Args:
        config: what it is made of.
        vocab_size: number of ids of both languages together, specials included.
    """

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # After layers that normalise what goes in, a last norm; the others end with one already.
        self.norms = nn.ModuleList(
            LayerNorm(config.dim, field=config.field) if config.norm == "pre" else nn.Identity()
            for _ in range(2)
        )

    def begin(self, source: Tensor, positions: Tensor | None = None) -> DecoderState:
        """Read the source. Shape: (B, S)"""
        mask = source != PADDING
        x = self.embed(source, positions)
        for layer in self.encoder:
            x = layer(x, mask, positions)
        x = self.norms[0](x)
        sources = tuple(layer.to_source.read(x) for layer in self._decoder())
        return DecoderState(sources, mask, (None,) * len(sources))

    def _write(
        self, target: Tensor, written: DecoderState, positions: Tensor | None
    ) -> tuple[Tensor, DecoderState]:
        n = written.n_words
        if positions is None:
            positions = torch.arange(n + 1, n + target.shape[1] + 1, device=target.device)
        x = self.embed(target, positions)
        pasts = []
        for layer, source, past in zip(
            self._decoder(), written.sources, written.pasts, strict=True
        ):
            x, memory = layer(x, source, written.mask, past, positions)
            pasts.append(memory)
        written = replace(written, pasts=tuple(pasts), n_words=n + target.shape[1])
        return self.norms[1](x), written

    @torch.no_grad()
    def attention_map(self, source: Tensor, target: Tensor) -> Tensor:
        """How much each target word hears of each source word, mean over heads.

        Shape: source (B, S), target (B, T) -> (B, decoder layers, T, S)
        """
        written = self.begin(source)
        heard: list[Tensor] = []
        x = self.embed(target)
        for layer, memory in zip(self._decoder(), written.sources, strict=True):
            heard.append(layer.heard(x, memory, written.mask).mean(1))
            x, _ = layer(x, memory, written.mask, None, None)
        return torch.stack(heard, dim=1)

    def _decoder(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
