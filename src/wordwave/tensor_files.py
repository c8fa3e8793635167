"""Tensors as safetensors files: written the same each time, read only if they are as expected.

A file may come from a stranger. What its header says is compared with what is wanted before any
tensor is read, and a tensor that holds no number is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
    "BOOL": torch.bool,
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **note: str) -> None:
    """Write tensors, whole; the same ones give the same bytes.

    Args:
        note: one name and text for the header. Of several, the library writes them in an order
            that differs from time to time.
    """
    assert len(note) == 1
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, lambda new: save_file(whole, new, metadata=note))


class TensorFile:
    """A safetensors file whose header has been read. `ValueError` says what is wrong with it."""

    def __init__(self, path: Path) -> None:
        check_regular(path)
        self.path = path
        self.note: dict[str, str] = {}
        self.outlines: dict[str, Tensor] = {}
        """Each tensor on the device `meta`: its dtype and shape without its numbers."""
        try:
            with safe_open(path, framework="pt") as file:
                self.note = file.metadata() or {}
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    kind = _DTYPES.get(part.get_dtype())
                    if kind is None:
                        raise WordwaveError(f"{_named(name)} has the dtype {part.get_dtype()}")
                    self.outlines[name] = torch.empty(part.get_shape(), dtype=kind, device="meta")
        except (SafetensorError, RuntimeError, OverflowError, TypeError) as problem:
            raise WordwaveError(_first_line(problem)) from None

    def load(self) -> dict[str, Tensor]:
        """All tensors."""
        try:
            with safe_open(self.path, framework="pt") as file:
                found = {name: file.get_tensor(name) for name in self.outlines}
        except (SafetensorError, RuntimeError) as problem:
            raise WordwaveError(_first_line(problem)) from None
        check_finite(found)
        return found


def check_like(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse tensors that have not the names, shapes and dtypes of others."""
    for name in wanted.keys() - found.keys():
        raise WordwaveError(f"{_named(name)} is missing")
    for name in found.keys() - wanted.keys():
        raise WordwaveError(f"{_named(name)} is not expected")
    for name, tensor in wanted.items():
        got = found[name]
        if got.shape != tensor.shape:
            raise WordwaveError(
                f"size mismatch for {_named(name)}: expected {tuple(tensor.shape)}, "
                f"got {tuple(got.shape)}"
            )
        if got.dtype != tensor.dtype:
            raise WordwaveError(
                f"dtype mismatch for {_named(name)}: expected {tensor.dtype}, got {got.dtype}"
            )


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that hold NaN or an infinity."""
    for name, tensor in tensors.items():
        # A sum that is finite is of finite numbers, and takes less time and no memory.
        if tensor.is_floating_point() and not (tensor.sum().isfinite() or tensor.isfinite().all()):
            raise WordwaveError(f"{_named(name)} holds NaN or an infinity")


def _named(name: str) -> str:
    return f"the tensor {name[:100]!r}"


def _first_line(problem: Exception) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)[:200]
