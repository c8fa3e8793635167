"""`lstm`: the sentence read from both ends, the mean of what was understood (App. B)."""

from __future__ import annotations

from torch import Tensor, nn

from wordwave.layers import LSTM, Field, n_parts
from wordwave.models.config import ModelConfig
from wordwave.models.pooling import pool_mean


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
