"""The compiled kernels, where numba is installed."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

SWITCH = "WORDWAVE_NO_NUMBA"
"""Set it to 1 to compute everything by torch."""


def compiled() -> Any | None:
    """The module `wordwave.kernels`; `None` without numba, or if it is switched off.

    The first use on a machine compiles for a few seconds; later ones load what was compiled.
    """
    return None if os.environ.get(SWITCH, "") not in ("", "0") else _kernels()


@cache
def _kernels() -> Any | None:
    try:
        from wordwave import kernels
    except (ImportError, AttributeError, TypeError, OSError):
        return None  # numba is missing, too old for this numpy, or another than we know
    import numba

    return None if getattr(numba.config, "DISABLE_JIT", False) else kernels
