"""Complex vectors as a layout: a vector of D complex numbers is 2·D real ones, `[real | imag]`.

Every function works on the last dimension; no other module depends on where the two halves are.
A tensor in this layout is an ordinary real tensor, so dropout, autocast, `torch.compile`, ONNX and
safetensors work without support for complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from reprlib import repr as clipped
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wordwave.errors import WordwaveError

TURN = 2 * math.pi
"""Radians in one full turn."""
Device: TypeAlias = torch.device | str | int | None


def join(real: Tensor, imag: Tensor) -> Tensor:
    """`real + i·imag`. Shape: two (..., D) -> (..., 2·D)"""
    if real.shape != imag.shape or real.dim() == 0:
        raise WordwaveError(
            "real and imag must have the same shape (..., D), "
            f"got {tuple(real.shape)} and {tuple(imag.shape)}"
        )
    return torch.cat([real, imag], dim=-1)


def split(z: Tensor) -> tuple[Tensor, Tensor]:
    """The real and the imaginary part, as views. Shape: (..., 2·D) -> two (..., D)"""
    dim = width(z)
    real, imag = z.split(dim, dim=-1)
    return real, imag


def width(z: Tensor) -> int:
    """The number D of complex components of a tensor (..., 2·D)."""
    check_tensor("z", z)
    if z.dim() == 0 or z.shape[-1] % 2:
        raise WordwaveError(
            "a complex tensor is [real | imag] and needs an even last dimension, "
            f"got shape {tuple(z.shape)}"
        )
    return z.shape[-1] // 2


def check_tensor(name: str, x: object) -> None:
    """Raise a TypeError unless x is a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")


def check_at_least_one(**sizes: int) -> None:
    """Refuse a size that is not a positive integer, by its name."""
    for name, size in sizes.items():
        if not isinstance(size, Integral):
            raise TypeError(f"{name} must be an integer, got {clipped(size)}")
        if size < 1:
            raise WordwaveError(f"{name} must be at least 1, got {size}")


def check_real(name: str, x: Tensor) -> None:
    """Refuse integers, and torch's own complex dtypes."""
    check_tensor(name, x)
    if x.is_complex():
        raise WordwaveError(
            f"{name} must be of a real dtype in [real | imag] layout, got {x.dtype}; "
            "wordwave.complex.from_complex converts"
        )
    if not x.is_floating_point():
        raise WordwaveError(f"{name} must be of a floating-point dtype, got {x.dtype}")


def outside(x: Tensor, highest: int) -> int | None:
    """A value that is not in [0, highest], if there is one and x has values to look at."""
    if torch.compiler.is_compiling() or x.numel() == 0:
        return None
    low, high = (int(value) for value in torch.aminmax(x))
    return low if low < 0 else high if high > highest else None


def parameter_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of parameters, by default torch's default dtype."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise WordwaveError(f"dtype must be a real floating-point one, got {dtype}")
    return torch.get_default_dtype() if dtype is None else dtype


def real(z: Tensor) -> Tensor:
    """Real part. Shape: (..., 2·D) -> (..., D)"""
    return split(z)[0]


def imag(z: Tensor) -> Tensor:
    """Imaginary part. Shape: (..., 2·D) -> (..., D)"""
    return split(z)[1]


def conj(z: Tensor) -> Tensor:
    """Complex conjugate. Shape: (..., 2·D) -> (..., 2·D)"""
    x, y = split(z)
    return join(x, -y)


def rotate(z: Tensor) -> Tensor:
    """`i·z`, a rotation by 90 degrees. Shape: (..., 2·D) -> (..., 2·D)"""
    x, y = split(z)
    return join(-y, x)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product `a·b`, component by component.

    Shape: two tensors that broadcast to (..., 2·D) -> (..., 2·D)
    """
    (x, y), (u, v) = split(a), split(b)
    return join(x * u - y * v, x * v + y * u)


def scale(z: Tensor, factor: Tensor) -> Tensor:
    """`factor·z` for a real factor; either side may broadcast.

    Shape: (..., 2·D), (..., D) or (..., 1) -> (..., 2·D)
    """
    x, y = split(z)
    return join(factor * x, factor * y)


class _Phasor(torch.autograd.Function):
    """cos and sin are each other's derivatives: the backward pass reuses the forward's values."""

    generate_vmap_rule = True

    @staticmethod
    def forward(phase: Tensor) -> Tensor:
        return join(torch.cos(phase), torch.sin(phase))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        (cos, sin), (grad_cos, grad_sin) = split(z), split(grad)
        return grad_sin * cos - grad_cos * sin


def phasor(phase: Tensor) -> Tensor:
    """`e^{i·phase}`, the point of the unit circle at an angle. Shape: (..., D) -> (..., 2·D)"""
    return _Phasor.apply(phase)  # type: ignore[no-untyped-call]


def magnitude(z: Tensor) -> Tensor:
    """`|z|`, with gradient 0 where z is exactly 0 (as padding is) instead of NaN.

    Shape: (..., 2·D) -> (..., D)
    """
    wide = torch.promote_types(z.dtype, torch.float32)  # squares leave the range of float16
    x, y = split(z.to(wide))
    square = x.square() + y.square()
    zero = square == 0
    return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, square))).to(z.dtype)


def concat(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate vectors: all real parts, then all imaginary ones.

    Shape: (..., 2·D₁), (..., 2·D₂), … -> (..., 2·(D₁ + D₂ + …))
    """
    parts = [split(z) for z in tensors]
    return torch.cat([x for x, _ in parts] + [y for _, y in parts], dim=-1)


def block(a: Tensor, b: Tensor, n_stacked: int = 1) -> Tensor:
    """The real matrix `[[A, −B], [B, A]]` that multiplies a `[real | imag]` column by `A + i·B`.

    Each of `n_stacked` matrices stacked in rows (the gates of an LSTM) becomes a block of its own;
    trailing dimensions (a convolution's kernel) are kept.

    Shape: two (n·out, in, ...) -> (n·2·out, 2·in, ...)
    """
    a, b = (m.unflatten(0, (n_stacked, -1)) for m in (a, b))
    return torch.cat([torch.cat([a, -b], dim=2), torch.cat([b, a], dim=2)], dim=1).flatten(0, 1)


def split_heads(z: Tensor, n_heads: int, n_parts: int = 2) -> Tensor:
    """Split the width into heads, each in `[real | imag]` layout, or of a single real part.

    Shape: (B, L, parts·H·d) -> (B, H, L, parts·d)
    """
    return z.unflatten(-1, (n_parts, n_heads, -1)).permute(0, 3, 1, 2, 4).flatten(-2)


def merge_heads(z: Tensor, n_parts: int = 2) -> Tensor:
    """The inverse of `split_heads`. Shape: (B, H, L, parts·d) -> (B, L, parts·H·d)"""
    return z.unflatten(-1, (n_parts, -1)).permute(0, 2, 3, 1, 4).flatten(-3)


def to_complex(z: Tensor) -> Tensor:
    """To torch's own complex dtype. Shape: (..., 2·D) real -> (..., D) complex"""
    x, y = split(z)
    if z.dtype not in (torch.float16, torch.float32, torch.float64):
        raise WordwaveError(f"torch has no complex dtype for {z.dtype}")
    return torch.complex(x.contiguous(), y.contiguous())


def from_complex(z: Tensor) -> Tensor:
    """From torch's own complex dtype. Shape: (..., D) complex -> (..., 2·D) real"""
    if not z.is_complex():
        raise WordwaveError(f"z must be of a complex dtype, got {z.dtype}")
    return join(z.real, z.imag)
