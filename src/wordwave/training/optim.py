"""Optimizers, learning-rate schedules and gradient clipping."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.adam import adam

from wordwave.compiled import compiled
from wordwave.errors import WordwaveError
from wordwave.training.config import Schedule, TrainingConfig

OptimizerT = TypeVar("OptimizerT", bound=Optimizer)


def lr_factor(schedule: Schedule, step: int, n_steps: int, warmup_fraction: float) -> float:
    """The learning rate at a step, counted from 0, as a fraction of the peak.

    It rises linearly for `warmup_fraction` of the steps, then follows the schedule. A function of
    the step alone, so that there is no state to save.
    """
    rising = max(int(n_steps * warmup_fraction), 1)
    if step < rising:
        return (step + 1) / rising
    over = min((step - rising) / max(n_steps - rising, 1), 1.0)
    if schedule == "constant":
        return 1.0
    if schedule == "inverse-sqrt":
        return math.sqrt(rising / (step + 1))
    falling = 1 - over if schedule == "one-cycle" else (1 + math.cos(math.pi * over)) / 2
    return max(falling, 1e-3)


class RowAdam(Optimizer):
    """AdamW for tables with row-sparse gradients, `WaveEmbedding(sparse=True)`.

    A row's moments decay only when a batch contains its word, as in `torch.optim.SparseAdam`. The
    steps are the same up to where eps is added (here, as in `torch.optim.AdamW`, after bias
    correction), in fewer passes over the rows.

    Args:
        params: tables (V, …) whose gradients are sparse, or groups of them.
        lr: learning rate.
        betas: decay rates of the mean and of the mean square of gradients.
        eps: added to the denominator.
        weight_decay: decoupled weight decay of the rows that have a gradient.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if lr < 0 or eps <= 0 or not all(0 <= b < 1 for b in betas):
            raise WordwaveError(
                "RowAdam needs lr >= 0, eps > 0 and betas in [0, 1), "
                f"got lr={lr}, eps={eps}, betas={betas}"
            )
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of the rows that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group)
        return loss

    def _update(self, table: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        if not grad.is_sparse:
            raise WordwaveError(
                "RowAdam needs row-sparse gradients, got a dense one: build the embedding with "
                "sparse=True; use torch.optim.Adam for shared tables and other layers"
            )
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), device=table.device)
            state["mean"], state["square"] = torch.zeros_like(table), torch.zeros_like(table)
        grad = coalesced(grad)
        rows = grad.indices()[0]
        whole = (table, state["mean"], state["square"])
        if (kernels := _kernels_for(*whole, grad.values())) is not None:
            state["step"] += 1
            kernels.adam_rows(
                *(rows.numpy(), grad.values().numpy(), np.float32(1.0)),
                *(part.detach().numpy() for part in whole),
                *map(np.float32, adam_numbers(group, int(state["step"]))),
            )
            return
        # torch's fused kernel updates the gathered rows in one pass.
        touched, mean, square = parts = [t.index_select(0, rows) for t in whole]
        adam(
            [touched],
            [grad.values()],
            [mean],
            [square],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            decoupled_weight_decay=True,
            eps=group["eps"],
            maximize=False,
        )
        for target, part in zip(whole, parts, strict=True):
            target.index_copy_(0, rows, part)


def _without_dynamo(optimizer: type[OptimizerT]) -> type[OptimizerT]:
    """The same optimizer without the wrappers that tell `torch.compile` to skip its methods: they
    import torch._dynamo, more than a second of every training. Training loops are not compiled."""
    wrapped = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in wrapped}
    methods["step"] = torch.no_grad()(inspect.unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), methods)


_QuickAdamW, _QuickRowAdam = _without_dynamo(AdamW), _without_dynamo(RowAdam)
OPTIMIZERS = (AdamW, RowAdam, _QuickAdamW, _QuickRowAdam)
"""Those whose updates `wordwave.models.fused` makes by kernels."""


def adam_numbers(group: dict[str, Any], step: int) -> tuple[float, ...]:
    """The last arguments of `kernels.adam_rows`, for the settings of a group at a step from 1."""
    (beta1, beta2), lr = group["betas"], group["lr"]
    correction = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    return beta1, beta2, group["eps"], *correction, 1 - lr * group["weight_decay"]


def coalesced(grad: Tensor) -> Tensor:
    """A row-sparse gradient whose rows are distinct and sorted."""
    if grad.is_coalesced():
        return grad
    rows = grad._indices()[0]
    kernels = compiled() if rows.device.type == "cpu" else None
    if kernels is not None and kernels.is_ascending(rows.numpy()):
        return grad._coalesced_(True)  # autograd forgot
    return grad.coalesce()


def _kernels_for(*tensors: Tensor) -> Any | None:
    """The compiled kernels, if they can work on these tensors."""
    for tensor in tensors:
        is_plain = tensor.device.type == "cpu" and tensor.dtype == torch.float32
        if not (is_plain and tensor.dim() == 2 and tensor.is_contiguous()):
            return None
    return compiled()


def row_sparse_names(model: nn.Module) -> list[str]:
    """The parameters of a model that have row-sparse gradients."""
    return [
        f"{name}.weight"
        for name, module in model.named_modules()
        if getattr(module, "row_sparse", False)
    ]


def optimizers_for(model: nn.Module, settings: TrainingConfig) -> list[Optimizer]:
    """AdamW for all weights and RowAdam for row-sparse tables.

    Frequencies have their own learning rate and weight decay, word vectors their own learning rate;
    the rest of the embedding has no weight decay.
    """
    tables = row_sparse_names(model)
    scales = {
        f"{n}.weight": getattr(module, "lr_scale", 1.0) for n, module in model.named_modules()
    }
    dense: dict[tuple[float, float], dict[str, Any]] = {}
    sparse: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = settings.learning_rate * scales.get(name, 1.0)
        decay = settings.weight_decay
        if name.startswith(("embedding.frequency", "embedding.more_frequencies")):
            rate, decay = rate * settings.frequency_lr_scale, settings.frequency_weight_decay
        elif name.startswith("embedding."):
            decay = 0.0
            if name.startswith(("embedding.words", "embedding.amplitude")):
                rate *= settings.vector_lr_scale
        group = {"params": [], "lr": rate, "peak": rate, "weight_decay": decay}
        groups = sparse if name in tables else dense
        groups.setdefault((rate, decay), group)["params"].append(parameter)
    optimizers: list[Optimizer] = []
    if dense:
        optimizers.append(_QuickAdamW(dense.values(), betas=(0.9, settings.beta2), fused=True))
    if sparse:
        optimizers.append(_QuickRowAdam(sparse.values()))
    return optimizers


@torch.no_grad()
def scale_gradients(parameters: Iterable[Tensor], factor: float) -> None:
    """Multiply all gradients."""
    torch._foreach_mul_(_gradients(parameters), factor)


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float, *, factor: float = 1.0) -> None:
    """Multiply all gradients by a factor, then clip their norm, row-sparse ones included."""
    values = _gradients(parameters)
    norms = torch._foreach_norm(values)
    norm = factor * float(torch.linalg.vector_norm(torch.stack(norms)))
    torch._foreach_mul_(values, factor * min(max_norm / (norm + 1e-6), 1.0))


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The values of all gradients; of a sparse one, those of its rows."""
    values = []
    for parameter in parameters:
        grad = parameter.grad
        if grad is not None:
            if grad.is_sparse:
                parameter.grad = grad = coalesced(grad)
                grad = grad.values()
            values.append(grad)
    return values
