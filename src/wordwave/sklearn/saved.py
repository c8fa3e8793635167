"""What an estimator knows beyond the classifier it trained: a file in the classifier's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, TypedDict

import numpy as np

from wordwave import __version__
from wordwave.files import write_text
from wordwave.plain import conform, read_json
from wordwave.sklearn.inputs import name_of

ESTIMATOR_FILE = "estimator.json"
OWN_PARAMETERS = ("dev_share", "n_threads", "verbose")
"""Those that are no setting of `wordwave train classify`."""


class _Parameters(TypedDict, total=False):
    dev_share: float
    n_threads: int | None
    verbose: bool


class _Saved(TypedDict):
    parameters: _Parameters
    label_type: str
    classes: list[str | float | bool]


def write_estimator(folder: Path, own: dict[str, Any], classes: np.ndarray[Any, Any]) -> None:
    """Keep an estimator's own parameters and its labels as they were given."""
    kind = classes.dtype
    saved = {
        "version": __version__,
        "parameters": own,
        "label_type": "str" if kind.kind == "U" else kind.name,
        "classes": classes.tolist(),
    }
    write_text(folder / ESTIMATOR_FILE, json.dumps(saved, ensure_ascii=False, indent=2) + "\n")


def read_estimator(
    folder: Path, names: Sequence[str]
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The parameters and labels that `write_estimator` kept; of a folder without, only the names.

    Args:
        folder: of a classifier.
        names: its classes.
    """
    file = folder / ESTIMATOR_FILE
    if not file.exists():
        return {}, np.array(names)
    try:
        own, classes = _checked(read_json(file))
    except (ValueError, TypeError, OverflowError) as problem:
        raise ValueError(f"'{file}' is not of an estimator: {problem}") from None
    if sorted(map(name_of, classes.tolist())) != sorted(names):
        raise ValueError(
            f"'{file}' must have the classes of vocab.json beside it, "
            f"{clipped(names)}, got {clipped(classes.tolist())}"
        )
    return own, classes


def _checked(saved: Any) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    conform(saved, _Saved, where="it")
    own, kind, classes = (saved[key] for key in ("parameters", "label_type", "classes"))
    if not set(own) <= set(OWN_PARAMETERS):
        raise ValueError(f"parameters must be among {OWN_PARAMETERS}, got {clipped(own)}")
    # A name such as U1000000000 would take gigabytes for each class.
    if kind != "str" and (np.dtype(kind).kind not in "biufO" or np.dtype(kind).name != kind):
        raise ValueError(f"label_type must be of strings or numbers, got {clipped(kind)}")
    array = np.array(classes, dtype=kind)
    if array.tolist() != classes:
        raise ValueError(f"classes must be a list of {kind}, got {clipped(classes)}")
    return own, np.unique(array)
