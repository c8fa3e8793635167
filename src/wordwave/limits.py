"""The range of every setting, checked the same way everywhere. Needs no torch.

A number that no machine can run is refused where it is given, with its limit, and not by the
allocator after an hour.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from itertools import chain
from math import nextafter
from typing import Any, get_type_hints

from wordwave.errors import WordwaveError

Limit = tuple[float, float]
"""The lowest and the highest value, both allowed."""

WIDTH: Limit = (1, 100_000)
DEPTH: Limit = (1, 1_000)
LENGTH: Limit = (1, 10_000_000)
"""Words or characters of one text."""
LOOK_BACK: Limit = (0, 100_000)
"""Characters that attention sees before the segment."""
COUNT: Limit = (0, 10**12)
"""Of steps and examples, where a large number means all of them."""
SCALE: Limit = (0, 1e6)
FRACTION: Limit = (0, nextafter(1, 0))
"""From 0, below 1."""
SEED: Limit = (0, 2**63 - 1)
THREADS: Limit = (1, max(64, os.cpu_count() or 1))


class Limited:
    """A config whose numbers have limits, `Annotated[int, (1, 100)]`, also in its subclasses."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        check_limits(self, _limits_of(kind))


@cache
def _limits_of(kind: type) -> dict[str, Limit]:
    hints = [get_type_hints(base, include_extras=True).items() for base in reversed(kind.__mro__)]
    return {
        name: rule
        for name, hint in chain(*hints)
        for rule in getattr(hint, "__metadata__", ())
        if isinstance(rule, tuple)
    }


def check_limits(settings: object, limits: Mapping[str, Limit]) -> None:
    """Refuse a setting outside its limits; `None` is none, and of a tuple each value counts."""
    for name, limit in limits.items():
        value = getattr(settings, name)
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None:
                check_limit(name, one, limit)


def check_limit(name: str, value: float, limit: Limit) -> None:
    """Refuse a value outside a limit, by the name that the user knows it by."""
    low, high = limit
    if limit == FRACTION and not low <= value <= high:
        raise WordwaveError(f"{name} must be in [0, 1), got {value}")
    if not value >= low:
        raise WordwaveError(f"{name} must be at least {low}, got {value}")
    if value > high:
        shown = f"{high:.15g}" if isinstance(high, float) else high
        raise WordwaveError(f"{name} must be at most {shown}, got {value}")


def check_unused(settings: object, what: str, *names: str) -> None:
    """Refuse a setting that has no meaning for such a model."""
    for name in names:
        if value := getattr(settings, name):
            raise WordwaveError(f"{name} has no meaning for {what}, got {value}")


def check_fractions(settings: object, *names: str) -> None:
    """Refuse a setting that is not in [0, 1)."""
    for name in names:
        check_limit(name, getattr(settings, name), FRACTION)
