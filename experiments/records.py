"""What is read of the records of `wordwave reproduce`, so that nothing else is taken for one."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from experiments.anchors import ANCHORS
from experiments.cells import DATASETS, SENTENCES, VARIANTS
from wordwave.grid import Count, Positive, Record, Share, fits
from wordwave.models.config import EMBEDDINGS, ENCODERS

_Seconds = Annotated[float, lambda seconds: seconds >= 0]
_Dataset = Annotated[str, (*DATASETS, SENTENCES).__contains__]


class _Terms(TypedDict):
    dataset: _Dataset
    embedding: Annotated[str, EMBEDDINGS.__contains__]
    variant: Annotated[str, VARIANTS.__contains__]
    fold: int
    seed: int
    budget: str
    search: dict[str, Any] | None
    how: dict[str, Any]


class _Measured(TypedDict, total=False):
    """What anchors and earlier versions do not tell."""

    test_macro_f1: Share
    right: str
    epochs: Count
    cpu_seconds: _Seconds
    words_per_second: Positive
    parameters: Count


class _Run(_Terms, _Measured):
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


class _Search(_Terms):
    encoder: Annotated[str, ENCODERS.__contains__]
    trials: Annotated[list[_Trial], len]
    n_dev: Count


class _Row(TypedDict):
    encoder: Annotated[str, ENCODERS.__contains__]
    embedding: Annotated[str, EMBEDDINGS.__contains__]
    words_per_second: Annotated[list[Positive], len]
    parameters: Count


class _How(TypedDict):
    rounds: int
    steps: int
    cells: Annotated[dict[str, Any], lambda cells: all(len(name.split()) == 2 for name in cells)]


class _Timing(TypedDict):
    dataset: _Dataset
    budget: str
    search: dict[str, Any] | None
    how: _How
    words_per_epoch: Count
    measured: Annotated[list[_Row], len]


_KINDS = {"run": _Run, "words": _Words, "search": _Search, "timing": _Timing}


def is_record(record: Record) -> bool:
    """Whether it has all that is read of a record of its kind, of the right type."""
    kind = record.get("kind")
    if not isinstance(kind, str) or not fits(record, _KINDS.get(kind, int)):
        return False
    if kind == "words" and not (
        len(record["words"]) == len(record["counts"]) == len(record["delta"])
    ):
        return False
    return "right" not in record or _holds(record["right"], record["n_test"])


def _holds(digits: str, n: int) -> bool:
    """Whether hexadecimal digits hold n answers."""
    return len(digits) == -(-n // 4) and set(digits) <= set("0123456789abcdef")
