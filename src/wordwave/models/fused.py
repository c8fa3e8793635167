"""A training step of a bag of words in two compiled calls, without autograd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_not
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.compiled import compiled
from wordwave.dropout import draw_seed, threshold
from wordwave.embedding.summed import check_batch, kernel_tables
from wordwave.embedding.table import BIGRAM_SCALE
from wordwave.embedding.wave import check_ids
from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier, Head
from wordwave.text.batching import Batch
from wordwave.training.optim import OPTIMIZERS, RowAdam, adam_numbers, row_sparse_names

MAX_CLASSES = 256
"""With more, a matrix product takes less time."""


class FusedBag:
    """The loss of a `Classifier` that sums words, its gradients, and the update of its weights.

    The same numbers as by autograd and the optimizers, up to rounding, and the same state in the
    optimizers: a training may change from one to the other at any step.

    Args:
        model: one that `supports` accepts.
        optimizers: those of `optimizers_for`.
    """

    def __init__(self, model: Classifier, optimizers: Iterable[Optimizer]) -> None:
        trained = {
            parameter: (optimizer, group)
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        tables = kernel_tables(model.embedding, model.bigrams)
        assert tables is not None
        linear = [layer for layer in model.head if isinstance(layer, nn.Linear)]
        head = [tensor for layer in linear for tensor in (layer.weight, layer.bias)]
        if len(linear) == 1:
            head = [torch.empty(0, model.sentence_dim), torch.empty(0), *head]
        none, padding = torch.empty(0, model.config.dim), model.embedding.padding_idx
        self.model, self.bigrams, self.n_linear = model, model.bigrams, len(linear)
        self.padding = -1 if padding is None else padding
        self.tables = [_Weights(none if t is None else t, trained, by_row=True) for t in tables]
        self.head = [_Weights(tensor, trained, by_row=False) for tensor in head]
        self.found: list[tuple[Any, Any]] = []
        """Of each of them, rows and their gradients."""

    @staticmethod
    def supports(model: nn.Module, optimizers: Iterable[Optimizer]) -> bool:
        """Whether a model is a bag on the CPU whose tables have row-sparse gradients."""
        if not (type(model) is Classifier and model.sums_words and compiled() is not None):
            return False
        if model.by_magnitude or type(model.head) is not Head or model.n_classes > MAX_CLASSES:
            return False
        if model.head.max_norm:
            return False
        tables = kernel_tables(model.embedding, model.bigrams)
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
        bigrams = _NO_BIGRAMS
        if self.bigrams is not None:
            kept = self.bigrams.draw_kept(batch.size)
            keeps = np.ones(batch.size, np.bool_) if kept is None else kept.numpy()
            bigrams = (keeps, self.bigrams.keys.numpy(), np.float32(BIGRAM_SCALE))
        options, p = model.sum_options(), model.config.dropout
        drops = options["dropout"]
        word_drops = _drops(drops, draw_seed() if drops else 0)
        seeds = [draw_seed() if p else 0 for _ in range(self.n_linear)]
        several = targets.dim() > 1
        fits, loss, rows, more_rows, of_tables, of_head = kernels.bag_gradients(
            tuple(part.numpy() for part in batch[:4]),
            tuple(part.values for part in self.tables),
            tuple(part.is_trained for part in self.tables),
            bigrams,
            (self.padding, options["power"]),
            word_drops,
            tuple(part.values for part in self.head),
            (
                _NO_TARGETS if several else targets.numpy(),
                targets.numpy() if several else _NO_LABELS,
                _NO_WEIGHTS if weights is None else weights.view(len(targets), -1).numpy(),
            ),
            _drops(p, *seeds, *[0] * (2 - self.n_linear)),
        )
        if not fits:
            check_batch(batch)
            check_ids(batch.ids, len(self.tables[0].values))
            raise WordwaveError(
                f"targets must be classes of 0 to {model.n_classes - 1}, one a text"
            )
        used = [_FIRST if len(part.values) == 1 else rows for part in self.tables[:3]]
        self.found = [
            *zip((*used, more_rows), of_tables, strict=True),
            *((_FIRST, gradient.reshape(1, -1)) for gradient in of_head),
        ]
        return float(loss)

    def update(self, factor: float, max_norm: float) -> None:
        """Multiply the gradients by a factor, clip their norm and update the weights."""
        kernels = compiled()
        assert kernels is not None
        numbers = np.zeros((len(self.found), 6), np.float32)
        given, known = [], dict[tuple[int, float], Any]()
        for i, (part, found) in enumerate(zip(self.tables + self.head, self.found, strict=True)):
            if not part.is_trained:
                given.append(_NOTHING)
                continue
            step, arrays = part.state()
            step += 1
            key = (id(part.group), float(step))
            if key not in known:
                known[key] = np.array(adam_numbers(part.group, int(step)), np.float32)
            numbers[i] = known[key]
            given.append((*found, *arrays))
        kernels.bag_update(*zip(*given, strict=True), numbers, factor, max_norm)
        self.found = []


class _Weights:
    """A parameter, and what its optimizer keeps about it, as arrays.

    Args:
        trained: the optimizer and the group of each parameter that has one.
        by_row: whether its rows are updated, or all of it as one row.
    """

    def __init__(self, tensor: Tensor, trained: Mapping[Tensor, Any], *, by_row: bool) -> None:
        self.tensor, self.by_row = tensor, by_row
        self.optimizer, self.group = trained.get(tensor, (None, {}))
        self._values, self._address = np.empty(0, np.float32), -1
        is_row_adam = isinstance(self.optimizer, RowAdam)
        self._names = ("mean", "square") if is_row_adam else ("exp_avg", "exp_avg_sq")
        self._tensors: list[Tensor] = []
        self._step, self._arrays = np.zeros(()), list[Any]()

    @property
    def is_trained(self) -> bool:
        return self.optimizer is not None and self.tensor.requires_grad

    @property
    def values(self) -> Any:
        if self.tensor.data_ptr() != self._address:
            self._values, self._address = self.tensor.detach().numpy(), self.tensor.data_ptr()
            self._tensors = []
        return self._values

    def state(self) -> tuple[Any, list[Any]]:
        """The optimizer's step, and the rows of the parameter, its mean and its mean square."""
        assert self.optimizer is not None
        state = self.optimizer.state[self.tensor]
        if not state:
            like = torch.zeros_like(self.tensor)
            state |= {"step": torch.zeros(()), **{name: like.clone() for name in self._names}}
        tensors = [state["step"], *(state[name] for name in self._names)]
        # A checkpoint that is loaded brings tensors of its own.
        if len(self._tensors) == 0 or any(map(is_not, tensors, self._tensors)):
            self._step, *moments = (tensor.detach().numpy() for tensor in tensors)
            arrays = (self.values, *moments)
            self._arrays = [a if self.by_row else a.reshape(1, -1) for a in arrays]
            self._tensors = tensors
        return self._step, self._arrays


def _drops(p: float, *seeds: int) -> tuple[Any, ...]:
    """What kernels need for dropout."""
    return np.float32(1 / (1 - p)), threshold(p), *map(np.uint32, seeds)


_FIRST = np.zeros(1, np.int64)
_NO_BIGRAMS = np.empty(0, np.bool_), np.empty(0, np.int64), np.float32(1.0)
_NO_TARGETS, _NO_LABELS = np.empty(0, np.int64), np.empty((0, 1), np.bool_)
_NO_WEIGHTS = np.empty((0, 1), np.float32)
_NOTHING = (np.empty(0, np.int64), *[np.empty((0, 1), np.float32)] * 4)
