"""Weights over the real or the complex field, and products with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.complex import Device
from wordwave.errors import WordwaveError

Field = Literal["real", "complex"]
Sharing = Literal["none", "real", "tied"]
"""How the two parts of a complex weight `A + i·B` are tied: `"none"` A and B independent,
`"real"` B = 0 (one real matrix for both parts), `"tied"` A = B (the paper's sharing)."""


Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Computes x·Wᵀ + bias, as `F.linear`."""


class WeightOptions(TypedDict, total=False):
    """What a layer passes on to its weights; the defaults are those of `Weight`."""

    field: Field
    share: Sharing
    device: Device
    dtype: torch.dtype | None


def n_parts(field: Field) -> int:
    """Real numbers per component: 1 for the real field, 2 for the complex one."""
    if field not in get_args(Field):
        raise WordwaveError(f"field must be 'real' or 'complex', got {field!r}")
    return 2 if field == "complex" else 1


def side_by_side(field: Field, vectors: Sequence[Tensor]) -> Tensor:
    """Concatenate vectors over a field. Shape: (..., W₁), … -> (..., ΣW)"""
    if len(vectors) == 1:
        return vectors[0]
    return cx.concat(vectors) if field == "complex" else torch.cat(list(vectors), dim=-1)


def check_dropout(name: str, p: float) -> None:
    if not 0 <= p < 1:
        raise WordwaveError(f"{name} must be in [0, 1), got {p}")


def check_input(name: str, x: Tensor, dim: int, field: Field, *, batched: bool = False) -> None:
    """Refuse a tensor that is not (..., dim) over the field, or (B, L, dim) if `batched`."""
    cx.check_real(name, x)
    if batched and x.dim() != 3:
        raise WordwaveError(f"{name} must be (B, L, width), got shape {tuple(x.shape)}")
    expected = n_parts(field) * dim
    if x.dim() == 0 or x.shape[-1] != expected:
        layout = f" (2 x {dim}, [real | imag])" if field == "complex" else ""
        raise WordwaveError(
            f"{name} must have a last dimension of {expected}{layout}, got shape {tuple(x.shape)}"
        )


class Weight(nn.Module):
    """A (n_stacked·out, in, *kernel) weight over a field, initialised to preserve variance.

    Each real or imaginary part of the output has the variance of the parts of the input: entries
    have variance 1/fan_in, halved where every output is a sum of two products.
    """

    product: Product = staticmethod(F.linear)
    """What multiplies; set another on a weight to compute the same faster."""

    def __init__(
        self,
        out_dim: int,
        in_dim: int,
        *kernel: int,
        field: Field = "complex",
        share: Sharing = "none",
        n_stacked: int = 1,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        cx.check_at_least_one(out_dim=out_dim, in_dim=in_dim)
        is_complex = n_parts(field) == 2
        if share not in get_args(Sharing):
            raise WordwaveError(f"share must be 'none', 'real' or 'tied', got {share!r}")
        if share != "none" and not is_complex:
            raise WordwaveError(
                f"share={share!r} ties the parts of a complex weight; field is real"
            )
        self.field, self.share, self.n_stacked = field, share, n_stacked
        terms = 2 if is_complex and share != "real" else 1
        bound = math.sqrt(3 / (terms * in_dim * math.prod(kernel)))

        def drawn() -> nn.Parameter:
            shape = (n_stacked * out_dim, in_dim, *kernel)
            empty = torch.empty(shape, device=device, dtype=cx.parameter_dtype(dtype))
            return nn.Parameter(empty.uniform_(-bound, bound))

        self.a = drawn()
        self.b = drawn() if is_complex and share == "none" else None

    def times(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """W·x + bias; of a kernel, the product with each tap.

        Shape: x (..., parts·in) -> (..., parts·taps·out)
        """
        a = _matrix(self.a)
        if self.field == "real":
            return self.product(x, a, bias)
        if self.b is not None:
            return complex_linear(x, a, _matrix(self.b), bias, self.product)
        # One real matrix for both parts, at half the cost; with A = B, A·(1 + i)·x.
        x = x + cx.rotate(x) if self.share == "tied" else x
        y = self.product(x.unflatten(-1, (2, -1)), a, None).flatten(-2)
        return y if bias is None else y + bias

    def forward(self) -> Tensor:
        """The equivalent real weight. Shape: (n_stacked·parts·out, parts·in, *kernel)"""
        if self.field == "real":
            return self.a
        if self.share == "real":
            return cx.block(self.a, torch.zeros_like(self.a), self.n_stacked)
        return cx.block(self.a, self.a if self.b is None else self.b, self.n_stacked)


class Bias(nn.Module):
    """A bias to go with a weight, initially 0; `"tied"` gives both parts the same one (c = d)."""

    def __init__(self, weight: Weight) -> None:
        super().__init__()
        self.n_parts = n_parts(weight.field)
        own_parts = 1 if weight.share == "tied" else self.n_parts
        out_dim = weight.a.shape[0] // weight.n_stacked
        self.c = nn.Parameter(weight.a.new_zeros(weight.n_stacked, own_parts, out_dim))

    def forward(self) -> Tensor:
        """Shape: (n_stacked·parts·out,)"""
        return self.c.expand(-1, self.n_parts, -1).flatten()


def complex_linear(
    x: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, product: Product = F.linear
) -> Tensor:
    """(A + i·B)·x + bias, as one real product with a block matrix or as three small ones.

    Shape: x (..., 2·in), a and b (out, in), bias (2·out,) -> (..., 2·out)
    """
    if _three_are_faster(x, a):
        return _three_products(x, a, b, bias)
    return product(x, cx.block(a, b), bias)


def _three_products(x: Tensor, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """Gauss's trick: a quarter fewer multiplications, forward and backward, and more additions."""
    real, imag = cx.split(x)
    p, q = F.linear(real, a), F.linear(imag, b)
    both = F.linear(real + imag, a + b)
    y = cx.join(p - q, both - (p + q))
    return y if bias is None else y + bias


def _three_are_faster(x: Tensor, a: Tensor) -> bool:
    """In float32 on a CPU, where large products are bound by arithmetic, not by memory."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and x.numel() >= 256 * x.shape[-1]
        and min(a.shape) >= 128
    )


def _matrix(weight: Tensor) -> Tensor:
    """Shape: (out, in, *kernel) -> (taps·out, in)"""
    return weight if weight.dim() == 2 else weight.flatten(2).permute(2, 0, 1).flatten(0, 1)
