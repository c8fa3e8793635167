"""`fasttext`: the words of a sentence, added up (App. B)."""

from __future__ import annotations

from torch import Tensor, nn

from wordwave.models.config import ModelConfig
from wordwave.models.pooling import pool_mean, pool_sum


class Bag(nn.Module):
    """A sum or mean of embeddings: it knows only the order that the embedding itself carries."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = width

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
        return self.pool(x, mask)
