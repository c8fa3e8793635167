"""Encoder-decoders for translation: a Transformer, or LSTMs with attention."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build
from wordwave.layers import (
    LSTM,
    Dropout,
    KVCache,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    side_by_side,
)
from wordwave.layers.loss import linear_cross_entropy
from wordwave.layers.transformer import cross_attend
from wordwave.models.config import TranslationModelConfig
from wordwave.models.utils import transformer_layer
from wordwave.text.vocabulary import PADDING_ID

BOS_ID, EOS_ID = 2, 3
"""Beginning and end of a sentence, the ids after PADDING_ID and UNKNOWN_ID."""
N_SPECIALS = 4


@dataclass(frozen=True)
class DecoderState:
    """What a decoder keeps of the sources and of the target so far.

    Several consecutive rows of the target may have the same source, as in a beam search.

    Shape: mask (B, S), hidden (layers, n·B, parts·D)
    """

    sources: tuple[KVCache, ...]
    """Keys and values of the sources, for each layer with cross-attention."""
    mask: Tensor
    caches: tuple[KVCache | None, ...] = ()
    """Keys and values of the target, for each Transformer layer."""
    hidden: tuple[Tensor, ...] = ()
    """h and c of the LSTM."""
    n_tokens: int = 0
    weights: list[Tensor] | None = None
    """Where cross-attention appends its weights, (B, H, T, S) for each layer, if a list."""

    def select(self, rows: Tensor, sources: Tensor | None = None) -> DecoderState:
        """Some rows of the target, in any order, and some of the sources, or all."""
        selected = replace(
            self,
            caches=tuple(cache and cache.select(rows) for cache in self.caches),
            hidden=tuple(h.index_select(1, rows) for h in self.hidden),
        )
        if sources is None:
            return selected
        kept = tuple(source.select(sources) for source in self.sources)
        return replace(selected, sources=kept, mask=self.mask[sources])


class EncoderDecoder(nn.Module, ABC):
    """Logits of V target tokens given source tokens; ids are padded with 0 at the end.

    Both languages share one embedding, which is tied to the output layer: a logit is the product of
    a hidden state and a token's vector (with a wave, its amplitudes, which hold at any position).
    """

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size
        # By default the squares of a row add up to 1: the table is the output layer too.
        self.embedding = build(
            config.embedding,
            vocab_size,
            config.dim,
            max_length=config.max_length + 1,  # BOS_ID counts
            padding_idx=PADDING_ID,
        )
        self.dropout = Dropout(config.dropout, field=config.field)
        self.by_magnitude = config.field == "complex" and config.readout == "magnitude"
        self.readout: Linear | None = None
        if config.field == "complex":
            width = config.dim if self.by_magnitude else 2 * config.dim
            self.readout = Linear(width, config.dim, field="real", bias=False)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_positions: Tensor | None = None,
        target_positions: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Logits; or, given labels, their summed cross-entropy, padding excluded.

        Shape: source (B, S), target (B, T) from BOS_ID on, labels (B, T) -> (B, T, V), or ()
        """
        hidden, _ = self.decode(target, self.encode(source, source_positions), target_positions)
        if labels is None:
            return self.logits(hidden)
        labels = labels.flatten()
        words = (labels != PADDING_ID).nonzero().squeeze(1)
        vectors = self._to_vectors(hidden.flatten(0, 1).index_select(0, words))
        return linear_cross_entropy(
            vectors, self.embedding.vectors, labels[words], label_smoothing=label_smoothing
        )

    def step(self, state: DecoderState, ids: Tensor) -> tuple[Tensor, DecoderState]:
        """Logits of the token after `ids`, which come next in the target. Shape: (B,) -> (B, V)"""
        hidden, state = self.decode(ids.unsqueeze(1), state)
        return self.logits(hidden[:, 0]), state

    @abstractmethod
    def encode(self, source: Tensor, positions: Tensor | None = None) -> DecoderState:
        """The decoder's state before the first target token. Shape: (B, S)"""

    def decode(
        self, target: Tensor, state: DecoderState, positions: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Hidden states of the next target tokens. Shape: target (B, T) -> (B, T, parts·D)"""
        n_tokens = state.n_tokens + target.shape[1]
        if positions is None:
            positions = torch.arange(state.n_tokens + 1, n_tokens + 1, device=target.device)
        hidden, state = self._decode(self.embed(target, positions), state, positions)
        return hidden, replace(state, n_tokens=n_tokens)

    @abstractmethod
    def _decode(
        self, x: Tensor, state: DecoderState, positions: Tensor
    ) -> tuple[Tensor, DecoderState]:
        """Shape: x (B, T, parts·D), positions (T,) or (B, T) -> (B, T, parts·D)"""

    @torch.no_grad()
    def attention_map(self, source: Tensor, target: Tensor) -> Tensor:
        """How much each target token attends to each source token, the mean over heads.

        Shape: source (B, S), target (B, T) -> (B, decoder layers with cross-attention, T, S)
        """
        weights: list[Tensor] = []
        self.decode(target, replace(self.encode(source), weights=weights))
        return torch.stack([layer.mean(1) for layer in weights], dim=1)

    def embed(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (B, L), positions broadcastable to it, or 1 … L -> (B, L, parts·D)"""
        x: Tensor = self.embedding(ids, positions)
        return self.dropout(x * math.sqrt(self.config.dim))

    def logits(self, hidden: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., V)"""
        return F.linear(self._to_vectors(hidden), self.embedding.vectors)

    def _to_vectors(self, hidden: Tensor) -> Tensor:
        """What is multiplied with the token vectors. Shape: (..., parts·D) -> (..., D)"""
        if self.readout is None:
            return hidden
        return self.readout(cx.magnitude(hidden) if self.by_magnitude else hidden)


class TransformerEncoderDecoder(EncoderDecoder):
    """Vaswani et al. (2017), over either field."""

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.encoder = nn.ModuleList(
            transformer_layer(config) for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            transformer_layer(config, cross_attention=True) for _ in range(config.decoder_layers)
        )
        # The output of pre-norm layers is not normalised yet, that of post-norm layers is.
        self.norms = nn.ModuleList(
            LayerNorm(config.dim, field=config.field) if config.norm_first else nn.Identity()
            for _ in range(2)
        )

    def encode(self, source: Tensor, positions: Tensor | None = None) -> DecoderState:
        mask = source != PADDING_ID
        x = self.embed(source, positions)
        for layer in self.encoder:
            x, _ = layer(x, mask=mask, positions=positions)
        x = self.norms[0](x)
        sources = tuple(layer.cross_attention.project_kv(x) for layer in self.decoder)  # type: ignore[union-attr, operator]
        return DecoderState(sources, mask, (None,) * len(sources))

    def _decode(
        self, x: Tensor, state: DecoderState, positions: Tensor
    ) -> tuple[Tensor, DecoderState]:
        caches = []
        for layer, source, past in zip(self.decoder, state.sources, state.caches, strict=True):
            x, cache = layer(
                x,
                causal=True,
                positions=positions,
                past=past,
                source=source,
                source_mask=state.mask,
                source_weights=state.weights,
            )
            caches.append(cache)
        return self.norms[1](x), replace(state, caches=tuple(caches))


class LSTMEncoderDecoder(EncoderDecoder):
    """LSTMs with global attention (Luong et al., 2015), over either field.

    The attention's output is not fed back into the LSTM, so that all target tokens are computed at
    once in training.
    """

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        dim, encoder_dim = config.dim, config.state_dim or config.dim
        lstm = partial(LSTM, dim, dropout=config.dropout, field=config.field, share=config.share)
        linear = partial(Linear, out_dim=dim, field=config.field, share=config.share)
        self.encoder = lstm(encoder_dim, n_layers=config.encoder_layers, bidirectional=True)
        self.decoder = lstm(dim, n_layers=config.decoder_layers)
        self.cross_attention = MultiHeadAttention(
            dim, config.n_heads, field=config.field, share=config.share, score=config.score
        )
        self.narrow = linear(2 * encoder_dim)
        self.bridges = nn.ModuleList(linear(2 * encoder_dim) for _ in range(config.decoder_layers))
        self.combine = linear(2 * dim)

    def encode(self, source: Tensor, positions: Tensor | None = None) -> DecoderState:
        mask = source != PADDING_ID
        encoded, (last, _) = self.encoder(self.embed(source, positions), mask.sum(1))
        both_directions = side_by_side(self.config.field, last[-2:])
        h = torch.stack([torch.tanh(bridge(both_directions)) for bridge in self.bridges])
        cache = self.cross_attention.project_kv(self.dropout(self.narrow(encoded)))
        return DecoderState((cache,), mask, hidden=(h, torch.zeros_like(h)))

    def _decode(
        self, x: Tensor, state: DecoderState, positions: Tensor
    ) -> tuple[Tensor, DecoderState]:
        x, hidden = self.decoder(x, None, state.hidden)
        y = cross_attend(self.cross_attention, x, state.sources[0], state.mask, state.weights)
        y = torch.tanh(self.combine(side_by_side(self.config.field, [x, y])))
        return self.dropout(y), replace(state, hidden=hidden)


def translation_model(config: TranslationModelConfig, vocab_size: int) -> EncoderDecoder:
    """The model of a config."""
    if config.architecture == "aed":
        return LSTMEncoderDecoder(config, vocab_size)
    return TransformerEncoderDecoder(config, vocab_size)
