"""The records of results/reproduce: what they must hold, and how older ones are read."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, TypedDict

from experiments.anchors import ANCHORS
from experiments.cells import DATASETS, SST2_SENTENCES, VARIANTS
from wordwave.embedding.config import EMBEDDING_KINDS
from wordwave.grid import Count, Positive, Record, Share, fits
from wordwave.migrate import padding_of, upgrade_record
from wordwave.models.config import ENCODERS

_PACKAGES = ("wordwave", "torch", "numpy", "scikit-learn", "accelerate", "fasttext-numpy2")
_RENAMED = {"how": "settings", "right": "correct", "dev_surprise": "dev_loss"}
"""Fields of earlier versions."""
_RENAMED_CHOICES = {
    "at first": "baseline",
    "slow waves": "low frequencies",
    "slower waves": "lower frequencies",
    "frequencies as they start": "frozen frequencies",
    "frequencies at the full rate": "full learning rate of frequencies",
    "slower waves at the full rate": "lower frequencies at full learning rate",
    "rate 0.000625": "learning rate 0.000625",
    "rate 0.0018": "learning rate 0.0018",
    "rate 0.0025": "learning rate 0.0025",
    "norm after each sub-layer": "post-norm",
    "norm after": "post-norm",
    "predictions by vectors of their own": "untied output embeddings",
    "own vectors": "untied output embeddings",
    "dropout of a tenth": "dropout 0.1",
    "beta2 of 0.98": "beta2 0.98",
    "warm-up of a tenth": "warmup fraction 0.1",
    "gradients of length 1": "max_grad_norm 1",
    "positions running through the text": "positions in the whole text",
    "scores by magnitude": "magnitude attention scores",
    "read-out by magnitude": "magnitude read-out",
    "read out by magnitude": "magnitude read-out",
    "one frequency a dimension": "one frequency per dimension",
    "almost still waves with phases": "near-zero frequencies with phases",
    "no relative terms": "no relative attention",
}
"""Rows of `--choices` in earlier versions; a row may combine some of them."""

_Seconds = Annotated[float, lambda seconds: seconds >= 0]
_Dataset = Annotated[str, (*DATASETS, SST2_SENTENCES).__contains__]


class _Key(TypedDict):
    dataset: _Dataset
    embedding: Annotated[str, EMBEDDING_KINDS.__contains__]
    variant: Annotated[str, VARIANTS.__contains__]
    fold: int
    seed: int
    budget: str
    search: dict[str, Any] | None
    settings: dict[str, Any]


class _Optional(TypedDict, total=False):
    """What the records of anchors and of earlier versions lack."""

    test_macro_f1: Share
    correct: str
    unsearched_accuracy: Share
    n_unsearched: Count
    epochs: Count
    cpu_seconds: _Seconds
    words_per_second: Positive
    parameters: Count


class _Run(_Key, _Optional):
    encoder: Annotated[str, (*ENCODERS, *ANCHORS).__contains__]
    test_accuracy: Share
    n_test: Count
    dev_accuracy: Share
    seconds: _Seconds


class _Wave(TypedDict):
    delta: float
    amplitude: Annotated[list[float], lambda values: len(values) == 3]
    frequency: Annotated[list[float], lambda values: len(values) == 3]


class _Words(_Run):
    words: Annotated[list[str], lambda words: len(words) > 1]
    counts: list[Count]
    delta: list[float]
    untrained_delta: float | None
    waves: Annotated[dict[str, _Wave], len]


class _Trial(TypedDict):
    settings: dict[str, dict[str, Any]]
    dev_accuracy: Share


class _Search(_Key):
    encoder: Annotated[str, ENCODERS.__contains__]
    trials: Annotated[list[_Trial], len]
    n_dev: Count


class _TimedRow(TypedDict):
    encoder: Annotated[str, ENCODERS.__contains__]
    embedding: Annotated[str, EMBEDDING_KINDS.__contains__]
    words_per_second: Annotated[list[Positive], len]
    parameters: Count


class _TimingSettings(TypedDict):
    rounds: int
    steps: int
    cells: Annotated[dict[str, Any], lambda cells: all(len(name.split()) == 2 for name in cells)]


class _Timing(TypedDict):
    dataset: _Dataset
    budget: str
    search: dict[str, Any] | None
    settings: _TimingSettings
    words_per_epoch: Count
    measured: Annotated[list[_TimedRow], len]


_KINDS = {"run": _Run, "words": _Words, "search": _Search, "timing": _Timing}


def is_record(record: Record) -> bool:
    """Whether it has all fields of a record of its kind, with values of the right type."""
    kind = record.get("kind")
    if not isinstance(kind, str) or not fits(record, _KINDS.get(kind, int)):
        return False
    if kind == "words" and not (
        len(record["words"]) == len(record["counts"]) == len(record["delta"])
    ):
        return False
    return "correct" not in record or _holds(record["correct"], record["n_test"])


def upgrade(record: Record) -> Record:
    """A record of Tables 2, 4, 7 or Fig. 5 of an earlier version with the names of today."""
    # `upgrade_record` knows the settings of a record by their former name.
    former = {"how" if name == "settings" else name: value for name, value in record.items()}
    with suppress(ValueError):  # else it is not a record
        former = upgrade_record(former)
    record = {_RENAMED.get(name, name): value for name, value in former.items()}
    if isinstance(record.get("search"), dict):
        record["search"] = {{"pool": "space"}.get(k, k): v for k, v in record["search"].items()}
    if record.get("encoder") in ANCHORS:
        record["search"] = None  # they have hyperparameters of their own
    match record:
        case {"encoder": "cnn", "settings": {"model": dict()} as settings}:
            record["settings"] = _with_padding(settings)
        case {"settings": {"cells": dict(cells)} as settings}:
            new = {n: _with_padding(c) if n.startswith("cnn ") else c for n, c in cells.items()}
            record["settings"] = {**settings, "cells": new}
    return record


def _with_padding(settings: Record) -> Record:
    """The settings of a CNN that say nothing of its windows: they were narrow."""
    return {**settings, "model": {"padding": padding_of("cnn"), **settings["model"]}}


def upgrade_long(record: Record) -> Record:
    """The same for the trainings and timings of Tables 5 and 6."""
    record = upgrade(record)
    row, colon, choice = str(record.get("row")).partition(": ")
    names = [_RENAMED_CHOICES.get(name, name) for name in choice.split(", ")]
    return {**record, "row": row + colon + ", ".join(names)}


def _holds(digits: str, n: int) -> bool:
    """Whether these are the hexadecimal digits of n bits."""
    return len(digits) == -(-n // 4) and set(digits) <= set("0123456789abcdef")


@cache
def provenance() -> Record:
    """The versions and the commit that made a record."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """The commit of the source, with a + if it was changed since; `None` outside of git."""
    root = str(Path(__file__).parents[1])
    try:
        head = _git(root, "rev-parse", "HEAD")
        watched = ("src", "experiments")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *watched)
    except (OSError, subprocess.SubprocessError):
        return None
    return head + "+" if changed else head


def _git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    return done.stdout.strip()
