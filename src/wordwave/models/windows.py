"""Convolution, ReLU and max pooling over sentences in one differentiable function.

Only the highest window of each filter has a gradient, so that the dense gradient of a convolution
would multiply zeros for most of a training step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from wordwave.compiled import compiled
from wordwave.embedding.wave import has_no_values
from wordwave.layers import Conv1d


def can_pool_windows(x: Tensor, convolution: Conv1d) -> bool:
    """Whether the kernels apply: float32 on a CPU, eager."""
    plain = x.dtype == torch.float32 and not has_no_values(x)
    plain = plain and convolution.weight.a.dtype == torch.float32 and convolution.bias is not None
    return plain and compiled() is not None


def pool_windows(x: Tensor, convolution: Conv1d, n_windows: Tensor) -> Tensor:
    """The highest ReLU of each filter over the first windows of each sentence.

    With the convolution's padding, which costs no products, sentences of n words have n + 2·padding
    − k + 1 windows, and what is in x after them counts as 0.

    Shape: x (B, L, W), n_windows (B,), at least 1 and at most L + 2·padding − k + 1 -> (B, filters)
    """
    assert convolution.bias is not None
    weight, bias = convolution.weight(), convolution.bias()
    return _Windows.apply(x, weight, bias, convolution, n_windows)  # type: ignore[no-untyped-call]


class _Windows(torch.autograd.Function):
    """Shape: x (B, L, W), weight (P, W, K), bias (P,), n_windows (B,) -> (B, P)"""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, convolution: Conv1d, n_windows: Tensor
    ) -> Tensor:
        kernels = compiled()
        assert kernels is not None
        shape = (-1, convolution.kernel_size, convolution.out_dim)
        products = convolution.weight.times(x, None).float().contiguous().unflatten(-1, shape)
        out = x.new_empty(len(x), len(bias))
        at = torch.empty(out.shape, dtype=torch.int32)
        given = (products, bias.detach().contiguous(), n_windows.contiguous())
        made = (out.numpy(), at.numpy())
        kernels.pool_windows(*(part.numpy() for part in given), convolution.padding, *made)
        ctx.save_for_backward(x, weight, at, n_windows.contiguous())
        ctx.padding = convolution.padding
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kernels = compiled()
        assert kernels is not None
        x, weight, at, n_windows = ctx.saved_tensors
        by_tap = weight.transpose(1, 2).contiguous()
        made = torch.zeros_like(x), torch.zeros_like(by_tap), x.new_zeros(len(weight))
        given = (x.contiguous(), by_tap, at, n_windows, grad.float().contiguous())
        of, to = ([part.detach().numpy() for part in tensors] for tensors in (given, made))
        kernels.pool_windows_backward(*of, ctx.padding, *to)
        return made[0], made[1].transpose(1, 2), made[2], None, None
