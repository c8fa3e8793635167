"""Reports of long work, how far it has come and what the user should know, to whoever listens.

Functions that read or compute for long call `track` and `note`; a command line that `listens` shows
the reports. Without a listener, notes are warnings. Needs no torch.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")
SECONDS_BETWEEN_REPORTS = 0.2
TRAINING = "training"
"""The stage that a training loop reports."""


class Listener(Protocol):
    """Receives reports."""

    def stage(self, what: str, share: float) -> None:
        """A share, from 0 to 1, of some work is done."""

    def note(self, line: str) -> None:
        """A line for the user."""


class Silence:
    """Ignores all reports."""

    def stage(self, what: str, share: float) -> None: ...

    def note(self, line: str) -> None: ...


# Not a context variable: texts may be read in another thread than the one that listens.
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Send all reports to a listener, to the end of the process."""
    _listeners.append(listener)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send all reports of the block to a listener, instead of to those outside of it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def note(line: str) -> None:
    """Tell the user something."""
    if _listeners:
        _listeners[-1].note(line)
    else:
        warnings.warn(line, stacklevel=3)


class Stage:
    """Some work that is reported while it is done, at most a few times a second."""

    def __init__(self, what: str) -> None:
        self.what, self._next = what, 0.0

    def at(self, share: float) -> None:
        """A share of it is done."""
        if _listeners and (time.monotonic() >= self._next or share >= 1):
            self._next = time.monotonic() + SECONDS_BETWEEN_REPORTS
            _listeners[-1].stage(self.what, min(share, 1.0))


def track(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items, while it is reported how many of the total have been taken."""
    stage, often = Stage(what), max(total // 1000, 1)
    stage.at(0)
    for done, item in enumerate(items, start=1):
        yield item
        if done % often == 0 and done < total:
            stage.at(done / total)
    stage.at(1)
