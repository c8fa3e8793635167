"""Dropout by a hash: the same components on every path, and cheaper than random numbers."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from wordwave.compiled import compiled


def is_traced() -> bool:
    """Whether a graph is made, or torch.func at work: random numbers must be torch's own."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def draw_seed() -> int:
    """A seed for `kept`, from torch's generator."""
    return int(torch.randint(2**32, ()))


def draw_seeds(n: int) -> list[int]:
    """What `draw_seed` returns n times."""
    return torch.randint(2**32, (n,)).tolist() if n else []


def threshold(p: float) -> np.uint32:
    """Hashes below this are dropped."""
    return np.uint32(min(round(p * 2**32), 2**32 - 1))


def kept(p: float, seed: int, *shape: int) -> Tensor:
    """0 with probability p, else 1/(1 − p): a function of the seed and the place.

    Shape: the given one, float32 on the CPU
    """
    scale, found = np.float32(1 / (1 - p)), np.empty(math.prod(shape), np.float32)
    if (kernels := compiled()) is not None:
        kernels.keep(scale, threshold(p), np.uint32(seed), found)
    else:
        h = np.arange(len(found), dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
        np.multiply(h >= threshold(p), scale, out=found)
    return torch.from_numpy(found).view(shape)
