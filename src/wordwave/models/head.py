"""The real layers from vectors of sentences to logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wordwave.dropout import draw_seed, kept
from wordwave.embedding.wave import has_no_values
from wordwave.layers import Dropout

SMALL = 1 << 22
"""Products of so many numbers take less time in one differentiable function, and in fp32."""


class Head(nn.Sequential):
    """Dropout and a linear layer, with one hidden layer of ReLUs or none.

    Args:
        hidden_dim: units of the hidden layer; 0 for none.
        dropout: probability before each linear layer.
    """

    def __init__(self, in_dim: int, hidden_dim: int, out_dim: int, *, dropout: float) -> None:
        def drop() -> nn.Module:
            return Dropout(dropout, field="real")

        hidden = [nn.Linear(in_dim, hidden_dim), nn.ReLU(), drop()] if hidden_dim else []
        super().__init__(drop(), *hidden, nn.Linear(hidden_dim or in_dim, out_dim))
        self.p = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (B, in_dim) -> (B, out_dim)"""
        layers = [layer for layer in self if isinstance(layer, nn.Linear)]
        if not (self.training and torch.is_grad_enabled() and self._is_small(x, layers)):
            return super().forward(x)  # type: ignore[no-untyped-call]
        weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        seed = draw_seed() if self.p else 0
        with torch.autocast("cpu", enabled=False):
            return _Layers.apply(x, self.p, seed, *weights)  # type: ignore[no-untyped-call]

    @staticmethod
    def _is_small(x: Tensor, layers: list[nn.Linear]) -> bool:
        plain = x.dim() == 2 and x.dtype == torch.float32 and not has_no_values(x)
        return plain and all(
            len(x) * layer.weight.numel() <= SMALL and layer.weight.dtype == torch.float32
            for layer in layers
        )


class _Layers(torch.autograd.Function):
    """Linear layers with dropout before each and a ReLU between them, in one function: on a CPU,
    small layers spend most of their time between operations.

    Shape: x (B, W), weights (H, W), (H,), …
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int, *weights: Tensor) -> Tensor:
        saved: list[Tensor] = []
        masks: list[Tensor | None] = []
        for i in range(0, len(weights), 2):
            if i:
                x = x.relu_()
            mask = kept(p, seed + i, *x.shape) if p else None
            x = x if mask is None else x * mask
            saved.append(x)
            masks.append(mask)
            x = torch.addmm(weights[i + 1], x, weights[i].t())
        ctx.save_for_backward(*saved, *weights[::2])
        ctx.masks = masks
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        n = len(ctx.masks)
        found: list[Tensor] = []
        for i in range(n - 1, -1, -1):
            x, weight, mask = ctx.saved_tensors[i], ctx.saved_tensors[n + i], ctx.masks[i]
            found[:0] = (grad.t() @ x, grad.sum(0))
            if i or ctx.needs_input_grad[0]:
                grad = grad @ weight
                if i:  # dropped or not above 0: no gradient
                    grad = torch.where(x > 0, grad, 0.0)
                grad = grad if mask is None else grad.mul_(mask)
        return grad, None, None, *found
