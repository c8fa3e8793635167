"""A training step of a bag of words in a few compiled calls, without autograd."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.compiled import compiled
from wordwave.dropout import draw_seed, threshold
from wordwave.embedding.summed import Gradients, gradients, kernel_arguments, kernel_tables
from wordwave.models.classifier import Classifier, Head
from wordwave.text.batching import Batch
from wordwave.training.optim import OPTIMIZERS, RowAdam, adam_numbers, row_sparse_names

MAX_CLASSES = 256
"""With more, a matrix product takes less time."""


class _Moments(NamedTuple):
    optimizer: Optimizer
    group: dict[str, Any]
    mean: str
    square: str


class FusedBag:
    """The loss of a `Classifier` that sums words, its gradients, and the update of its weights.

    The same numbers as by autograd and the optimizers, up to rounding, and the same state in the
    optimizers: a training may change from one to the other at any step.

    Args:
        model: one that `supports` accepts.
        optimizers: those of `optimizers_for`.
    """

    def __init__(self, model: Classifier, optimizers: Iterable[Optimizer]) -> None:
        self.model = model
        self.moments = {
            parameter: _Moments(
                *(optimizer, group),
                *(("mean", "square") if isinstance(optimizer, RowAdam) else _OF_ADAMW),
            )
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        self.linear = [layer for layer in model.head if isinstance(layer, nn.Linear)]
        self._arrays: dict[Tensor, tuple[tuple[Tensor, ...], Any, list[Any]]] = {}
        self.of_tables: Gradients = ()
        self.of_head: list[tuple[Tensor, Any]] = []

    @staticmethod
    def supports(model: nn.Module, optimizers: Iterable[Optimizer]) -> bool:
        """Whether a model is a bag on the CPU whose tables have row-sparse gradients."""
        if not (type(model) is Classifier and model.sums_words and compiled() is not None):
            return False
        if model.by_magnitude or type(model.head) is not Head or model.n_classes > MAX_CLASSES:
            return False
        if model.head.max_norm:
            return False
        tables = kernel_tables(model.embedding, None)
        is_sparse = bool(row_sparse_names(model))
        known = all(type(optimizer) in OPTIMIZERS for optimizer in optimizers)
        trained = [p for p in model.parameters() if p.requires_grad]
        plain = all(p.is_contiguous() and p.dtype == torch.float32 for p in trained)
        return tables is not None and is_sparse and known and plain

    def loss(self, batch: Batch, targets: Tensor, weights: Tensor | None = None) -> float:
        """The sum of the cross-entropies, times their weights; keeps the gradients for `update`.

        Shape: B sentences, targets (B,), or (B, C), true where a class applies; weights (B,) or
        (B, C)
        """
        kernels, model = compiled(), self.model
        assert kernels is not None
        given = kernel_arguments(model.embedding, batch, **model.sum_options(batch))
        x = np.zeros((batch.size, model.sentence_dim), np.float32)
        given.run_forward(x)
        p = model.config.dropout
        seeds = (draw_seed(), draw_seed()) if p and len(self.linear) > 1 else (0, 0)
        if p and len(self.linear) == 1:
            seeds = (draw_seed(), 0)
        first = self.linear[0].weight
        none = (np.empty((0, first.shape[1]), np.float32), np.empty(0, np.float32))
        parts = [t.detach().numpy() for layer in self.linear for t in (layer.weight, layer.bias)]
        parts = [*none, *parts] if len(self.linear) == 1 else parts
        found = [np.zeros_like(part) for part in parts]
        upstream, given_targets = np.empty_like(x), (targets.numpy(), _NO_LABELS)
        if targets.dim() > 1:
            given_targets = (_NO_TARGETS, targets.numpy())
        total: float = kernels.head_step(
            *(x, *parts, *given_targets),
            _NO_WEIGHTS if weights is None else weights.view(len(targets), -1).numpy(),
            *(np.float32(1 / (1 - p)), threshold(p), *map(np.uint32, seeds)),
            *(upstream, *found),
        )
        made = found[-2 * len(self.linear) :]
        owners = [tensor for layer in self.linear for tensor in (layer.weight, layer.bias)]
        self.of_head = [(t, g) for t, g in zip(owners, made, strict=True) if t.requires_grad]
        self.of_tables = gradients(given, upstream)
        return total

    def update(self, factor: float, max_norm: float) -> None:
        """Multiply the gradients by a factor, clip their norm and update the weights."""
        kernels = compiled()
        assert kernels is not None
        dense = [(t, _FIRST, g.reshape(1, -1)) for t, g in self.of_head]
        found = [*((t, _FIRST if r is None else r, g) for t, r, g in self.of_tables), *dense]
        norm = factor * math.sqrt(sum(kernels.square_sum(values) for *_, values in found))
        scale = np.float32(factor * min(max_norm / (norm + 1e-6), 1.0))
        numbers: dict[tuple[int, float], Any] = {}
        for parameter, rows, values in found:
            step, whole = self._state(parameter)
            step += 1
            group = self.moments[parameter].group
            key = (id(group), float(step))
            if key not in numbers:
                numbers[key] = adam_numbers(group, int(step))
            kernels.adam_rows(rows, values, scale, *whole, *numbers[key])
        self.of_tables, self.of_head = (), []

    def _state(self, parameter: Tensor) -> tuple[Any, list[Any]]:
        """Arrays of the optimizer's step, and of the parameter and its moments, as rows."""
        optimizer, _, *names = self.moments[parameter]
        state = optimizer.state[parameter]
        if not state:
            like = torch.zeros_like(parameter)
            state |= {"step": torch.zeros(()), names[0]: like, names[1]: like.clone()}
        tensors = (state["step"], parameter, *(state[name] for name in names))
        known = self._arrays.get(parameter)
        # A checkpoint that is loaded brings tensors of its own.
        if known is None or any(a is not b for a, b in zip(known[0], tensors, strict=True)):
            step, *whole = (tensor.detach().numpy() for tensor in tensors)
            is_table = parameter.dim() == 2 and any(parameter is t for t, *_ in self.of_tables)
            known = tensors, step, [w if is_table else w.reshape(1, -1) for w in whole]
            self._arrays[parameter] = known
        return known[1], known[2]


_OF_ADAMW = ("exp_avg", "exp_avg_sq")
_FIRST = np.zeros(1, np.int64)
_NO_TARGETS, _NO_LABELS = np.empty(0, np.int64), np.empty((0, 1), np.bool_)
_NO_WEIGHTS = np.empty((0, 1), np.float32)
