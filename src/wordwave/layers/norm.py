"""Normalisation of each part by itself (App. B), and dropout of whole components."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.errors import WordwaveError
from wordwave.layers.weight import (
    Device,
    Field,
    check_at_least_one,
    check_dropout,
    check_input,
    n_parts,
)


class LayerNorm(nn.Module):
    """Each part of a vector brought to mean 0 and variance 1, then scaled and moved.

    Two halves apart are group normalisation with two groups, but on a CPU torch's kernel for that
    takes two to three times as long as its layer normalisation of each half.
    """

    def __init__(
        self,
        dim: int,
        *,
        field: Field = "complex",
        eps: float = 1e-5,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one(dim=dim)
        self.dim, self.eps, self.n_parts = dim, eps, n_parts(field)
        self.field: Field = field
        made: dict[str, Any] = {"device": device, "dtype": cx.parameter_dtype(dtype)}
        self.weight = nn.Parameter(torch.ones(self.n_parts * dim, **made))
        self.bias = nn.Parameter(torch.zeros(self.n_parts * dim, **made))

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        check_input("x", x, self.dim, self.field)
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if self.field == "real":
            return F.layer_norm(x, (self.dim,), weight, bias, self.eps)
        parts = x.unflatten(-1, (self.n_parts, self.dim))
        normal = F.layer_norm(parts, (self.dim,), eps=self.eps).flatten(-2)
        return torch.addcmul(bias, normal.to(x.dtype), weight)


class BatchNorm(nn.Module):
    """Each unit of each part normalised over the words of the batch; padding does not count.

    Args:
        dim: width, in complex numbers if the field is complex.
        momentum: weight of a new batch in the running mean and variance used in evaluation.
    """

    mean: Tensor
    variance: Tensor

    def __init__(
        self,
        dim: int,
        *,
        field: Field = "complex",
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least_one(dim=dim)
        self.dim, self.eps, self.momentum = dim, eps, momentum
        self.field: Field = field
        width = n_parts(field) * dim
        made: dict[str, Any] = {"device": device, "dtype": cx.parameter_dtype(dtype)}
        self.weight = nn.Parameter(torch.ones(width, **made))
        self.bias = nn.Parameter(torch.zeros(width, **made))
        self.register_buffer("mean", torch.zeros(width, **made))
        self.register_buffer("variance", torch.ones(width, **made))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shape: x (..., parts·D), mask (...) true where a word is -> (..., parts·D)"""
        check_input("x", x, self.dim, self.field)
        if mask is not None and mask.shape != x.shape[:-1]:
            raise WordwaveError(
                f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}"
            )
        # Sums over thousands of words are beyond 8 bits of mantissa.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = self._statistics(wide, mask)
        y = (wide - mean) * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias
        return y.to(x.dtype)

    def _statistics(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        over = tuple(range(x.dim() - 1))
        counted = (x.new_ones(x.shape[:-1]) if mask is None else mask.to(x.dtype)).unsqueeze(-1)
        n = counted.sum().clamp(min=1)
        mean = (x * counted).sum(over) / n
        variance = ((x - mean).square() * counted).sum(over) / n
        with torch.no_grad():
            unbiased = variance * n / (n - 1).clamp(min=1)
            step = self.momentum * counted.any().to(self.mean.dtype)  # nothing says nothing
            self.mean.lerp_(mean.to(self.mean.dtype), step)
            self.variance.lerp_(unbiased.to(self.variance.dtype), step)
        return mean, variance


class Dropout(nn.Module):
    """Drop whole components: a complex number goes with both its parts, or its phase would bend.

    Args:
        p: share dropped in training; what stays is scaled by 1/(1 − p).
    """

    def __init__(self, p: float, *, field: Field = "complex") -> None:
        super().__init__()
        check_dropout("p", p)
        self.p, self.n_parts = p, n_parts(field)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        cx.check_real("x", x)
        if x.dim() == 0:
            raise WordwaveError("x must have at least one dimension (..., width), got a scalar")
        if self.n_parts == 2:
            cx.width(x)  # refuses an odd one
        if not self.training or self.p == 0:
            return x
        parts = x.unflatten(-1, (self.n_parts, -1))
        shape = (*parts.shape[:-2], 1, parts.shape[-1])
        # On a CPU, F.dropout draws its mask five times as slowly.
        keep = torch.rand(shape, device=x.device) >= self.p
        return (parts * (keep / (1 - self.p)).to(x.dtype)).flatten(-2)

    def extra_repr(self) -> str:
        return f"p={self.p}"
