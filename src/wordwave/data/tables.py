"""Read texts and labels from csv, tsv, jsonl and plain text files, each also as `.gz`.

Files are streamed. Lines end with LF (or CR LF) only: U+0085 and similar characters are part of a
text. A mistake in a file is reported in one line that names the file, the line and the rule, or its
row is left out.
"""

from __future__ import annotations

import codecs
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
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args

from wordwave.data.columns import blocks, collect, taken
from wordwave.errors import WordwaveError, suggestion
from wordwave.files import DAMAGED, open_binary, sha256_of
from wordwave.progress import Stage, note

if TYPE_CHECKING:
    from wordwave.data.columns import Indices

R = TypeVar("R", bound="Rows")
Form = Literal["txt", "csv", "tsv", "jsonl"]
Row = tuple[int, "dict[str, Any] | WordwaveError"]
"""A line number and the cells by column, or what is wrong with them."""
Cell = Callable[[str, Any], str]
"""Checks a cell, given its column and value, and returns it as a string."""

# A binary file must not be read into memory as one line.
_MAX_LINE = 1 << 28
_MAX_CELL = 2**31 - 1  # the largest limit that csv accepts on every platform
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNDECODABLE = "\udfff"
"""Stands for bytes that are not characters, until their row is left out."""
MOST_LISTED = 5
"""Rows that were left out and are listed."""
MOST_LINES = 10_000
"""Lines of a csv record, if malformed ones are left out: a quote may never be closed."""


@dataclass(frozen=True)
class TableFormat:
    """How files of your own are written."""

    delimiter: str | None = None
    """What separates the cells of a .csv or .tsv: a character, such as ";", or the word tab; by
    default a comma in a .csv and a tab in a .tsv."""
    encoding: str = "utf-8"
    """Character encoding of the files: utf-8, cp1252 (Windows), latin-1, utf-16, shift_jis, …"""
    skip_bad_rows: bool = False
    """Leave out rows that are malformed, lack a text or a label or have bytes that are not of this
    encoding; they are counted and the first ones listed. By default the first one is an error."""

    def __post_init__(self) -> None:
        if self.delimiter is not None and (
            len(self.separator) != 1 or self.separator in '"\r\n\0' or not self.separator.isascii()
        ):
            raise WordwaveError(
                f"delimiter must be one ASCII character or the word tab, got {self.delimiter!r}"
            )
        try:
            codec = codecs.lookup(self.encoding)
            if codec.name[:6] not in _WIDE and not codec.encode("a\n")[0].endswith(b"a\n"):
                raise LookupError
        except (LookupError, ValueError, TypeError, AttributeError):
            raise WordwaveError(
                "encoding must be a known one, such as utf-8, cp1252, latin-1 or utf-16, got "
                f"{clipped(self.encoding)}"
            ) from None

    @property
    def separator(self) -> str:
        """The delimiter as a character, "" for that of the file's form."""
        return "\t" if self.delimiter in ("tab", "\\t") else self.delimiter or ""


class Rows:
    """Columns of strings, which are the fields of a dataclass but for its name."""

    name: str

    @property
    def columns(self) -> tuple[Sequence[str], ...]:
        """All columns, in the order of the fields."""
        return tuple(v for name, v in vars(self).items() if name != "name")

    def __len__(self) -> int:
        return len(self.columns[0])

    def subset(self: R, rows: Iterable[int] | Indices, name: str | None = None) -> R:
        """Some of the rows."""
        make: Any = type(self)
        rows = cast("Sequence[int]", rows if hasattr(rows, "__len__") else list(rows))
        return make(*(taken(column, rows) for column in self.columns), name or self.name)

    def representation(self) -> Iterator[bytes]:
        """`repr(self.columns)`, piece by piece."""
        for number, column in enumerate(self.columns):
            before = ", [" if number else "(["
            for block in blocks(column):
                yield (before + repr(block)[1:-1]).encode()
                before = ", "
            yield b"]" if len(column) else (before + "]").encode()
        yield b")"


@dataclass(frozen=True)
class PartsOf(Generic[R]):
    """The training, validation and test sets."""

    train: R
    dev: R | None
    test: R | None

    def fingerprint(self) -> str:
        """A hash of all rows."""
        given = [part for part in (self.train, self.dev, self.test) if part is not None]
        return sha256_of(piece for part in given for piece in part.representation())[:16]


@dataclass(frozen=True)
class Examples(Rows):
    """Texts and their labels."""

    texts: Sequence[str] = field(repr=False)
    labels: Sequence[str] = field(repr=False)
    name: str = "examples"
    """Where they come from, for messages."""

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"{len(self.texts)} texts, {len(self.labels)} labels"
            raise WordwaveError(f"{self.name}: every text must have a label, got {got}")


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
    rows = read_table(path, cells, what="example", table=table)
    return Examples(*collect((row[text], row[label]) for row in rows), str(path))


def read_table(
    path: str | Path, cells: Mapping[str, Cell], *, what: str, table: TableFormat | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a csv, tsv or jsonl file, whose columns `cells` are there and checked."""
    path = _existing_file(path)
    return _rows(path, _form_of(path, exclude="txt"), cells, what=what, table=table)


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
    cells = dict.fromkeys(columns, optional_text)
    return _rows(file, form or "txt", cells, what="text", table=table)


def read_texts(
    source: str | Path | IO[bytes] | IO[str],
    *,
    text: str = "text",
    form: Form | None = None,
    table: TableFormat | None = None,
) -> Iterator[str]:
    """The texts of `read_rows`."""
    rows = read_rows(source, text=text, form=form, table=table)
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
    table: TableFormat | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of a file or stream, whose columns `cells` are there and checked."""
    n, skipped, listed = 0, 0, list[str]()
    hint = "" if table is None else "; --skip-bad-rows leaves such rows out"
    given = table or TableFormat()
    with _opened(source) as file:
        position = _share_read(source, file)
        stage = Stage(f"reading {source.name}") if isinstance(source, Path) else None
        lines = _numbered_lines(file, given, flags=table is not None)
        parse = _table_rows if form in ("csv", "tsv") else _line_rows
        for line, row in parse(lines, form, list(cells), given):
            problem = row if isinstance(row, WordwaveError) else _problem(line, row, cells, given)
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
    line: int, row: dict[str, Any], cells: Mapping[str, Cell], table: TableFormat
) -> WordwaveError | None:
    """Check the cells of a row, which are replaced by what they stand for."""
    for column, checked in cells.items():
        try:
            if column not in row:
                raise WordwaveError(_no_column(column, list(row)))
            row[column] = checked(column, row[column])
            if _SURROGATE.search(row[column]) and not table.skip_bad_rows:
                raise WordwaveError(f"{column!r} holds half a surrogate pair")
        except WordwaveError as problem:
            return WordwaveError(f"line {line}: {problem}")
    if table.skip_bad_rows:
        for column, value in row.items():
            if isinstance(value, str) and (found := _SURROGATE.search(value)):
                rule = f"bytes that are not {table.encoding}"
                rule = rule if found[0] == _UNDECODABLE else "half a surrogate pair"
                return WordwaveError(f"line {line}: {column!r} holds {rule}")
    return None


def _share_read(source: Path | IO[bytes], file: IO[bytes]) -> Callable[[], float]:
    """How much of a file has been read, from 0 to 1; of a compressed one, of its bytes."""
    if not isinstance(source, Path):
        return lambda: 0.0
    raw, size = getattr(file, "fileobj", None) or file, max(source.stat().st_size, 1)
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


def _numbered_lines(
    file: IO[bytes], table: TableFormat, *, flags: bool = False
) -> Iterator[tuple[int, str]]:
    """Numbered lines with their line ends, split at LF only.

    Args:
        flags: whether an error names the flags of the command line.
    """
    codec, offset, lines = _encoded_lines(file, table.encoding)
    is_utf8 = codec == "utf-8"
    for line, content in enumerate(lines, start=1):
        if len(content) >= _MAX_LINE:
            raise WordwaveError(f"line {line} must be shorter than {_MAX_LINE} bytes")
        if codec[:6] not in _WIDE and b"\0" in content and not table.skip_bad_rows:
            hint = "; or --encoding utf-16" if flags and line == 1 else ""
            raise WordwaveError(f"line {line} holds a NUL byte: not a text file{hint}")
        if line == 1 and is_utf8 and content.startswith(codecs.BOM_UTF8):
            offset, content = 3, content[3:]
        try:
            text = content.decode(codec)
        except UnicodeDecodeError as error:
            if not table.skip_bad_rows:
                at, byte = offset + error.start, content[error.start]
                name = "UTF-8" if is_utf8 else table.encoding
                hint = f" (0x{byte:02x}): choose another --encoding" if flags else ""
                hint += ", such as cp1252, or --skip-bad-rows" if flags else ""
                raise WordwaveError(
                    f"line {line} must be {name}, but is not at byte {at}{hint}"
                ) from None
            text = content.decode(codec, "replace").replace("\ufffd", _UNDECODABLE)
        yield line, text.replace("\0", _UNDECODABLE) if table.skip_bad_rows else text
        offset += len(content)


_WIDE = {"utf-16": 2, "utf-32": 4}
"""Encodings of more than one byte per line end."""


def _encoded_lines(file: IO[bytes], encoding: str) -> tuple[str, int, Iterator[bytes]]:
    """The name of a codec, the length of a byte order mark, and the lines as bytes."""
    codec = codecs.lookup(encoding).name
    if codec[:6] not in _WIDE:
        codec = "utf-8" if codec == "utf-8-sig" else codec
        return codec, 0, iter(lambda: file.readline(_MAX_LINE), b"")
    start = file.read(_WIDE[codec[:6]])
    marks = {"le": "\ufeff".encode(f"{codec[:6]}-le"), "be": "\ufeff".encode(f"{codec[:6]}-be")}
    order = codec[7:] or ("be" if start == marks["be"] else "le")
    is_mark = start == marks[order]
    codec = f"{codec[:6]}-{order}"
    lines = _wide_lines(file, b"" if is_mark else start, "\n".encode(codec))
    return codec, len(start) * is_mark, lines


def _wide_lines(file: IO[bytes], rest: bytes, end: bytes) -> Iterator[bytes]:
    """Lines of characters of several bytes, which begin at multiples of their size."""
    searched = 0
    while piece := file.read(1 << 16):
        rest += piece
        begin = 0
        while (at := rest.find(end, searched)) >= 0:
            searched = at + 1
            if (at - begin) % len(end) == 0:
                searched = at + len(end)
                yield rest[begin:searched]
                begin = searched
        rest, searched = rest[begin:], max(len(rest) - begin - len(end), 0)
        if len(rest) >= _MAX_LINE:
            break
    if rest:
        yield rest


def _line_rows(
    lines: Iterator[tuple[int, str]], form: str, columns: Sequence[str], table: TableFormat
) -> Iterator[Row]:
    """The rows of a form in which each line stands for itself."""
    for line, content in lines:
        if form == "txt":
            whole = content.removesuffix("\n").removesuffix("\r")
            texts = whole.split("\t") if len(columns) > 1 else [whole]
            if len(texts) != len(columns):
                rule = f"must hold {len(columns)} texts separated by tabs, got {len(texts)}"
                yield line, WordwaveError(f"line {line} {rule}")
            else:
                yield line, dict(zip(columns, texts, strict=True))
        elif form == "prepared":
            label, tab, text = content.removesuffix("\n").partition("\t")
            if tab:
                yield line, {"label": label, "text": text}
            else:
                got = clipped(content)
                yield line, WordwaveError(f"line {line} must be label<TAB>text, got {got}")
        elif content.strip():
            try:
                row = json.loads(content)
            except (ValueError, RecursionError):
                yield line, WordwaveError(f"line {line} must be JSON, got {clipped(content)}")
                continue
            if isinstance(row, dict):
                yield line, row
            else:
                yield line, WordwaveError(f"line {line} must be a JSON object, got {clipped(row)}")


def _table_rows(
    lines: Iterator[tuple[int, str]], form: str, columns: Sequence[str], table: TableFormat
) -> Iterator[Row]:
    """The rows of a csv or tsv file, whose first line names the columns."""
    separator = table.separator or ("," if form == "csv" else "\t")
    records = (
        _csv_records(lines, separator, recover=table.skip_bad_rows)
        if form == "csv"
        else _tsv_records(lines, separator)
    )
    _, header = next(records, (0, None))
    if header is None:
        raise WordwaveError("must start with a line of column names, got an empty file")
    if isinstance(header, WordwaveError):
        raise header
    for column in columns:
        if header.count(column) != 1:
            raise WordwaveError(_no_column(column, header))
    names: list[str] = []
    for name in header:  # repeated ones become NAME.1, NAME.2, …
        candidates = chain([name], (f"{name}.{n}" for n in count(1)))
        names.append(next(candidate for candidate in candidates if candidate not in names))
    for line, cells in records:
        if isinstance(cells, WordwaveError):
            yield line, cells
        elif len(cells) != len(names):
            rule = f"must have {len(names)} cells like the first line, got {len(cells)}"
            yield line, WordwaveError(f"line {line} {rule}")
        else:
            yield line, dict(zip(names, cells, strict=True))


Record = tuple[int, "list[str] | WordwaveError"]
"""The number of a first line and the cells, or what is wrong with them."""


def _csv_records(
    lines: Iterator[tuple[int, str]], separator: str, *, recover: bool
) -> Iterator[Record]:
    """The records of a csv file; blank lines are skipped.

    Args:
        recover: after a malformed record, parsing continues with the line after its first one.
    """
    record: list[tuple[int, str]] = []  # the lines of the current one

    def contents(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        for numbered in lines:
            record.append(numbered)
            if recover and len(record) > MOST_LINES:
                raise csv.Error(f"a quote is not closed within {MOST_LINES:,} lines")
            yield numbered[1]

    reader = csv.reader(contents(lines), delimiter=separator, strict=True)
    problem: csv.Error | None
    while True:
        limit = csv.field_size_limit(_MAX_CELL)  # global to the process, so restored
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines, problem = chain(record[1:], lines), error
            reader = csv.reader(contents(lines), delimiter=separator, strict=True)
        else:
            problem = None
        finally:
            csv.field_size_limit(limit)
        line = record[0][0]
        record.clear()
        if problem is not None:
            yield line, WordwaveError(f"line {line} is not csv: {problem}")
        elif cells:
            yield line, cells


def _tsv_records(lines: Iterator[tuple[int, str]], separator: str) -> Iterator[Record]:
    for line, content in lines:
        if row := content.removesuffix("\n").removesuffix("\r"):
            yield line, list(map(_unquoted, row.split(separator)))


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
        return (
            f"there is no column {column!r}: cells are separated by semicolons, not commas: "
            '--delimiter ";"'
        )
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
