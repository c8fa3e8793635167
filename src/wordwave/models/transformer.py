"""`transformer`: encoder layers over either field (App. B, Eq. 12-14)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from wordwave.layers import Dropout, FeedForward, Field, LayerNorm, MultiHeadAttention, n_parts
from wordwave.models.config import ModelConfig, position_in_attention
from wordwave.models.pooling import pool_mean, pool_sum


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
