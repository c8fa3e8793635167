"""The angle ω·pos of a wave, exact at any position."""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.complex import TURN, Device


def sinusoidal(dim: int, *, base: float = 10_000.0, device: Device = None) -> Tensor:
    """ω_k = base^(−k/D), k = 0 … D−1: the frequencies of sinusoidal positions of width 2·D.

    Computed by Python, so that eager, compiled and exported models agree to the last bit: at
    position 1,000,000 one bit of ω is an angle of 0.06.

    Shape: (D,) float32
    """
    spectrum = [base ** (-k / dim) for k in range(dim)]
    return torch.tensor(spectrum, dtype=torch.float32, device=device)


def angle(frequency: Tensor, position: Tensor) -> Tensor:
    """ω·pos, reduced to [−π, π] before it is rounded to the frequency's precision.

    A float32 product loses the angle at large positions (at 1,000,000 its last bit is 0.06 rad),
    and bfloat16 cannot represent position 257. So full turns are subtracted in float64.
    """
    wide = torch.float32 if frequency.device.type == "mps" else torch.float64
    turn: Tensor | float = TURN
    if torch.compiler.is_compiling():  # an exporter would round a Python float to float32
        turn = torch.tensor(TURN, dtype=wide, device=frequency.device)
    turns = frequency.to(wide) * (position.to(wide) / turn)
    reduced = (turns - turns.round()) * turn
    return reduced.to(torch.promote_types(frequency.dtype, torch.float32))
