"""Read texts and labels from csv, tsv, jsonl and plain text files, each also as `.gz`.

Files are streamed. Lines end with LF (or CR LF) only: U+0085 and similar characters are part of a
text. A mistake in a file is reported in one line that names the file, the line and the rule.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Generic, Literal, TypeVar, cast, get_args

from wordwave.errors import WordwaveError, suggestion
from wordwave.files import DAMAGED, open_binary, sha256_of

R = TypeVar("R", bound="Rows")
Form = Literal["txt", "csv", "tsv", "jsonl"]
Row = tuple[int, dict[str, Any]]
"""A line number and the cells by column."""
Cell = Callable[[str, Any], str]
"""Checks a cell, given its column and value, and returns it as a string."""

# A binary file must not be read into memory as one line.
_MAX_LINE = 1 << 28
_MAX_CELL = 2**31 - 1  # the largest limit that csv accepts on every platform
_SURROGATE = re.compile("[\ud800-\udfff]")


class Rows:
    """Columns of strings, which are the fields of a dataclass but for its name."""

    name: str

    @property
    def columns(self) -> tuple[list[str], ...]:
        """All columns, in the order of the fields."""
        return tuple(v for name, v in vars(self).items() if name != "name")

    def __len__(self) -> int:
        return len(self.columns[0])

    def subset(self: R, indices: Iterable[int], name: str | None = None) -> R:
        """Some of the rows."""
        rows = list(indices)
        make: Any = type(self)
        return make(*([column[i] for i in rows] for column in self.columns), name or self.name)


@dataclass(frozen=True)
class PartsOf(Generic[R]):
    """The training, validation and test sets."""

    train: R
    dev: R | None
    test: R | None

    def fingerprint(self) -> str:
        """A hash of all rows."""
        given = [part for part in (self.train, self.dev, self.test) if part is not None]
        return sha256_of(repr(part.columns).encode() for part in given)[:16]


@dataclass(frozen=True)
class Examples(Rows):
    """Texts and their labels."""

    texts: list[str] = field(repr=False)
    labels: list[str] = field(repr=False)
    name: str = "examples"
    """Where they come from, for messages."""

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"{len(self.texts)} texts, {len(self.labels)} labels"
            raise WordwaveError(f"{self.name}: every text must have a label, got {got}")


def read_examples(path: str | Path, *, text: str = "text", label: str = "label") -> Examples:
    """Texts and labels from two columns of a csv, tsv or jsonl file.

    A row of a tsv file is one line. A cell quoted as spreadsheets do it, with inner quotes doubled,
    is unquoted; any other quotes are part of the text.
    """
    rows = read_table(path, {text: text_cell, label: label_cell}, what="example")
    return Examples([row[text] for row in rows], [row[label] for row in rows], str(path))


def read_table(path: str | Path, cells: Mapping[str, Cell], *, what: str) -> list[dict[str, Any]]:
    """The rows of a csv, tsv or jsonl file, whose columns `cells` are there and checked."""
    path = _existing_file(path)
    return list(_rows(path, _form_of(path, exclude="txt"), cells, what=what))


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
) -> Iterator[dict[str, Any]]:
    """Rows one by one, each a dictionary by column, from a file or a stream of any size.

    A `.txt` file and a stream hold one text per line, or several that are separated by tabs; csv,
    tsv and jsonl have text columns, in which null is an empty text. `form` overrides the file's
    suffix.
    """
    file: Any = getattr(source, "buffer", source)  # sys.stdin as bytes
    if isinstance(source, (str, Path)):
        file = _existing_file(source)
        form = form or _form_of(file)
    columns = [text] if isinstance(text, str) else text
    return _rows(file, form or "txt", dict.fromkeys(columns, _optional_text), what="text")


def read_texts(
    source: str | Path | IO[bytes] | IO[str], *, text: str = "text", form: Form | None = None
) -> Iterator[str]:
    """The texts of `read_rows`."""
    rows = read_rows(source, text=text, form=form)
    return (row[text] for row in rows)


def csv_cell(text: str) -> str:
    """A text as a csv cell, quoted where needed."""
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def tsv_cell(text: str) -> str:
    """A text as a tsv cell, quoted where needed; tabs and line ends become spaces."""
    cell = re.sub(r"\r\n|[\t\r\n]", " ", text)
    return cell if _unquoted(cell) == cell else '"' + cell.replace('"', '""') + '"'


def _existing_file(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise WordwaveError(f"'{path}' must be a file, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"file '{path}' does not exist")
    return path


def _form_of(path: Path, *, exclude: str = "") -> Form:
    known = [form for form in get_args(Form) if form != exclude]
    form = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if form not in known:
        endings = ", ".join(f".{form}" for form in known)
        raise WordwaveError(f"file '{path}' must end in one of {endings}, or one of these and .gz")
    return cast("Form", form)


def _rows(
    source: Path | IO[bytes],
    form: Form | Literal["prepared"],
    cells: Mapping[str, Cell],
    *,
    what: str,
) -> Iterator[dict[str, Any]]:
    """The rows of a file or stream, whose columns `cells` are there and checked."""
    empty = True
    with _opened(source) as file:
        parse = _table_rows if form in ("csv", "tsv") else _line_rows
        for line, row in parse(file, form, list(cells)):
            for column, checked in cells.items():
                try:
                    if column not in row:
                        raise WordwaveError(_no_column(column, list(row)))
                    row[column] = checked(column, row[column])
                    if _SURROGATE.search(row[column]):
                        raise WordwaveError(f"{column!r} holds half a surrogate pair")
                except WordwaveError as problem:
                    raise WordwaveError(f"line {line}: {problem}") from None
            empty = False
            yield row
        if empty:
            raise WordwaveError(f"must hold at least one {what}, got none")


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


def _numbered_lines(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Numbered lines with their line ends, split at LF only."""
    line = offset = 0
    while content := file.readline(_MAX_LINE):
        line += 1
        if len(content) == _MAX_LINE:
            raise WordwaveError(f"line {line} must be shorter than {_MAX_LINE} bytes")
        if b"\0" in content:
            raise WordwaveError(f"line {line} holds a NUL byte: not a text file")
        if line == 1:
            offset = 3 * content.startswith(b"\xef\xbb\xbf")  # a byte order mark
            content = content[offset:]
        try:
            yield line, content.decode("utf-8")
        except UnicodeDecodeError as error:
            at = offset + error.start
            raise WordwaveError(f"line {line} must be UTF-8, but is not at byte {at}") from None
        offset += len(content)


def _line_rows(file: IO[bytes], form: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a form in which each line stands for itself."""
    for line, content in _numbered_lines(file):
        if form == "txt":
            whole = content.removesuffix("\n").removesuffix("\r")
            texts = whole.split("\t") if len(columns) > 1 else [whole]
            if len(texts) != len(columns):
                rule = f"must hold {len(columns)} texts separated by tabs, got {len(texts)}"
                raise WordwaveError(f"line {line} {rule}")
            yield line, dict(zip(columns, texts, strict=True))
        elif form == "prepared":
            label, tab, text = content.removesuffix("\n").partition("\t")
            if not tab:
                raise WordwaveError(f"line {line} must be label<TAB>text, got {clipped(content)}")
            yield line, {"label": label, "text": text}
        elif content.strip():
            try:
                row = json.loads(content)
            except (ValueError, RecursionError):
                raise WordwaveError(f"line {line} must be JSON, got {clipped(content)}") from None
            if not isinstance(row, dict):
                raise WordwaveError(f"line {line} must be a JSON object, got {clipped(row)}")
            yield line, row


def _table_rows(file: IO[bytes], form: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a csv or tsv file, whose first line names the columns."""
    records = _csv_records(file) if form == "csv" else _tsv_records(file)
    _, header = next(records, (0, None))
    if header is None:
        raise WordwaveError("must start with a line of column names, got an empty file")
    for column in columns:
        if header.count(column) != 1:
            raise WordwaveError(_no_column(column, header))
    names: list[str] = []
    for name in header:  # repeated ones become NAME.1, NAME.2, …
        candidates = chain([name], (f"{name}.{n}" for n in count(1)))
        names.append(next(candidate for candidate in candidates if candidate not in names))
    for line, cells in records:
        if len(cells) != len(names):
            rule = f"must have {len(names)} cells like the first line, got {len(cells)}"
            raise WordwaveError(f"line {line} {rule}")
        yield line, dict(zip(names, cells, strict=True))


def _csv_records(file: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their first line; blank lines are skipped."""
    reader = csv.reader((content for _, content in _numbered_lines(file)), strict=True)
    while True:
        line = reader.line_num + 1
        limit = csv.field_size_limit(_MAX_CELL)  # global to the process, so restored
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise WordwaveError(f"line {line} is not csv: {error}") from None
        finally:
            csv.field_size_limit(limit)
        if cells:
            yield line, cells


def _tsv_records(file: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    for line, content in _numbered_lines(file):
        if row := content.removesuffix("\n").removesuffix("\r"):
            yield line, list(map(_unquoted, row.split("\t")))


def _unquoted(cell: str) -> str:
    """A cell of a tsv file without the quotes around it, if it is quoted as in csv."""
    if len(cell) < 2 or not (cell[0] == cell[-1] == '"'):
        return cell
    inside = cell[1:-1]
    return cell if '"' in inside.replace('""', "") else inside.replace('""', '"')


def _no_column(column: str, columns: list[str]) -> str:
    if columns.count(column) > 1:
        return f"column {column!r} must occur once, got it {columns.count(column)} times"
    if len(columns) == 1 and ";" in columns[0]:
        return f"there is no column {column!r}: cells must be separated by commas, not semicolons"
    hint = suggestion(column, columns, cutoff=0.5)
    shown = ", ".join(clipped(name) for name in columns[:20])
    more = ", …" if len(columns) > 20 else ""
    return f"there is no column {column!r}, only {shown}{more}{hint}"


def text_cell(column: str, value: Any) -> str:
    if value is None or value == "" or value != value:
        raise WordwaveError(f"{column!r} must hold a text, got {_nothing(value)}")
    if not isinstance(value, str):
        raise WordwaveError(f"{column!r} must be a text, got {clipped(value)}")
    return value


def _optional_text(column: str, value: Any) -> str:
    return "" if value is None or value == "" else text_cell(column, value)


def label_cell(column: str, value: Any) -> str:
    """A label as a string; numbers and booleans as in JSON."""
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    if not isinstance(value, str) or value.strip().lower() in ("", "nan"):
        raise WordwaveError(f"{column!r} must hold a label, got {_nothing(value)}")
    return value


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
