"""From the words of a sentence to one vector, padding left out."""

from __future__ import annotations

import math
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.layers import (
    LSTM,
    Conv1d,
    Dropout,
    FeedForward,
    Field,
    LayerNorm,
    MultiHeadAttention,
    n_parts,
    side_by_side,
    word_mask,
)
from wordwave.models.config import ModelConfig, position_in_attention


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
    """A sum or mean of embeddings: it knows only the order that the embedding itself carries."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = width

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
        return self.pool(x, mask)


class CNN(nn.Module):
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
        answers = []
        for convolution in self._convolutions():
            y = F.relu(convolution(x))
            # A sentence shorter than the filter still gets one window, filled up with zeros.
            windows = (lengths - convolution.kernel_size + 1).clamp(min=1)
            answers.append(pool_max(y, word_mask(windows, y.shape[1])))
        return side_by_side(self.field, answers)

    def _convolutions(self) -> list[Conv1d]:
        return [c for c in self.convolutions if isinstance(c, Conv1d)]


class Recurrent(nn.Module):
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

    def states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is understood at each word. Shape: x (B, L, W), mask (B, L) -> (B, L, out)"""
        return self.lstm(x, mask.sum(1))[0]

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return pool_mean(self.states(x, mask), mask)


class EncoderLayer(nn.Module):
    """Attention, then feed-forward, each around a shortcut and after a norm of its own."""

    def __init__(
        self,
        config: ModelConfig,
        dim: int,
        field: Field,
        position: Literal["rope", "alibi"] | None,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            dim,
            config.n_heads,
            field=field,
            share=config.share,
            score=config.score,
            position=position,
        )
        self.feed_forward = FeedForward(
            dim, config.feed_forward_dim, field=field, share=config.share, dropout=config.dropout
        )
        self.norms = nn.ModuleList(LayerNorm(dim, field=field) for _ in range(2))
        self.dropout = Dropout(config.dropout, field=field)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, L, W)"""
        before_attention, before_feed_forward = self.norms
        y = self.attention(before_attention(x), mask=mask, positions=positions)
        x = x + self.dropout(y)
        return x + self.dropout(self.feed_forward(before_feed_forward(x)))


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig, dim: int, field: Field) -> None:
        super().__init__()
        position = position_in_attention(config.embedding)
        self.layers = nn.ModuleList(
            EncoderLayer(config, dim, field, position) for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(dim, field=field)
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = n_parts(field) * dim

    def states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is understood at each word. Shape: x (B, L, W), mask (B, L) -> (B, L, W)"""
        for layer in self.layers:
            x = layer(x, mask, positions)
        return self.norm(x)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
        return self.pool(self.states(x, mask, positions), mask)
