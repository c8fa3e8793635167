"""Training steps of a bag of words in a compiled call, without autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.compiled import compiled
from wordwave.dropout import draw_seeds, threshold
from wordwave.embedding.summed import check_batch, kernel_tables
from wordwave.embedding.table import BIGRAM_SCALE
from wordwave.embedding.wave import check_ids
from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier, Head
from wordwave.text.batching import Batch
from wordwave.training.optim import OPTIMIZERS, RowAdam, adam_numbers, row_sparse_names

MAX_CLASSES = 256
"""With more, a matrix product takes less time."""


class Draws(NamedTuple):
    """The random numbers of some steps, and how far they go."""

    keeps: Any
    """Which sentences keep their bigrams. Shape: (B,), or (0,) without bigrams"""
    seeds: Any
    """Of the dropout of word vectors, and before each layer of the head. Shape: (S, 3)"""
    numbers: Any
    """Of each table and layer, the last arguments of `kernels.adam_rows`. Shape: (S, 8, 6)"""


class FusedBag:
    """Training steps of a `Classifier` that sums words.

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

    def draws(self, sizes: Sequence[int], begin: Callable[[int], None]) -> Draws:
        """What steps on some texts take from torch's generator and from the optimizers.

        Args:
            sizes: number of texts of each step.
            begin: called with the number of each step, sets random seed and learning rates.
        """
        parts, n = self.tables + self.head, len(sizes)
        groups = dict[tuple[int, float], tuple[Any, float, list[int]]]()
        for i, part in enumerate(parts):
            if part.is_trained:
                key = id(part.group), part.step
                groups.setdefault(key, (part.group, part.step, []))[2].append(i)
        of_words, p = self.model.sum_options()["dropout"], self.model.config.dropout
        drawn = [*([0] if of_words else []), *(range(1, 1 + self.n_linear) if p else [])]
        keeps, seeds, far = [_NO_KEEPS], list[list[int]](), list[list[tuple[float, ...]]]()
        for s, size in enumerate(sizes):
            begin(s)
            if self.bigrams is not None:
                kept = self.bigrams.draw_kept(size)
                keeps.append(np.ones(size, np.bool_) if kept is None else kept.numpy())
            seeds.append(draw_seeds(len(drawn)))
            far.append([adam_numbers(group, int(t) + s + 1) for group, t, _ in groups.values()])
        all_seeds = np.zeros((n, 3), np.uint32)
        all_seeds[:, drawn] = seeds
        numbers = np.zeros((n, len(parts), 6), np.float32)
        for (*_, members), values in zip(groups.values(), zip(*far, strict=True), strict=True):
            numbers[:, members] = np.array(values)[:, None]
        return Draws(np.concatenate(keeps), all_seeds, numbers)

    def steps(
        self,
        batch: Batch,
        targets: Tensor,
        weights: Tensor | None,
        draws: Draws,
        sizes: Sequence[int],
        max_norm: float,
    ) -> list[float]:
        """Update the weights once for each of some batches, by the gradient of the mean of their
        cross-entropies, times their weights, with its norm clipped.

        Args:
            batch: the sentences of all steps.
            sizes: number of those of each step.

        Returns:
            The sum of the cross-entropies of each step. One that is not finite is the last, and
            changes nothing.

        Shape: B sentences, targets (B,), or (B, C), true where a class applies; weights (B,) or
        (B, C)
        """
        kernels, model = compiled(), self.model
        assert kernels is not None
        options, several = model.sum_options(), targets.dim() > 1
        keys = _NO_KEYS if self.bigrams is None else self.bigrams.keys.numpy()
        parts = self.tables + self.head
        moments = [part.moments() if part.is_trained else _NO_MOMENTS for part in parts]
        means, squares = zip(*moments, strict=True)
        losses = np.empty(len(sizes))
        n_done = kernels.bag_steps(
            tuple(part.numpy() for part in batch[:4]),
            np.cumsum(sizes),
            tuple(part.values for part in self.tables),
            np.array([part.is_trained for part in parts]),
            (draws.keeps, keys, np.float32(BIGRAM_SCALE)),
            (self.padding, options["power"]),
            (*_drops(options["dropout"]), draws.seeds[:, 0]),
            tuple(part.values for part in self.head),
            (
                _NO_TARGETS if several else targets.numpy(),
                targets.numpy() if several else _NO_LABELS,
                _NO_WEIGHTS if weights is None else weights.view(len(targets), -1).numpy(),
            ),
            (*_drops(model.config.dropout), draws.seeds[:, 1:]),
            means,
            squares,
            draws.numbers,
            float(max_norm),
            losses,
        )
        if n_done < 0:
            check_batch(batch)
            check_ids(batch.ids, len(self.tables[0].values))
            raise WordwaveError(
                f"targets must be classes of 0 to {model.n_classes - 1}, one a text"
            )
        for part in parts:
            if part.is_trained:
                part.step += n_done
        return losses[: n_done + 1].tolist()


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
        self._arrays: list[Any] = []

    @property
    def is_trained(self) -> bool:
        return self.optimizer is not None and self.tensor.requires_grad

    @property
    def values(self) -> Any:
        if self.tensor.data_ptr() != self._address:
            self._values, self._address = self.tensor.detach().numpy(), self.tensor.data_ptr()
            self._tensors = []
        return self._values

    @property
    def step(self) -> float:
        """How often the optimizer has changed it."""
        return float(self._kept()[0])

    @step.setter
    def step(self, value: float) -> None:
        self._kept()[0][...] = value

    def moments(self) -> tuple[Any, Any]:
        """The optimizer's mean and mean square of its gradients. Shape: as `values`, or one row"""
        _, mean, square = self._kept()
        return mean, square

    def _kept(self) -> list[Any]:
        """What the optimizer keeps: the number of steps, a mean and a mean square."""
        assert self.optimizer is not None
        state = self.optimizer.state[self.tensor]
        if not state:
            like = torch.zeros_like(self.tensor)
            state |= {"step": torch.zeros(()), **{name: like.clone() for name in self._names}}
        tensors = [state["step"], *(state[name] for name in self._names)]
        # A checkpoint that is loaded brings tensors of its own.
        if len(self._tensors) == 0 or any(map(is_not, tensors, self._tensors)):
            step, *moments = (tensor.detach().numpy() for tensor in tensors)
            rows = [a if self.by_row else a.reshape(1, -1) for a in moments]
            self._arrays, self._tensors = [step, *rows], tensors
        return self._arrays


def _drops(p: float) -> tuple[Any, Any]:
    """What kernels need for dropout, beside seeds."""
    return np.float32(1 / (1 - p)), threshold(p)


_NO_KEEPS, _NO_KEYS = np.empty(0, np.bool_), np.empty(0, np.int64)
_NO_TARGETS, _NO_LABELS = np.empty(0, np.int64), np.empty((0, 1), np.bool_)
_NO_WEIGHTS = np.empty((0, 1), np.float32)
_NO_MOMENTS = np.empty((0, 1), np.float32), np.empty((0, 1), np.float32)
