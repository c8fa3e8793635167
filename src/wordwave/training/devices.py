"""Where a training runs: the device, its precision, and several processes (DDP)."""

from __future__ import annotations

import atexit
import os
import platform
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn

from wordwave.training.config import Precision
from wordwave.training.optim import row_sparse_names

if TYPE_CHECKING:
    from accelerate import Accelerator

WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Environment variables in which launchers set the number of processes."""
_X86 = ("x86_64", "amd64")
_ISA_WITH_BF16 = ("DEFAULT", "ALL", "AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX512_CORE_AMX")
"""Values of ONEDNN_MAX_CPU_ISA that allow bf16 instructions; later ones extend these."""


class OneProcess:
    """The part of `Accelerator` that the loop needs, for a training in a single process.

    accelerate keeps one global state, which may belong to another training in the same program.
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
        """There are no other processes."""


Processes: TypeAlias = "Accelerator | OneProcess"


def launched_processes() -> Processes:
    """The device and the processes, as set up by `accelerate launch`, torchrun or MPI."""
    if all(int(os.environ.get(name, "1")) <= 1 for name in WORLD_SIZES):
        return OneProcess()
    from accelerate import Accelerator

    atexit.register(_leave_group)
    # Precision and accumulation are settings of the run, not of `accelerate config`. Without a GPU
    # `cpu` must be set, or processes under torchrun would not find each other.
    return Accelerator(
        cpu=not torch.accelerator.is_available(),
        mixed_precision="no",
        gradient_accumulation_steps=1,
    )


def _leave_group() -> None:
    """A process that ends within its group may abort when another one ends first."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def end_process(processes: Processes) -> None:
    """End this process, successfully, if it is one of several.

    DDP keeps the group's threads alive beyond `_leave_group`. If the interpreter ended in its
    usual way beside them, the process might abort, and its launcher call the training failed.
    """
    if processes.num_processes > 1:
        _leave_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def prepare_model(model: nn.Module, processes: Processes) -> nn.Module:
    """The model on its device, wrapped in DDP if there are several processes."""
    if isinstance(processes, OneProcess):
        return model.to(processes.device)
    if processes.num_processes > 1:
        # DDP expects dense gradients of all parameters that it is not told to ignore.
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            model, row_sparse_names(model)
        )
    prepared: nn.Module = processes.prepare_model(model)
    return prepared


@torch.no_grad()
def average_rows(model: nn.Module, processes: Processes) -> None:
    """Replace row-sparse gradients by their mean over all processes."""
    if isinstance(processes, OneProcess) or processes.num_processes == 1:
        return
    parameters = dict(model.named_parameters())
    for name in row_sparse_names(model):
        parameter = parameters[name]
        if parameter.requires_grad:
            grad = parameter.grad
            if grad is None:  # there is no word in this process's part of the batch
                grad = torch.zeros_like(parameter).to_sparse(1)
            grad = grad.coalesce()
            rows = _gathered(grad.indices()[0], processes)
            values = _gathered(grad.values(), processes) / processes.num_processes
            parameter.grad = torch.sparse_coo_tensor(
                rows[None], values, parameter.shape, check_invariants=False
            )


def _gathered(part: Tensor, accelerator: Accelerator) -> Tensor:
    """The concatenated parts of all processes, which may differ in length."""
    counts = accelerator.gather(torch.tensor([len(part)], device=part.device)).tolist()
    padded = part.new_zeros(max(*counts, 1), *part.shape[1:])
    padded[: len(part)] = part
    parts = accelerator.gather(padded).split(len(padded))
    return torch.cat([p[:n] for p, n in zip(parts, counts, strict=True)])


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to autocast to bf16; `auto`: if the processor has instructions for it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and has_native_bf16()


def has_native_bf16() -> bool:
    """Whether this CPU has instructions for bf16 matrix products.

    oneDNN accepts bf16 on every AVX-512 processor and emulates it on those with neither
    avx512_bf16 nor AMX, several times slower than fp32. On ARM it accepts only what is native.
    """
    accepted = torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    if platform.machine().lower() not in _X86:
        return accepted
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "DEFAULT"
    allowed = limit.upper().startswith((*_ISA_WITH_BF16, "AVX10"))
    instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return accepted and allowed and instructions
