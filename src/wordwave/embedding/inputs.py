"""Checks of ids, sizes and positions that all embeddings share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from reprlib import repr as clipped

import numpy as np
import torch
from torch import Tensor

from wordwave.complex import check_tensor
from wordwave.errors import WordwaveError


def check_sizes(vocab_size: int, dim: int, padding_idx: int | None) -> None:
    for name, value in (("vocab_size", vocab_size), ("dim", dim)):
        if not isinstance(value, Integral) or value < 1:
            raise WordwaveError(f"{name} must be at least 1 and an integer, got {clipped(value)}")
    if padding_idx is not None and not 0 <= padding_idx < vocab_size:
        raise WordwaveError(
            f"padding_idx must be None or in [0, {vocab_size}) for vocab_size={vocab_size}, "
            f"got {padding_idx}"
        )


def check_ids(ids: Tensor, vocab_size: int) -> None:
    """Refuse ids out of range, naming the first one."""
    check_tensor("ids", ids)
    if ids.dtype not in (torch.int64, torch.int32):
        raise WordwaveError(f"ids must be a tensor of int64 or int32, got {ids.dtype}")
    if ids.dim() == 0:
        raise WordwaveError("ids must have at least one dimension (..., L), got a scalar")
    if has_no_values(ids) or ids.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(ids))
    if low < 0 or high >= vocab_size:
        bad = low if low < 0 else high
        where = tuple(int(i) for i in (ids == bad).nonzero()[0])
        raise WordwaveError(f"ids must be in [0, {vocab_size}), got {bad} at index {where}")


def has_no_values(x: Tensor) -> bool:
    """Whether values are symbolic, or on a device that would have to synchronise."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return True
    return torch._C._are_functorch_transforms_active()  # of torch.func


def count_positions(ids: Tensor, positions: Tensor | int | None, name: str = "positions") -> Tensor:
    """Positions as a tensor that broadcasts against (..., L, D): 1, 2, …, L unless given.

    Shape: ids (..., L), positions broadcastable to it -> (..., L, 1)
    """
    if positions is None:
        return torch.arange(1, ids.shape[-1] + 1, device=ids.device).unsqueeze(-1)
    if not isinstance(positions, Tensor | Real | Sequence | np.ndarray):
        raise TypeError(f"{name} must be a tensor or a number, got {type(positions).__name__}")
    positions = torch.as_tensor(positions, device=ids.device)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise WordwaveError(f"{name} must be integers or real numbers, got {positions.dtype}")
    sizes = zip(reversed(positions.shape), reversed(ids.shape), strict=False)
    if positions.dim() > ids.dim() or any(p not in (1, n) for p, n in sizes):
        raise WordwaveError(
            f"{name} must broadcast to the shape of ids {tuple(ids.shape)}, "
            f"got shape {tuple(positions.shape)}"
        )
    return positions.unsqueeze(-1)


def is_word(ids: Tensor, padding_idx: int | None) -> Tensor | None:
    """True where a token is a word and not padding. Shape: (..., L) -> (..., L, 1)"""
    return None if padding_idx is None else (ids != padding_idx).unsqueeze(-1)
