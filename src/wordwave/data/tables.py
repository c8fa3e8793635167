"""Texts and labels out of files: csv, tsv, jsonl and plain text, each also as `.gz`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, cast

from wordwave.data.row_files import (
    Form,
    blamed,
    existing,
    form_of,
    numbered_lines,
    opened,
    rows,
)

_NOT_A_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Examples:
    """Texts and their labels, one for one."""

    texts: list[str] = field(repr=False)
    labels: list[str] = field(repr=False)
    name: str = "examples"
    """Where they come from, for messages."""

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            n, m = len(self.texts), len(self.labels)
            raise ValueError(
                f"{self.name}: every text must have a label, got {n} texts, {m} labels"
            )

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, indices: Iterable[int], name: str | None = None) -> Examples:
        rows = list(indices)
        texts, labels = [self.texts[i] for i in rows], [self.labels[i] for i in rows]
        return Examples(texts, labels, name or self.name)


def read_examples(path: str | Path, *, text: str = "text", label: str = "label") -> Examples:
    """Texts and labels from two columns of a csv, tsv or jsonl file.

    A row of a tsv file is one line. A cell in quotes that doubles those within, as spreadsheets
    write it, is read without them; any other quotes are part of the text.
    """
    path = existing(path)
    form = form_of(path, but="txt")
    texts, labels = [], []
    with opened(path) as file, blamed(path):
        for line, row in rows(file, form, (text, label)):
            texts.append(_text_in(row, text, line))
            labels.append(_label_in(row, label, line))
        if not texts:
            raise ValueError("must hold at least one example, got none")
    return Examples(texts, labels, str(path))


def read_headerless(path: str | Path, classes: Sequence[str] | None = None) -> Examples:
    """Texts and labels from the catalogue's form, `label<TAB>text`; a text may be empty.

    With `classes`, label i is read as `classes[i]`.
    """
    path = existing(path)
    texts, labels = [], []
    with opened(path) as file, blamed(path):
        for line, content in numbered_lines(file):
            label, tab, text = content.removesuffix("\n").partition("\t")
            if not tab:
                raise ValueError(f"line {line} must be label<TAB>text, got {clipped(content)}")
            if classes is not None:
                if not (label.isdecimal() and int(label) < len(classes)):
                    raise ValueError(
                        f"line {line}: label must be 0 … {len(classes) - 1}, got {clipped(label)}"
                    )
                label = classes[int(label)]
            texts.append(text)
            labels.append(label)
        if not texts:
            raise ValueError("must hold at least one example, got none")
    return Examples(texts, labels, str(path))


def read_texts(
    source: str | Path | IO[bytes] | IO[str], *, text: str = "text", form: Form | None = None
) -> Iterator[str]:
    """Texts one by one, from a file or a stream of any size.

    A `.txt` file and a stream hold one text a line; csv, tsv and jsonl have a text column, in which
    null is an empty text. A text may be empty. `form` says so where the name does not.
    """
    if isinstance(source, (str, Path)):
        path = existing(source)
        return _texts(path, form or form_of(path), text)
    stream = getattr(source, "buffer", source)  # sys.stdin as bytes
    return _texts(cast("IO[bytes]", stream), form or "txt", text)


def read_rows(source: str | Path | IO[bytes], *, text: str = "text") -> Iterator[dict[str, Any]]:
    """The same with all other columns: a row at a time, by column; a line of `.txt` is its text."""
    if isinstance(source, (str, Path)):
        path = existing(source)
        return _cells(path, form_of(path), text)
    return _cells(source, "txt", text)


def _texts(source: Path | IO[bytes], form: Form, text: str) -> Iterator[str]:
    return (row[text] for row in _cells(source, form, text))


def _cells(source: Path | IO[bytes], form: Form, text: str) -> Iterator[dict[str, Any]]:
    empty = True
    with opened(source) as file, blamed(source):
        if form == "txt":
            for _, content in numbered_lines(file):
                empty = False
                yield {text: content.removesuffix("\n").removesuffix("\r")}
        else:
            for line, row in rows(file, form, (text,)):
                empty = False
                row[text] = _text_in(row, text, line, may_be_empty=True)
                yield row
        if empty:
            raise ValueError("must hold at least one text, got none")


def _text_in(row: dict[str, Any], column: str, line: int, *, may_be_empty: bool = False) -> str:
    value = row[column]
    if may_be_empty and (value is None or value == ""):
        return ""
    if value is None or value == "" or value != value:
        raise ValueError(f"line {line}: {column!r} must hold a text, got {_nothing(value)}")
    if not isinstance(value, str):
        raise ValueError(f"line {line}: {column!r} must be a text, got {clipped(value)}")
    if _NOT_A_CHARACTER.search(value):
        raise ValueError(f"line {line}: {column!r} holds half a surrogate pair")
    return value


def _label_in(row: dict[str, Any], column: str, line: int) -> str:
    """A label as text; numbers and truth values as JSON spells them."""
    value = row[column]
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    if not isinstance(value, str) or value.strip().lower() in ("", "nan"):
        raise ValueError(f"line {line}: {column!r} must hold a label, got {_nothing(value)}")
    if _NOT_A_CHARACTER.search(value):
        raise ValueError(f"line {line}: {column!r} holds half a surrogate pair")
    return value


def _nothing(value: object) -> str:
    return "nothing" if value is None or value == "" else clipped(value)
