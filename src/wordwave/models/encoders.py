"""Encoders: from the words of a sentence to one vector, padding excluded."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.layers import (
    LSTM,
    Conv1d,
    FeedForward,
    Field,
    LayerNorm,
    MultiHeadAttention,
    TransformerLayer,
    n_parts,
    side_by_side,
    word_mask,
)
from wordwave.models.config import ModelConfig, TransformerXLConfig, TranslationModelConfig


def pool_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return (x * mask.unsqueeze(-1)).sum(dim=1)


def pool_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L), true at least once in each row -> (B, W)"""
    return x.masked_fill(~mask.unsqueeze(-1), -math.inf).amax(dim=1)


class Bag(nn.Module):
    """A sum or mean of embeddings: word order counts only as far as the embedding encodes it."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = n_parts(field) * config.dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is pooled, a vector a word. Shape: x (B, L, W), mask (B, L) -> (B, L, out)"""
        return x

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return self.pool(self.hidden_states(x, mask, positions), mask)


class Recurrent(Bag):
    """A bidirectional LSTM and mean pooling."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.lstm = LSTM(
            config.dim,
            config.state_dim or config.dim,
            n_layers=config.n_layers,
            bidirectional=True,
            dropout=config.dropout,
            field=field,
            share=config.share,
        )
        self.pool = pool_mean
        self.out_dim = n_parts(field) * self.lstm.out_dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.lstm(x, mask.sum(1))[0]


class Transformer(Bag):
    """Pre-norm Transformer layers, a final norm, and a sum or mean."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.layers = nn.ModuleList(transformer_layer(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.dim, field=field)

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x, _ = layer(x, mask=mask, positions=positions)
        return self.norm(x)


class CNN(nn.Module):
    """Convolutions of several widths, ReLU and max pooling over the sentence."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.field: Field = field
        self.widths = config.widths
        self.convolutions = nn.ModuleList(
            Conv1d(config.dim, config.n_filters, width, field=field, share=config.share)
            for width in config.widths
        )
        self.out_dim = n_parts(field) * config.n_filters * len(config.widths)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, parts·filters·widths)"""
        lengths = mask.sum(1)
        x = F.pad(x, (0, 0, 0, max(max(self.widths) - x.shape[1], 0)))
        pooled = []
        for convolution, width in zip(self.convolutions, self.widths, strict=True):
            y = F.relu(convolution(x))
            # A sentence shorter than the filter still has one window, padded with zeros.
            windows = (lengths - width + 1).clamp(min=1)
            pooled.append(pool_max(y, word_mask(windows, y.shape[1])))
        return side_by_side(self.field, pooled)


def transformer_layer(
    config: ModelConfig | TranslationModelConfig | TransformerXLConfig,
    attention: MultiHeadAttention | None = None,
    *,
    cross_attention: bool = False,
    norm_first: bool = True,
    hidden: Field | None = None,
) -> TransformerLayer:
    """The Transformer layer of a config, by default with self-attention as its embedding needs."""
    shared: dict[str, Any] = {"field": config.embedding.field, "share": config.share}
    attend = partial(MultiHeadAttention, config.dim, config.n_heads, score=config.score, **shared)
    return TransformerLayer(
        attention or attend(position=config.embedding.in_attention),
        FeedForward(
            config.dim, config.feed_forward_dim, hidden=hidden, dropout=config.dropout, **shared
        ),
        # Without a position encoding: positions in two languages do not correspond.
        cross_attention=attend() if cross_attention else None,
        norm_first=norm_first,
        dropout=config.dropout,
    )
