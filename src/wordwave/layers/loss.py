"""Cross-entropy of a linear layer, without storing the logits of a whole batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from wordwave.errors import WordwaveError

NUMBERS_AT_ONCE = 1 << 20
"""Logits computed at a time on a CPU: few enough to stay in its cache."""


def linear_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """The summed cross-entropy of `F.linear(x, weight)`, as `F.cross_entropy` defines it.

    Logits and their gradients are computed a few rows at a time and not stored, which for a large
    vocabulary takes less memory and, on a CPU, less time.

    Shape: x (N, D), weight (V, D), target (N,) -> ()
    """
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise WordwaveError(f"x and weight must be (N, D) and (V, D), got {shapes}")
    if target.shape != x.shape[:1] or target.dtype not in (torch.int64, torch.int32):
        got = f"{target.dtype} of shape {tuple(target.shape)}"
        raise WordwaveError(f"target must be {len(x)} integers, one a row, got {got}")
    needs_grad = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    loss: Tensor = _LinearCrossEntropy.apply(x, weight, target, label_smoothing, needs_grad)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients in the forward pass, which has the logits they need."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        target: Tensor,
        label_smoothing: float,
        needs_grad: bool,
    ) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        x_grad = torch.empty_like(x) if needs_grad else None
        weight_grad = torch.zeros_like(weight, dtype=wide) if needs_grad else None
        total = x.new_zeros((), dtype=wide)
        at_once = NUMBERS_AT_ONCE // len(weight) if x.device.type == "cpu" else len(x)
        at_once = max(at_once, 1)
        for start in range(0, len(x), at_once):
            rows, correct = x[start : start + at_once], target[start : start + at_once, None]
            logits = F.linear(rows, weight).to(wide)
            logits -= logits.amax(1, keepdim=True)
            total -= (1 - label_smoothing) * logits.gather(1, correct).sum()
            if label_smoothing:
                total -= label_smoothing * logits.mean(1).sum()
            exps = logits.exp_()
            sums = exps.sum(1, keepdim=True)
            total += sums.log().sum()
            if x_grad is None or weight_grad is None:
                continue
            grads = exps.div_(sums)
            if label_smoothing:
                grads -= label_smoothing / len(weight)
            grads.scatter_add_(1, correct, grads.new_full(correct.shape, label_smoothing - 1))
            grads = grads.to(rows.dtype)
            x_grad[start : start + at_once] = grads @ weight.to(rows.dtype)
            if weight_grad.dtype == rows.dtype:
                weight_grad.addmm_(grads.mT, rows)
            else:
                weight_grad += grads.mT @ rows
        if x_grad is not None and weight_grad is not None:
            ctx.save_for_backward(x_grad, weight_grad.to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_grad, weight_grad = (saved * grad.to(saved.dtype) for saved in ctx.saved_tensors)
        return x_grad, weight_grad, None, None, None
