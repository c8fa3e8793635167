"""How the frequencies of waves start."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from wordwave.angle import sinusoidal

FrequencyInit = Literal["sinusoidal", "log-spaced", "log-uniform", "uniform"]

DEFAULT_RANGES: dict[str, tuple[float, float]] = {
    "log-spaced": (1e-4, 1.0),
    "log-uniform": (1e-4, 1.0),
    "uniform": (-0.3, 0.3),
}


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
