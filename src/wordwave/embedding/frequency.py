"""Frequencies: how they start, and the angle a wave has reached at a position."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from wordwave.complex import TURN

FrequencyInit = Literal["sinusoidal", "log-spaced", "log-uniform", "uniform"]

DEFAULT_RANGES: dict[str, tuple[float, float]] = {
    "log-spaced": (1e-4, 1.0),
    "log-uniform": (1e-4, 1.0),
    "uniform": (-0.3, 0.3),
}


def sinusoidal(dim: int, base: float = 10_000.0) -> Tensor:
    """ω_k = base^(−k/D), k = 0 … D−1: the frequencies of sinusoidal positions of width 2·D.

    Shape: (D,)
    """
    return torch.tensor([base ** (-k / dim) for k in range(dim)])


def initial_frequencies(
    shape: tuple[int, int],
    init: FrequencyInit | Tensor,
    *,
    limits: tuple[float, float] | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Starting values of a frequency table of any sharing.

    A table with one frequency per word has no dimensions to spread a spectrum over: there the
    spread-out kinds start every word at the middle (geometric mean) of the spectrum.

    Shape: the given one, (V, D), (1, D) or (V, 1)
    """
    if isinstance(init, Tensor):
        return _given(init, shape)
    low, high = _limits(init, limits)
    rows, dim = shape
    if init == "uniform":
        return torch.empty(shape).uniform_(low, high, generator=generator)
    if init == "log-uniform":
        spread = torch.empty(shape).uniform_(math.log(low), math.log(high), generator=generator)
        return spread.exp()
    if dim == 1:
        return torch.full(shape, math.sqrt(low * high))
    if init == "sinusoidal":
        return sinusoidal(dim).repeat(rows, 1)
    return torch.logspace(math.log10(high), math.log10(low), dim).repeat(rows, 1)


def _given(values: Tensor, shape: tuple[int, int]) -> Tensor:
    try:
        return values.detach().to(torch.get_default_dtype()).expand(shape)
    except RuntimeError:
        raise ValueError(
            f"frequency_init as a tensor must broadcast to {shape}, got {tuple(values.shape)}"
        ) from None


def _limits(init: str, limits: tuple[float, float] | None) -> tuple[float, float]:
    if init == "sinusoidal":
        if limits is not None:
            raise ValueError("frequency_range does not go with frequency_init='sinusoidal'")
        return 1e-4, 1.0
    if init not in DEFAULT_RANGES:
        known = ", ".join(map(repr, ("sinusoidal", *DEFAULT_RANGES)))
        raise ValueError(f"frequency_init must be a tensor or one of {known}, got {init!r}")
    low, high = limits or DEFAULT_RANGES[init]
    if low >= high or (init != "uniform" and low <= 0):
        rule = "low < high" if init == "uniform" else "0 < low < high"
        raise ValueError(f"frequency_range must have {rule} for {init!r}, got {(low, high)}")
    return low, high


def angle(frequency: Tensor, position: Tensor) -> Tensor:
    """ω·pos, brought into [−π, π] before it is rounded to the frequency's precision.

    A float32 product loses the angle at large positions (at 1,000,000 its last bit is 0.06 rad),
    and bfloat16 cannot even hold the position 257. So the whole turns are taken off in float64.
    """
    wide = torch.float32 if frequency.device.type == "mps" else torch.float64
    turns = frequency.to(wide) * (position.to(wide) / TURN)
    reduced = (turns - turns.round()) * TURN
    return reduced.to(torch.promote_types(frequency.dtype, torch.float32))
