"""Dense layers and convolutions over positions (App. B, Eq. 9)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from wordwave import complex as cx
from wordwave.errors import WordwaveError
from wordwave.layers.norm import Dropout
from wordwave.layers.weight import (
    Bias,
    Field,
    Weight,
    WeightOptions,
    check_input,
)


class Linear(nn.Module):
    """W·z + b over a field.

    Args:
        in_dim, out_dim: widths, in complex numbers if the field is complex.
        bias: whether to add a bias.
        field: `"complex"`, by default, or `"real"`.
        share: how the parts of a complex weight are tied, see `Sharing`.
        device, dtype: of the parameters, as in torch.nn.
    """

    def __init__(
        self, in_dim: int, out_dim: int, *, bias: bool = True, **options: Unpack[WeightOptions]
    ) -> None:
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim
        self.weight = Weight(out_dim, in_dim, **options)
        self.bias = Bias(self.weight) if bias else None
        self.field: Field = self.weight.field

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·in) -> (..., parts·out)"""
        check_input("x", x, self.in_dim, self.field)
        return self.weight.times(x, None if self.bias is None else self.bias())

    def extra_repr(self) -> str:
        return f"{self.in_dim}, {self.out_dim}, field={self.field!r}, share={self.weight.share!r}"


class Conv1d(nn.Module):
    """Convolution along L over a field; without padding the output has L − k + 1 positions.

    It is a sum of k linear layers, one for each word of a window.

    Args:
        in_dim, out_dim: widths, in complex numbers if the field is complex.
        kernel_size: width k of a window, in words.
        padding: zeros added at both ends.
        bias, field, share, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        kernel_size: int,
        *,
        padding: int = 0,
        bias: bool = True,
        **options: Unpack[WeightOptions],
    ) -> None:
        super().__init__()
        cx.check_at_least_one(kernel_size=kernel_size)
        if padding < 0:
            raise WordwaveError(f"padding must be at least 0, got {padding}")
        self.in_dim, self.out_dim = in_dim, out_dim
        self.kernel_size, self.padding = kernel_size, padding
        self.weight = Weight(out_dim, in_dim, kernel_size, **options)
        self.bias = Bias(self.weight) if bias else None
        self.field: Field = self.weight.field

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (B, L, parts·in) -> (B, L + 2·padding − k + 1, parts·out)"""
        check_input("x", x, self.in_dim, self.field, batched=True)
        n_windows = x.shape[1] + 2 * self.padding - self.kernel_size + 1
        if n_windows < 1:
            raise WordwaveError(
                f"x must be (B, L, width) with L + 2·padding >= kernel_size={self.kernel_size}, "
                f"got shape {tuple(x.shape)} and padding={self.padding}"
            )
        if self.padding:
            x = F.pad(x, (0, 0, self.padding, self.padding))
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


class FeedForward(nn.Module):
    """The position-wise feed-forward layer of a Transformer, activated part by part.

    Args:
        dim, hidden_dim: width of input and output, and of the hidden layer.
        hidden: the field of the hidden units, by default that of the input. A real unit between
            complex vectors computes Re(w·z), and its output weights are complex. That is a real
            layer on `[real | imag]`, whatever `share` is: the same number of weights as complex
            units with share="none", and half the multiplications.
        activation: an elementwise function, applied to each part by itself.
        dropout: share of hidden units dropped in training.
        field, share, device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        *,
        hidden: Field | None = None,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        **options: Unpack[WeightOptions],
    ) -> None:
        super().__init__()
        cx.check_at_least_one(dim=dim, hidden_dim=hidden_dim)
        field = options.get("field", "complex")
        if hidden not in (None, "real", "complex"):
            raise WordwaveError(f"hidden must be 'real' or 'complex', got {hidden!r}")
        if hidden == "complex" and field == "real":
            raise WordwaveError("hidden='complex' goes with field='complex'")
        if hidden == "real" and field == "complex":
            dim *= 2
            options |= {"field": "real", "share": "none"}
        self.widen = Linear(dim, hidden_dim, **options)
        self.narrow = Linear(hidden_dim, dim, **options)
        self.activation = activation
        self.dropout = Dropout(dropout, field=self.widen.field)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        return self.narrow(self.dropout(self.activation(self.widen(x))))
