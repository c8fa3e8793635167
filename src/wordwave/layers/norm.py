"""Normalisation of each part by itself (App. B), and dropout of whole components."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.complex import Device
from wordwave.dropout import draw_seed, is_traced, kept
from wordwave.errors import WordwaveError
from wordwave.layers.weight import Field, check_dropout, check_input, n_parts


class _Norm(nn.Module):
    """A scale and a shift for every number of a vector, to learn after its normalisation."""

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
        cx.check_at_least_one(dim=dim)
        self.dim, self.eps, self.n_parts = dim, eps, n_parts(field)
        self.field: Field = field
        ones = torch.ones(self.n_parts * dim, device=device, dtype=cx.parameter_dtype(dtype))
        self.weight = nn.Parameter(ones)
        self.bias = nn.Parameter(torch.zeros_like(ones))


class LayerNorm(_Norm):
    """Layer normalisation of each part of a vector by itself.

    That is group normalisation with two groups, but torch's CPU kernel for it takes two to three
    times as long as layer normalisation of each half.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        check_input("x", x, self.dim, self.field)
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if self.field == "real":
            return F.layer_norm(x, (self.dim,), weight, bias, self.eps)
        parts = x.unflatten(-1, (self.n_parts, self.dim))
        normal = F.layer_norm(parts, (self.dim,), eps=self.eps).flatten(-2)
        return torch.addcmul(bias, normal.to(x.dtype), weight)


class BatchNorm(_Norm):
    """Batch normalisation of each part over the words of the batch, padding excluded.

    Args:
        momentum: weight of a new batch in the running mean and variance.
        dim, field, eps, device, dtype: as in `LayerNorm`.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int, *, momentum: float = 0.1, **options: Any) -> None:
        super().__init__(dim, **options)
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros_like(self.bias))
        self.register_buffer("variance", torch.ones_like(self.bias))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shape: x (..., parts·D), mask (...) true for words -> (..., parts·D)"""
        check_input("x", x, self.dim, self.field)
        if mask is not None:
            cx.check_tensor("mask", mask)
            if mask.shape != x.shape[:-1]:
                raise WordwaveError(
                    f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}"
                )
        # The 8 bits of bfloat16 are too few for sums over thousands of words.
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
            step = self.momentum * counted.any().to(self.mean.dtype)  # 0 if all is padding
            self.mean.lerp_(mean.to(self.mean.dtype), step)
            self.variance.lerp_(unbiased.to(self.variance.dtype), step)
        return mean, variance


def norm_class(normalization: Literal["layer", "batch"]) -> type[LayerNorm] | type[BatchNorm]:
    """The class of a norm by its name."""
    return {"layer": LayerNorm, "batch": BatchNorm}[normalization]


class Dropout(nn.Module):
    """Dropout of whole components: both parts of a complex number together, which keeps its phase.

    Args:
        p: share dropped in training; the rest is scaled by 1/(1 − p).
    """

    def __init__(self, p: float, *, field: Field = "complex") -> None:
        super().__init__()
        check_dropout("dropout p", p)
        self.p, self.n_parts = p, n_parts(field)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., parts·D)"""
        cx.check_real("x", x)
        if x.dim() == 0:
            raise WordwaveError("x must have at least one dimension (..., width), got a scalar")
        if self.n_parts == 2:
            cx.width(x)  # must be even
        if not self.training or self.p == 0:
            return x
        parts = x.unflatten(-1, (self.n_parts, -1))
        shape = (*parts.shape[:-2], 1, parts.shape[-1])
        if x.device.type == "cpu" and not is_traced():
            factors = kept(self.p, draw_seed(), *shape)
        else:
            factors = (torch.rand(shape, device=x.device) >= self.p) / (1 - self.p)
        return (parts * factors.to(x.dtype)).flatten(-2)

    def extra_repr(self) -> str:
        return f"p={self.p}"
