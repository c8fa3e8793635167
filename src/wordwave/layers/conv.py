"""Convolution over positions (App. B)."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.errors import WordwaveError
from wordwave.layers.weight import (
    Bias,
    Device,
    Field,
    Sharing,
    Weight,
    check_at_least_one,
    check_input,
)


class Conv1d(nn.Module):
    """Convolution along L over a field; without padding the output has L − k + 1 positions.

    It is a sum of k linear layers, one for each word of a window.

    Args:
        in_dim, out_dim: widths, in complex numbers if the field is complex.
        kernel_size: width k of a window, in words.
        padding: zeros added at both ends.
        field, share, bias, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        kernel_size: int,
        *,
        padding: int = 0,
        field: Field = "complex",
        share: Sharing = "none",
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one(kernel_size=kernel_size)
        if padding < 0:
            raise WordwaveError(f"padding must be at least 0, got {padding}")
        self.in_dim, self.out_dim, self.kernel_size = in_dim, out_dim, kernel_size
        self.padding = padding
        self.field: Field = field
        made: dict[str, Any] = {"field": field, "share": share, "device": device, "dtype": dtype}
        self.weight = Weight(out_dim, in_dim, kernel_size, **made)
        self.bias = Bias(out_dim, **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (B, L, parts·in) -> (B, L + 2·padding − k + 1, parts·out)"""
        check_input("x", x, self.in_dim, self.field, batched=True)
        if x.shape[1] + 2 * self.padding < self.kernel_size:
            raise WordwaveError(
                f"x must be (B, L, width) with L + 2·padding >= kernel_size={self.kernel_size}, "
                f"got shape {tuple(x.shape)} and padding={self.padding}"
            )
        if self.padding:
            x = F.pad(x, (0, 0, self.padding, self.padding))
        n_windows = x.shape[1] - self.kernel_size + 1
        # One product of every word with every tap, then sums along diagonals: no copies of windows.
        products = self.weight.times(x, None).unflatten(-1, (-1, self.kernel_size, self.out_dim))
        taps = [p[:, k : k + n_windows] for k, p in enumerate(products.unbind(-2))]
        y = functools.reduce(torch.add, taps).flatten(-2)
        return y if self.bias is None else y + self.bias()

    def extra_repr(self) -> str:
        return (
            f"{self.in_dim}, {self.out_dim}, kernel_size={self.kernel_size}, "
            f"field={self.field!r}, share={self.weight.share!r}"
        )
