"""Several processes train one model: dense gradients by DDP, rows of tables by a gather."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn

from wordwave.training.optim import row_sparse_names

if TYPE_CHECKING:
    from accelerate import Accelerator


WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Where launchers tell each process how many there are."""


class OneProcess:
    """What the loop asks of an `Accelerator`, for a training by itself.

    accelerate keeps one state for the whole program, which may be that of someone else's training.
    """

    num_processes, process_index, is_main_process = 1, 0, True

    def __init__(self) -> None:
        found = (
            torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        )
        use_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "on")
        self.device = torch.device("cpu") if found is None or use_cpu else found

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def no_sync(self, model: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()

    def wait_for_everyone(self) -> None:
        """There is no one else."""


Processes: TypeAlias = "Accelerator | OneProcess"


def launched_processes() -> Processes:
    """Devices and processes, by what launched this one, such as `accelerate launch`."""
    if all(int(os.environ.get(name, "1")) <= 1 for name in WORLD_SIZES):
        return OneProcess()
    from accelerate import Accelerator

    # Precision and accumulation are the run's own, whatever `accelerate config` says.
    # Without a GPU it must be told so, or processes under torchrun would not find each other.
    return Accelerator(
        cpu=not torch.accelerator.is_available(),
        mixed_precision="no",
        gradient_accumulation_steps=1,
    )


def shared(model: nn.Module, processes: Processes) -> nn.Module:
    """The model on its device, as one of several copies whose dense gradients are averaged."""
    if isinstance(processes, OneProcess):
        return model.to(processes.device)
    if processes.num_processes > 1:
        # DDP expects dense gradients of every module that it does not know.
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            model, row_sparse_names(model)
        )
    prepared: nn.Module = processes.prepare_model(model)
    return prepared


@torch.no_grad()
def average_rows(model: nn.Module, processes: Processes) -> None:
    """Give every process the mean of all processes' row-sparse gradients."""
    if isinstance(processes, OneProcess) or processes.num_processes == 1:
        return
    parameters = dict(model.named_parameters())
    for name in row_sparse_names(model):
        parameter = parameters[name]
        if parameter.requires_grad:
            grad = parameter.grad
            if grad is None:  # this process's part of the batch held no word
                grad = torch.zeros_like(parameter).to_sparse(1)
            grad = grad.coalesce()
            rows = _gathered(grad.indices()[0], processes)
            values = _gathered(grad.values(), processes) / processes.num_processes
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
