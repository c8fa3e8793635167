"""Dense layers (App. B, Eq. 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.errors import WordwaveError
from wordwave.layers.norm import Dropout
from wordwave.layers.weight import (
    Bias,
    Device,
    Field,
    Sharing,
    Weight,
    check_at_least_one,
    check_dropout,
    check_input,
    n_parts,
)


class Linear(nn.Module):
    """W·z + b over a field.

    Args:
        in_dim, out_dim: widths, in complex numbers if the field is complex.
        field: `"complex"` or `"real"`.
        share: how the parts of a complex weight are tied, see `Sharing`.
        bias: whether to add a bias.
        device, dtype: of the parameters, as in torch.nn.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        field: Field = "complex",
        share: Sharing = "none",
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim
        self.field: Field = field
        made: dict[str, Any] = {"field": field, "share": share, "device": device, "dtype": dtype}
        self.weight = Weight(out_dim, in_dim, **made)
        self.bias = Bias(out_dim, **made) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·in) -> (..., parts·out)"""
        check_input("x", x, self.in_dim, self.field)
        return self.weight.times(x, None if self.bias is None else self.bias())

    def extra_repr(self) -> str:
        return f"{self.in_dim}, {self.out_dim}, field={self.field!r}, share={self.weight.share!r}"


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
        device, dtype: as in `Linear`.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        *,
        field: Field = "complex",
        share: Sharing = "none",
        hidden: Field | None = None,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one(dim=dim, hidden_dim=hidden_dim)
        check_dropout("dropout", dropout)
        if hidden not in (None, "real", "complex"):
            raise WordwaveError(f"hidden must be 'real' or 'complex', got {hidden!r}")
        if hidden == "real" and field == "complex":
            dim, field, share = n_parts(field) * dim, "real", "none"
        elif hidden == "complex" and field == "real":
            raise WordwaveError("hidden='complex' goes with field='complex'")
        made: dict[str, Any] = {"field": field, "share": share, "device": device, "dtype": dtype}
        self.widen = Linear(dim, hidden_dim, **made)
        self.narrow = Linear(hidden_dim, dim, **made)
        self.activation = activation
        self.dropout = Dropout(dropout, field=field)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        return self.narrow(self.dropout(self.activation(self.widen(x))))
