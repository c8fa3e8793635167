"""How files of rows are written: encodings, lines, csv, tsv, jsonl and plain text.

Lines end with LF (or CR LF) only: U+0085 and similar characters are part of a text. A malformed row
is an error in its place, so that the rows after it can still be read.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Literal, cast, get_args

from wordwave.errors import WordwaveError, suggestion

Form = Literal["txt", "csv", "tsv", "jsonl"]
Row = tuple[int, "dict[str, Any] | WordwaveError"]
"""A line number and the cells by column, or what is wrong with them."""

# A binary file must not be read into memory as one line.
_MAX_LINE = 1 << 28
_MAX_CELL = 2**31 - 1  # the largest limit that csv accepts on every platform
UNDECODABLE = "\udfff"
"""Stands for bytes that are not characters, until their row is left out."""
MOST_LINES = 10_000
"""Lines of a csv record, if malformed ones are left out: a quote may never be closed."""
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
"""What commonly separates cells, in the order in which a header is searched for it."""
_WIDE = {"utf-16": 2, "utf-32": 4}
"""Encodings of more than one byte per line end."""


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


def form_of(path: Path, *, exclude: str = "") -> Form:
    """The form that the name of a file stands for."""
    known = [form for form in get_args(Form) if form != exclude]
    form = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if form not in known:
        endings = ", ".join(f".{form}" for form in known)
        raise WordwaveError(f"file '{path}' must end in one of {endings}, or one of these and .gz")
    return cast("Form", form)


def has_cells(name: str | Path) -> bool:
    """Whether a file may have cells, by its name; not so lines of text and JSON."""
    return not str(name).lower().removesuffix(".gz").endswith((".txt", ".jsonl"))


def parse_rows(
    file: IO[bytes],
    form: Form | Literal["prepared"],
    columns: Sequence[str],
    table: TableFormat | None = None,
    remedies: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """The rows of a file, in the order of its lines.

    Args:
        columns: those that a csv or tsv file must have; of lines without names, their names.
        table: how the file is written; if it is given, an error names flags of the command line.
        remedies: what to do if a column is missing.
    """
    given = table or TableFormat()
    lines = _numbered_lines(file, given, flags=table is not None)
    if form in ("csv", "tsv"):
        return _table_rows(lines, form, columns, given, remedies or {}, flags=table is not None)
    return _line_rows(lines, form, columns)


def _numbered_lines(
    file: IO[bytes], table: TableFormat, *, flags: bool
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
            text = content.decode(codec, "replace").replace("\ufffd", UNDECODABLE)
        yield line, text.replace("\0", UNDECODABLE) if table.skip_bad_rows else text
        offset += len(content)


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
    lines: Iterator[tuple[int, str]], form: str, columns: Sequence[str]
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
    lines: Iterator[tuple[int, str]],
    form: str,
    columns: Sequence[str],
    table: TableFormat,
    remedies: Mapping[str, str],
    *,
    flags: bool,
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
            problem = no_column(column, header, remedies.get(column, ""))
            raise WordwaveError(_other_delimiter(column, header, flags=flags) or problem)
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
    pending: deque[tuple[int, str]] = deque()  # those of malformed ones, to be parsed again

    def contents() -> Iterator[str]:
        while numbered := pending.popleft() if pending else next(lines, None):
            record.append(numbered)
            if recover and len(record) > MOST_LINES:
                raise csv.Error(f"a quote is not closed within {MOST_LINES:,} lines")
            yield numbered[1]

    reader = csv.reader(contents(), delimiter=separator, strict=True)
    problem: csv.Error | None
    while True:
        limit = csv.field_size_limit(_MAX_CELL)  # global to the process, so restored
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            pending.extendleft(reversed(record[1:]))
            problem, reader = error, csv.reader(contents(), delimiter=separator, strict=True)
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


def _other_delimiter(column: str, header: list[str], *, flags: bool) -> str:
    """What is wrong if a column is missing because cells are separated otherwise; "" if not."""
    if len(header) != 1:
        return ""
    for separator, name in SEPARATORS.items():
        if separator in header[0]:
            given = '"tab"' if separator == "\t" else f'"{separator}"'
            remedy = f"--delimiter {given}" if flags else f"table=TableFormat(delimiter={given})"
            return (
                f"there is no column {column!r}, only {clipped(header[0])}: if {name} separate the "
                f"cells, {remedy}"
            )
    return ""


def no_column(column: str, columns: list[str], remedy: str = "") -> str:
    """What is wrong if a column is not there exactly once, and how another one is chosen."""
    if columns.count(column) > 1:
        return f"column {column!r} must occur once, got it {columns.count(column)} times"
    hint = suggestion(column, columns, cutoff=0.5)
    shown = ", ".join(clipped(name) for name in columns[:20])
    more = ", …" if len(columns) > 20 else ""
    return f"there is no column {column!r}, only {shown}{more}{hint}{remedy and f'; {remedy}'}"


def csv_cell(text: str) -> str:
    """A text as a csv cell, quoted where needed."""
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def tsv_cell(text: str) -> str:
    """A text as a tsv cell, quoted where needed; tabs and line ends become spaces."""
    cell = re.sub(r"\r\n|[\t\r\n]", " ", text)
    return cell if _unquoted(cell) == cell else '"' + cell.replace('"', '""') + '"'
