"""What commands read and write: texts from a file, an argument or a pipe, and lines of output."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, Any, TypeVar

from wordwave.data.formats import TableFormat, has_cells
from wordwave.data.pairs import PairDataConfig
from wordwave.data.splits import FROM_HUB, DataConfig
from wordwave.errors import WordwaveError
from wordwave.files import write_whole

T = TypeVar("T")
A = TypeVar("A")
FILE_OR_STREAM = "a file or standard input, not with a text itself"
"""What options of tables go with."""


@dataclass(frozen=True)
class InputFormat:
    """How the input is written."""

    delimiter: str | None = None
    """What separates the cells of a .csv or .tsv: a character, such as ";", or the word tab; by
    default as in training."""
    encoding: str | None = None
    """Character encoding: utf-8, cp1252 (Windows), latin-1, utf-16 …; by default that of the
    training files, and utf-8 of standard input."""
    skip_bad_rows: bool = False
    """Leave out rows that are malformed or have bytes that are not of this encoding; they are
    counted and the first ones listed. By default the first one is an error."""

    def check_unused(self, goes_with: str) -> None:
        """Raise if an option is given where there is nothing to read."""
        check_unused(self, goes_with, *vars(self))

    def of(self, source: object, trained: TableFormat | None) -> TableFormat:
        """The format of a file, by default as in training, or of a stream of lines."""
        is_file = isinstance(source, (str, Path))
        if not (is_file and has_cells(str(source))):
            of_what = f"{str(source)!r}" if is_file else "standard input"
            check_unused(self, f"a .csv or .tsv file, not with {of_what}", "delimiter")
        usual = (is_file and trained) or TableFormat()
        return TableFormat(
            self.delimiter or usual.delimiter, self.encoding or usual.encoding, self.skip_bad_rows
        )


def check_unused(options: object, goes_with: str, *names: str) -> None:
    """Raise if any of these options has another value than by default."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(options, name) != getattr(type(options), name)
    ]
    if given:
        raise WordwaveError(f"{' and '.join(given)} must go with {goes_with}")


def check_files(data: Any) -> None:
    """Raise if the data to train on are not in files that options of files are given for.

    Args:
        data: the config of any data.
    """
    if not isinstance(data, (DataConfig, PairDataConfig)) or not data.data:
        return
    is_of_hub = data.data.startswith(FROM_HUB)
    if is_of_hub or not data.files:
        goes_with = f"files of your own, not with {data.data!r}"
        check_unused(data.table, goes_with, *vars(data.table))
        if not is_of_hub:
            columns = [name for name in ("text", "text_a", "text_b", "label") if name in vars(data)]
            check_unused(data, goes_with, *columns)
    elif not any(map(has_cells, data.files)):
        goes_with = f"a .csv or .tsv file, not with {data.data!r}"
        check_unused(data.table, goes_with, "delimiter")


def input_batches(
    given: str | None,
    read: Callable[[str | IO[bytes]], Iterator[T]],
    *,
    size: int = 2048,
    what: str = "texts",
    literal: Callable[[str], Any] = str,
    table: InputFormat | None = None,
) -> Iterator[list[T]]:
    """The input of a command in batches of at most `size` items.

    Args:
        given: a file, or a text itself, or `None` for standard input.
        read: reads the items of a file or a stream.
        what: the items of standard input, one per line, for messages.
        literal: turns a text into an item.
        table: options that have no meaning for a text itself.
    """
    if given is None:
        return _available_batches(read(standard_input(f"{what}, one per line")), size)
    if _is_literal_text(given):
        if table is not None:
            table.check_unused(FILE_OR_STREAM)
        return iter([[literal(given)]])
    items = read(given)
    return iter(lambda: list(islice(items, size)), [])


def _available_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Items in lists of those that have arrived, at most `size`: nothing waits for a full batch."""
    queue: Queue[T | Exception] = Queue(2 * size)

    def fill() -> None:
        end: Exception = StopIteration()
        try:
            for item in items:
                queue.put(item)
        except Exception as problem:  # raised again where the items are used
            end = problem
        queue.put(end)

    Thread(target=fill, daemon=True).start()
    end = None
    while end is None:
        batch: list[T] = []
        while end is None and len(batch) < size and not (batch and queue.empty()):
            item = queue.get()
            if isinstance(item, Exception):
                end = item
            else:
                batch.append(item)
        if batch:
            yield batch
    if not isinstance(end, StopIteration):
        raise end


def _is_literal_text(given: str) -> bool:
    """Whether an argument is a text rather than a file: there is no such file, and it is not
    written as the name of one, with the ending of a file of texts or a folder."""
    if not given.strip():
        return True
    path = Path(given.strip())
    if path.suffix.lower() in (".txt", ".csv", ".tsv", ".json", ".jsonl", ".gz"):
        return False
    if " " not in str(path) and any(mark in str(path) for mark in ("/", "\\")):
        return False
    try:
        return not path.exists()
    except OSError:  # too long for a name
        return True


def standard_input(what: str) -> IO[bytes]:
    """Standard input as bytes; at a terminal a line on standard error asks for it.

    Not `sys.stdin` itself: Python cannot exit while a thread waits for a line of it.
    """
    if sys.stdin is None:
        raise WordwaveError(f"there is no standard input to read {what} from")
    if sys.stdin.isatty():
        print(f"Type {what}; Ctrl-D ends.", file=sys.stderr)
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # a stand-in without a file
        return sys.stdin.buffer


def answered(
    batches: Iterable[list[T]],
    answer: Callable[[list[T]], tuple[list[A], int]],
    note: str,
    *,
    texts_per_item: int = 1,
) -> Iterator[list[tuple[T, A]]]:
    """Items with their answers; at the end, a line on standard error if any were truncated.

    Args:
        answer: returns the answers to a batch, and how many of its texts were truncated.
        note: the end of this line, such as "texts were truncated to 512 words".
    """
    n = n_truncated = 0
    for items in batches:
        answers, truncated = answer(items)
        n, n_truncated = n + texts_per_item * len(items), n_truncated + truncated
        yield list(zip(items, answers, strict=True))
    if n_truncated:
        print(f"{n_truncated:,} of {n:,} {note}", file=sys.stderr)


def write_lines(lines: Iterable[str], out: Path | None = None) -> None:
    """Write lines to standard output as they come, or to a file, completely or not at all."""
    if out is None:
        for line in lines:
            sys.stdout.write(line)
            sys.stdout.flush()
        return
    opener = gzip.open if out.suffix.lower() == ".gz" else open

    def write(new: Path) -> None:
        with opener(new, "wt", encoding="utf-8", newline="") as file:
            file.writelines(lines)

    write_whole(out, write)
    print(f"Written: {out}", file=sys.stderr)
