"""Read texts and labels from csv, tsv, jsonl and plain text files, each also as `.gz`.

Files are streamed. A mistake in a file is reported in one line that names the file, the line and
the rule, or its row is left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Literal, cast

from wordwave.data.columns import collect
from wordwave.data.examples import Examples
from wordwave.data.formats import (
    UNDECODABLE,
    Form,
    TableFormat,
    form_of,
    no_column,
    parse_rows,
)
from wordwave.errors import WordwaveError
from wordwave.files import DAMAGED, open_binary
from wordwave.progress import Stage, note

Cell = Callable[[str, Any], str]
"""Checks a cell, given its column and value, and returns it as a string."""

MOST_LISTED = 5
"""Rows that were left out and are listed."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_examples(
    path: str | Path,
    *,
    text: str = "text",
    label: str = "label",
    several_labels: bool = False,
    table: TableFormat | None = None,
    may_be_empty: bool = False,
) -> Examples:
    """Texts and labels from two columns of a csv, tsv or jsonl file.

    A row of a tsv file is one line. A cell quoted as spreadsheets do it, with inner quotes doubled,
    is unquoted; any other quotes are part of the text. Many texts are kept in a temporary file.

    Args:
        may_be_empty: a text may be missing, to be predicted like any other.
        several_labels: a cell holds any number of labels, also none.
    """
    cells = {
        text: optional_text if may_be_empty else text_cell,
        label: labels_cell if several_labels else label_cell,
    }
    options = {text: "text", label: "label"}
    rows = read_table(path, cells, what="example", table=table, options=options)
    return Examples(*collect((row[text], row[label]) for row in rows), str(path))


def read_table(
    path: str | Path,
    cells: Mapping[str, Cell],
    *,
    what: str,
    table: TableFormat | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of a csv, tsv or jsonl file, whose columns `cells` are there and checked.

    Args:
        options: the parameter that names a column, for the message if it is missing.
    """
    path = _existing_file(path)
    form = form_of(path, exclude="txt")
    return _rows(path, form, cells, what=what, table=table, options=options)


def read_prepared(path: str | Path, classes: Sequence[str] | None = None) -> Examples:
    """Texts and labels from a prepared file, `label<TAB>text` per line; a text may be empty.

    With `classes`, label i is read as `classes[i]`.
    """

    cells = {} if classes is None else {"label": class_cell(classes)}
    path = _existing_file(path)
    rows = list(_rows(path, "prepared", cells, what="example"))
    return Examples([row["text"] for row in rows], [row["label"] for row in rows], str(path))


def read_rows(
    source: str | Path | IO[bytes] | IO[str],
    *,
    text: str | Sequence[str] = "text",
    form: Form | None = None,
    table: TableFormat | None = None,
    option: str = "text",
) -> Iterator[dict[str, Any]]:
    """Rows one by one, each a dictionary by column, from a file or a stream of any size.

    A `.txt` file and a stream hold one text per line, or several that are separated by tabs; csv,
    tsv and jsonl have text columns, in which null is an empty text. `form` overrides the file's
    suffix.

    Args:
        option: the one that names a single column, for the message if it is missing.
    """
    file: Any = getattr(source, "buffer", source)  # sys.stdin as bytes
    if isinstance(source, (str, Path)):
        file = _existing_file(source)
        form = form or form_of(file)
    columns = [text] if isinstance(text, str) else text
    cells = dict.fromkeys(columns, optional_text)
    names = [option] if len(columns) == 1 else ["text_a", "text_b"]
    options = dict(zip(columns, names, strict=False))
    return _rows(file, form or "txt", cells, what="text", table=table, options=options)


def read_texts(
    source: str | Path | IO[bytes] | IO[str],
    *,
    text: str = "text",
    form: Form | None = None,
    table: TableFormat | None = None,
    option: str = "text",
) -> Iterator[str]:
    """The texts of `read_rows`."""
    rows = read_rows(source, text=text, form=form, table=table, option=option)
    return (row[text] for row in rows)


def _existing_file(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise WordwaveError(f"'{path}' must be a file, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"file '{path}' does not exist")
    return path


def _rows(
    source: Path | IO[bytes],
    form: Form | Literal["prepared"],
    cells: Mapping[str, Cell],
    *,
    what: str,
    table: TableFormat | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of a file or stream, whose columns `cells` are there and checked."""
    remedies = {
        column: "name it with " + (f"{name}=…" if table is None else f"--{name.replace('_', '-')}")
        for column, name in (options or {}).items()
    }
    n, skipped, listed = 0, 0, list[str]()
    hint = "" if table is None else "; --skip-bad-rows leaves such rows out"
    given = table or TableFormat()
    with _opened(source) as file:
        position = _share_read(source, file)
        stage = Stage(f"reading {source.name}") if isinstance(source, Path) else None
        for line, row in parse_rows(file, form, list(cells), table, remedies):
            problem = (
                row
                if isinstance(row, WordwaveError)
                else _problem(line, row, cells, given, remedies)
            )
            if problem is None:
                n += 1
                if stage is not None and n % 1024 == 0:
                    stage.at(position())
                yield cast("dict[str, Any]", row)
            elif not given.skip_bad_rows:
                raise WordwaveError(f"{problem}{hint}")
            else:
                skipped += 1
                listed += [str(problem)] if skipped <= MOST_LISTED else []
        if stage is not None:
            stage.at(1)
        if skipped:
            name = f"file '{source}'" if isinstance(source, Path) else "the input"
            more = "; …" if skipped > MOST_LISTED else ""
            were = "was" if skipped == 1 else "were"
            shown = (
                f"{skipped:,} of {n + skipped:,} rows {were} left out: {'; '.join(listed)}{more}"
            )
            note(f"{name}: {shown}")
        if not n:
            raise WordwaveError(f"must hold at least one {what}, got none")


def _problem(
    line: int,
    row: dict[str, Any],
    cells: Mapping[str, Cell],
    table: TableFormat,
    remedies: Mapping[str, str],
) -> WordwaveError | None:
    """Check the cells of a row, which are replaced by what they stand for."""
    for column, checked in cells.items():
        try:
            if column not in row:
                raise WordwaveError(no_column(column, list(row), remedies.get(column, "")))
            row[column] = checked(column, row[column])
            if _SURROGATE.search(row[column]) and not table.skip_bad_rows:
                raise WordwaveError(f"{column!r} holds half a surrogate pair")
        except WordwaveError as problem:
            return WordwaveError(f"line {line}: {problem}")
    if table.skip_bad_rows:
        for column, value in row.items():
            if isinstance(value, str) and (found := _SURROGATE.search(value)):
                rule = f"bytes that are not {table.encoding}"
                rule = rule if found[0] == UNDECODABLE else "half a surrogate pair"
                return WordwaveError(f"line {line}: {column!r} holds {rule}")
    return None


def _share_read(source: Path | IO[bytes], file: IO[bytes]) -> Callable[[], float]:
    """How much of a file has been read, from 0 to 1; of a compressed one, of its bytes. Of a stream
    or a named pipe it is not known, and 0."""
    raw = getattr(file, "fileobj", None) or file
    if not isinstance(source, Path) or not raw.seekable():
        return lambda: 0.0
    size = max(source.stat().st_size, 1)
    return lambda: raw.tell() / size


@contextmanager
def _opened(source: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """The file or stream as bytes; errors inside the block name it. A stream is left open."""
    name = f"file '{source}'" if isinstance(source, Path) else "the input"
    try:
        with open_binary(source) if isinstance(source, Path) else nullcontext(source) as file:
            yield file
    except DAMAGED as error:
        raise WordwaveError(f"{name} is not a complete gzip file: {error}") from None
    except ValueError as error:
        raise WordwaveError(f"{name}: {error}") from None


def text_cell(column: str, value: Any) -> str:
    if value is None or value == "" or value != value:
        raise WordwaveError(f"{column!r} must hold a text, got {_nothing(value)}")
    if not isinstance(value, str):
        raise WordwaveError(f"{column!r} must be a text, got {clipped(value)}")
    return value


def optional_text(column: str, value: Any) -> str:
    """A text, "" if there is none."""
    return "" if value is None or value == "" else text_cell(column, value)


def label_cell(column: str, value: Any) -> str:
    """A label as a string; numbers and booleans as in JSON."""
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    if not isinstance(value, str) or value.strip().lower() in ("", "nan"):
        raise WordwaveError(f"{column!r} must hold a label, got {_nothing(value)}")
    return value


def labels_cell(column: str, value: Any) -> str:
    """Labels as a string; there may be none."""
    is_none = value is None or (isinstance(value, str) and not value.strip())
    return "" if is_none else label_cell(column, value)


def class_cell(classes: Sequence[str]) -> Cell:
    """A class by its number, as the prepared files have it, to its name."""

    def class_name(column: str, value: str) -> str:
        if not (value.isdecimal() and int(value) < len(classes)):
            raise WordwaveError(f"{column} must be 0 … {len(classes) - 1}, got {clipped(value)}")
        return classes[int(value)]

    return class_name


def number_cell(column: str, value: Any) -> str:
    """A finite number."""
    try:
        is_number = not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        is_number = False
    if not is_number:
        raise WordwaveError(f"{column!r} must hold a number, got {_nothing(value)}")
    return str(value)


def _nothing(value: object) -> str:
    return "nothing" if value is None or value == "" else clipped(value)
