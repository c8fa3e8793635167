"""Items in batches: as many as are there, without waiting for more."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, TypeVar

from wordwave.errors import WordwaveError

T = TypeVar("T")


def batches(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Items in lists of `most`, the last one shorter."""
    source = iter(items)
    while batch := list(islice(source, most)):
        yield batch


def arriving(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Items in lists of those that have come, at most `most`: a slow pipe is served at once."""
    queue: Queue[T | _End] = Queue(2 * most)
    Thread(target=_fill, args=(queue, items), daemon=True).start()
    while True:
        batch: list[T] = []
        while len(batch) < most and not (batch and queue.empty()):
            item = queue.get()
            if isinstance(item, _End):
                if batch:
                    yield batch
                if item.problem is not None:
                    raise item.problem
                return
            batch.append(item)
        yield batch


def is_text(given: str) -> bool:
    """Whether what stands in the place of a file is a text itself: empty, or with spaces and no
    such file."""
    if not given.strip():
        return True
    path = Path(given.strip())
    if " " not in str(path) or path.suffix.lower() in (".txt", ".csv", ".tsv", ".jsonl", ".gz"):
        return False
    try:
        return not path.exists()
    except OSError:  # too long for a name
        return True


def piped(what: str) -> IO[bytes]:
    """What is piped in, for `arriving`; at a keyboard it says what to type.

    Not `sys.stdin` itself: Python cannot end while a thread waits for a line of it.
    """
    if sys.stdin is None:
        raise WordwaveError(f"there is no standard input to read {what} from")
    if sys.stdin.isatty():
        print(f"Type {what}; Ctrl-D ends.", file=sys.stderr)
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # a stand-in without a file
        return sys.stdin.buffer


def say(lines: Iterable[str]) -> None:
    """Write to standard output, each line as it comes."""
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()


class _End:
    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem


def _fill(queue: Queue[T | _End], items: Iterable[T]) -> None:
    try:
        for item in items:
            queue.put(item)
    except Exception as problem:  # told to the one who waits
        queue.put(_End(problem))
    else:
        queue.put(_End())
