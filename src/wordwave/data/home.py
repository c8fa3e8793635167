"""The data home: the folder that holds downloaded and prepared files."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "WORDWAVE_DATA"


def data_home() -> Path:
    """The folder named by `WORDWAVE_DATA`, or else the user's cache folder for wordwave."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("wordwave"))
