"""Encoders: from the words of a sentence to one vector, padding excluded."""

from __future__ import annotations

import math
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
from wordwave.models.config import ModelConfig


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

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = width

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
        return self.pool(x, mask)


class CNN(nn.Module):
    """Convolutions of several widths, ReLU and max pooling over the sentence."""

    def __init__(self, config: ModelConfig, dim: int, field: Field) -> None:
        super().__init__()
        self.field: Field = field
        self.convolutions = nn.ModuleList(
            Conv1d(dim, config.n_filters, width, field=field, share=config.share)
            for width in config.widths
        )
        self.out_dim = n_parts(field) * config.n_filters * len(config.widths)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, parts·filters·widths)"""
        lengths = mask.sum(1)
        short = max(c.kernel_size for c in self._convolutions()) - x.shape[1]
        x = F.pad(x, (0, 0, 0, max(short, 0)))
        pooled = []
        for convolution in self._convolutions():
            y = F.relu(convolution(x))
            # A sentence shorter than the filter still has one window, padded with zeros.
            windows = (lengths - convolution.kernel_size + 1).clamp(min=1)
            pooled.append(pool_max(y, word_mask(windows, y.shape[1])))
        return side_by_side(self.field, pooled)

    def _convolutions(self) -> list[Conv1d]:
        return [c for c in self.convolutions if isinstance(c, Conv1d)]


class Recurrent(nn.Module):
    """A bidirectional LSTM and mean pooling."""

    def __init__(self, config: ModelConfig, dim: int, field: Field) -> None:
        super().__init__()
        self.lstm = LSTM(
            dim,
            config.state_dim or dim,
            n_layers=config.n_layers,
            bidirectional=True,
            dropout=config.dropout,
            field=field,
            share=config.share,
        )
        self.out_dim = n_parts(field) * self.lstm.out_dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Hidden states of the words. Shape: x (B, L, W), mask (B, L) -> (B, L, out)"""
        return self.lstm(x, mask.sum(1))[0]

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return pool_mean(self.hidden_states(x, mask), mask)


class Transformer(nn.Module):
    """Pre-norm Transformer layers, a final norm, and a sum or mean."""

    def __init__(self, config: ModelConfig, dim: int, field: Field) -> None:
        super().__init__()
        shared: dict[str, Any] = {"field": field, "share": config.share}
        self.layers = nn.ModuleList(
            TransformerLayer(
                MultiHeadAttention(
                    dim,
                    config.n_heads,
                    score=config.score,
                    position=config.embedding.in_attention,
                    **shared,
                ),
                FeedForward(dim, config.feed_forward_dim, dropout=config.dropout, **shared),
                dropout=config.dropout,
            )
            for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(dim, field=field)
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = n_parts(field) * dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Hidden states of the words. Shape: x (B, L, W), mask (B, L) -> (B, L, W)"""
        for layer in self.layers:
            x, _ = layer(x, mask=mask, positions=positions)
        return self.norm(x)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
        return self.pool(self.hidden_states(x, mask, positions), mask)
