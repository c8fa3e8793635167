"""Several processes train one model: dense gradients by DDP, rows of tables by a gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from wordwave.training.optimisers import row_sparse_names

if TYPE_CHECKING:
    from accelerate import Accelerator


def shared(model: nn.Module, accelerator: Accelerator) -> nn.Module:
    """The model on its device, as one of several copies whose dense gradients are averaged."""
    if accelerator.num_processes > 1:
        # DDP expects dense gradients of every module that it does not know.
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            model, row_sparse_names(model)
        )
    prepared: nn.Module = accelerator.prepare_model(model)
    return prepared


@torch.no_grad()
def average_rows(model: nn.Module, accelerator: Accelerator) -> None:
    """Give every process the mean of all processes' row-sparse gradients."""
    if accelerator.num_processes == 1:
        return
    parameters = dict(model.named_parameters())
    for name in row_sparse_names(model):
        parameter = parameters[name]
        if parameter.requires_grad:
            grad = parameter.grad
            if grad is None:  # this process's part of the batch held no word
                grad = torch.zeros_like(parameter).to_sparse(1)
            grad = grad.coalesce()
            rows = _gathered(grad.indices()[0], accelerator)
            values = _gathered(grad.values(), accelerator) / accelerator.num_processes
            parameter.grad = torch.sparse_coo_tensor(
                rows[None], values, parameter.shape, check_invariants=False
            )


def _gathered(part: Tensor, accelerator: Accelerator) -> Tensor:
    """The parts of all processes, which may differ in length, one after the other."""
    counts = accelerator.gather(torch.tensor([len(part)], device=part.device)).tolist()
    padded = part.new_zeros(max(*counts, 1), *part.shape[1:])
    padded[: len(part)] = part
    parts = accelerator.gather(padded).split(len(padded))
    return torch.cat([p[:n] for p, n in zip(parts, counts, strict=True)])
