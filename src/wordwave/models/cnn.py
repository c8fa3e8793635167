"""`cnn`: narrow convolutions of several widths, the strongest answer of each filter (App. B)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.layers import Conv1d, Field, n_parts, side_by_side, word_mask
from wordwave.models.config import ModelConfig
from wordwave.models.pooling import pool_max


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
