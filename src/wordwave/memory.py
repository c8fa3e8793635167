"""Available memory, and checks that refuse work which would need more."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from wordwave.errors import WordwaveError

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
"""Files with the limit and the use of a container, cgroup versions 2 and 1."""


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise before an allocation that does not fit, with the sizes and a remedy."""
    there = available_memory()
    if there is not None and needed > there:
        raise WordwaveError(
            f"{what} would need about {_spelled(needed)} of memory, and {_spelled(there)} are "
            f"available: {remedy}"
        )


def keep_freed_memory() -> None:
    """Let this process keep what it frees for its next allocation, where glibc manages memory.

    By default large blocks go back to the system, and the next training step has to get them anew,
    page by page.
    """
    trim_threshold, mmap_threshold, one_gigabyte = -1, -3, 2**30
    with suppress(OSError, AttributeError):
        for setting in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(setting, one_gigabyte)


def available_memory() -> int | None:
    """Bytes that this process can still allocate: by machine, container and process."""
    found = [size for size in (_of_machine(), _of_container(), _of_process()) if size is not None]
    return max(min(found), 0) if found else None


def _of_machine() -> int | None:
    with suppress(OSError, ValueError):
        return 1024 * _field(Path("/proc/meminfo"), "MemAvailable:")
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> int | None:
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" where there is no limit
            left = int(Path(limit).read_text()) - int(Path(used).read_text())
            with suppress(OSError, ValueError):  # cached files are used, but evicted on demand
                left += _field(
                    Path(used).with_name("memory.stat"), "inactive_file", "total_inactive_file"
                )
            return left
    return None


def _field(path: Path, *names: str) -> int:
    """The number that follows one of the names in a file of the system."""
    for line in path.read_text().splitlines():
        name, value, *_ = line.split()
        if name in names:
            return int(value)
    raise ValueError(f"'{path}' has no {names[0]}")


def _of_process() -> int | None:
    """What `ulimit -v` leaves to this process."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return limit - pages * resource.getpagesize()
    return None


def _spelled(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


BYTES_PER_LOGIT = 16
"""Per logit of a batch: logits, probabilities and gradients in float32."""


def check_training_fits(
    build: Callable[[], nn.Module], remedy: str, *, row_sparse: bool, besides: int = 0
) -> None:
    """Raise if there is not enough memory to train a model.

    Args:
        build: makes the model; called on the meta device.
        remedy: how to make it smaller.
        row_sparse: the tables of the embedding have no dense gradients.
        besides: bytes needed besides the model.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = build()
    needed = besides
    for name, weight in model.named_parameters():
        copies = 4  # weights, best weights, two moments of the optimizer
        if not (row_sparse and name.startswith("embedding.")):
            copies += 1  # gradient
        needed += copies * weight.numel() * weight.element_size()
    check_memory(needed, "training this model", remedy)


def confusion_bytes(n_classes: int) -> int:
    """Bytes of a confusion matrix: the array, the same as lists, and as JSON."""
    return 32 * n_classes**2
