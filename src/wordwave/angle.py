"""The angle a wave has reached at a position, exact at any position."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wordwave.complex import TURN


def sinusoidal(dim: int, *, base: float = 10_000.0, device: torch.device | None = None) -> Tensor:
    """ω_k = base^(−k/D), k = 0 … D−1: the frequencies of sinusoidal positions of width 2·D.

    Shape: (D,) float32
    """
    k = torch.arange(dim, device=device, dtype=torch.float32)
    return torch.exp(k * (-math.log(base) / dim))


def angle(frequency: Tensor, position: Tensor) -> Tensor:
    """ω·pos, brought into [−π, π] before it is rounded to the frequency's precision.

    A float32 product loses the angle at large positions (at 1,000,000 its last bit is 0.06 rad),
    and bfloat16 cannot even hold the position 257. So the whole turns are taken off in float64.
    """
    wide = torch.float32 if frequency.device.type == "mps" else torch.float64
    turns = frequency.to(wide) * (position.to(wide) / TURN)
    reduced = (turns - turns.round()) * TURN
    return reduced.to(torch.promote_types(frequency.dtype, torch.float32))
