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
    per_word: bool = False,
    device: torch.device | str | int | None = None,
) -> Tensor:
    """Starting values of a frequency table of any sharing.

    With one frequency `per_word` there are no dimensions to spread a spectrum over: there the
    spread-out kinds start every word at the middle (geometric mean) of the spectrum.

    Shape: the given one, (V, D), (1, D) or (V, 1)
    """
    if limits is not None and (isinstance(init, Tensor) or init == "sinusoidal"):
        kind = "a tensor" if isinstance(init, Tensor) else repr(init)
        raise ValueError(f"frequency_range does not go with frequency_init = {kind}")
    if isinstance(init, Tensor):
        return _given(init, shape).to(device=device)
    low, high = _limits(init, limits)
    rows, dim = shape
    if init == "uniform":
        return torch.empty(shape, device=device).uniform_(low, high)
    if init == "log-uniform":
        spread = torch.empty(shape, device=device).uniform_(math.log(low), math.log(high))
        return spread.exp()
    if per_word:
        return torch.full(shape, math.sqrt(low * high), device=device)
    if init == "sinusoidal":
        return sinusoidal(dim, device=device).repeat(rows, 1)
    spaced = torch.logspace(math.log10(high), math.log10(low), dim, device=device)
    return spaced.repeat(rows, 1)


def _given(values: Tensor, shape: tuple[int, int]) -> Tensor:
    try:
        return values.detach().to(torch.get_default_dtype()).expand(shape)
    except RuntimeError:
        raise ValueError(
            f"frequency_init as a tensor must broadcast to {shape}, got {tuple(values.shape)}"
        ) from None


def _limits(init: str, limits: tuple[float, float] | None) -> tuple[float, float]:
    if init == "sinusoidal":
        return 1e-4, 1.0
    if init not in DEFAULT_RANGES:
        known = ", ".join(map(repr, ("sinusoidal", *DEFAULT_RANGES)))
        raise ValueError(f"frequency_init must be a tensor or one of {known}, got {init!r}")
    if limits is None:
        return DEFAULT_RANGES[init]
    least = -math.inf if init == "uniform" else 0.0
    if len(limits) != 2 or not least < limits[0] < limits[1] < math.inf:
        rule = "low < high" if init == "uniform" else "0 < low < high"
        raise ValueError(f"frequency_range must have {rule} for {init!r}, got {limits}")
    return limits
