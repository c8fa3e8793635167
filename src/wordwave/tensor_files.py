"""Tensors in safetensors files: reproducible bytes, and checks before anything is loaded.

A file may come from a stranger: its header is compared with what is expected before any tensor is
read, and a tensor with NaN or infinite values is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.files import check_regular, write_whole

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "I8": torch.int8,
    "BOOL": torch.bool,
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors atomically; equal ones give equal bytes.

    Args:
        metadata: one name and value for the header. safetensors writes several in random order.
    """
    assert len(metadata) == 1
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, lambda new: save_file(whole, new, metadata=metadata))


class TensorFile:
    """A safetensors file whose header has been read."""

    def __init__(self, path: Path) -> None:
        check_regular(path)
        self.path = path
        self.meta: dict[str, Tensor] = {}
        """Each tensor on the meta device: dtype and shape without data."""
        with self._open() as file:
            self.metadata: dict[str, str] = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118
                part = file.get_slice(name)
                dtype = _DTYPES.get(part.get_dtype())
                if dtype is None:
                    raise WordwaveError(f"{_named(name)} has the dtype {part.get_dtype()}")
                self.meta[name] = torch.empty(part.get_shape(), dtype=dtype, device="meta")

    def load(self) -> dict[str, Tensor]:
        """All tensors."""
        with self._open() as file:
            found = {name: file.get_tensor(name) for name in self.meta}
        check_finite(found)
        return found

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with safe_open(self.path, framework="pt") as file:
                yield file
        except (SafetensorError, RuntimeError, OverflowError, TypeError) as problem:
            first_line = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise WordwaveError(first_line[:200]) from None


def check_like(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise unless names, shapes and dtypes are equal."""
    for name in wanted.keys() - found.keys():
        raise WordwaveError(f"{_named(name)} is missing")
    for name in found.keys() - wanted.keys():
        raise WordwaveError(f"{_named(name)} is not expected")
    for name, tensor in wanted.items():
        sizes = ("size", tuple(tensor.shape), tuple(found[name].shape))
        dtypes = ("dtype", tensor.dtype, found[name].dtype)
        for what, expected, got in (sizes, dtypes):
            if got != expected:
                rule = f"expected {expected}, got {got}"
                raise WordwaveError(f"{what} mismatch for {_named(name)}: {rule}")


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise for NaN and infinite values."""
    for name, tensor in tensors.items():
        # A finite sum has finite terms, and takes less time and no memory.
        if tensor.is_floating_point() and not (tensor.sum().isfinite() or tensor.isfinite().all()):
            raise WordwaveError(f"{_named(name)} has a NaN or infinite value")


def _named(name: str) -> str:
    return f"the tensor {name[:100]!r}"
