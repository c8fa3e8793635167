"""Texts, labels and parameters as people hand them to scikit-learn, checked."""

from __future__ import annotations

import json
import os
from reprlib import repr as clipped
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets


def texts_in(X: Any) -> list[str]:
    """The texts of a list, array or series, which must be nothing else."""
    if isinstance(X, (str, bytes)):
        raise ValueError(f"X must be a list of texts, got the one text {clipped(X)}")
    array = np.asarray(X, dtype=object)
    if array.ndim != 1:
        got = f"the shape {array.shape}" if array.ndim else type(X).__name__
        raise ValueError(f"X must be a list, array or series of texts, one for each row, got {got}")
    if not len(array):
        raise ValueError("X must hold at least one text, got none")
    texts: list[str] = array.tolist()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts only, got {clipped(text)} at {i}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"X must hold whole characters, got {clipped(text)} at {i}") from None
    return texts


def classes_in(y: Any) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The different labels, sorted, and the number of each row's label among them."""
    if y is None:
        raise ValueError("WaveClassifier requires y to be passed, but the target y is None")
    _of_one_kind(y if isinstance(y, (list, tuple)) else [])
    labels = column_or_1d(y, warn=True)
    _of_one_kind(labels.tolist() if labels.dtype == object else [])
    check_classification_targets(labels)
    if labels.dtype.kind not in "biufUO":
        raise ValueError(f"y must hold strings, numbers or truth values, got {labels.dtype}")
    classes, numbers = np.unique(labels, return_inverse=True)
    return classes, numbers.tolist()


def _of_one_kind(labels: Any) -> None:
    """Refuse what numpy would turn into strings: a missing label among names."""
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        i = strings.index(False)
        raise ValueError(f"y must hold strings only or none, got {clipped(labels[i])} at {i}")


def name_of(label: Any) -> str:
    """A label as the name of a class: numbers and truth values as JSON spells them."""
    return label if isinstance(label, str) else json.dumps(label)


def plain(value: Any) -> Any:
    """A parameter as Python has it; a search may give numpy's numbers."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value
