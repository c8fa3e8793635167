"""`wordwave predict`: the classes of texts, as JSON lines or as a table."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from wordwave.data.tables import csv_cell, tsv_cell
from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.tasks.classifier import TextClassifier

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some tools begin a new line at these, too."""
BATCH = 2048
TableForm = Literal["csv", "tsv"]
TABLE_FORMS: dict[str, TableForm] = {".csv": "csv", ".tsv": "tsv"}
Row = dict[str, Any]
"""What a table has in each column."""


@dataclass(frozen=True)
class PredictOptions:
    """The class of each text, one JSON line each, in their order; any number of texts.

    A text without words is read as one unknown word, so that every text has its line.

    {"label": "HUM", "probability": 0.98, "probabilities": {"ABBR": 0.001, …}, "text": "Who …"}
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    file: Annotated[str | None, tyro.conf.Positional] = None
    """Texts: a .txt with one a line, or a column of a .csv, .tsv or .jsonl, also .gz; or a text
    itself; by default what is piped in, one a line, answered as it comes."""
    text: str | None = None
    """The column of texts; by default as in training."""
    out: Path | None = None
    """Write to this file, whole or not at all, instead of to the terminal: JSON lines, or as .csv
    or .tsv a table with all columns of FILE and two more, predicted and probability; also .gz."""
    quiet: bool = False
    """Leave out the texts and all probabilities but that of the predicted class."""


def predict(args: list[str], prog: str) -> None:
    """`wordwave predict`"""
    options = tyro.cli(PredictOptions, prog=prog, args=args)
    from wordwave.cli.stream import arriving, batches, is_text, piped, say
    from wordwave.data.tables import read_rows
    from wordwave.files import write_whole
    from wordwave.tasks.classifier import TextClassifier

    form = None if options.out is None else table_form(options.out)
    if options.quiet and form is not None:
        raise WordwaveError(f"--quiet is for JSON, got a table to write, '{options.out}'")
    classifier = TextClassifier.load(options.run)
    column = options.text or classifier.config.data.text
    parts: Iterable[list[Row]]
    if options.file is not None and is_text(options.file):
        parts = [[{column: options.file}]]
    elif options.file is not None:
        parts = batches(read_rows(options.file, text=column), BATCH)
    else:
        parts = arriving(read_rows(piped("texts, one a line"), text=column), BATCH)
    answers = Answers(classifier, column)
    if form is None:
        lines = answers.as_json(parts, quiet=options.quiet)
    else:
        lines = answers.as_table(parts, form)
    if options.out is not None:
        is_packed = options.out.suffix.lower() == ".gz"
        write_whole(options.out, lambda new: _write(lines, new, is_packed))
    else:
        say(lines)
    if answers.n_cut:
        longest = classifier.encoder.max_length
        said = f"{answers.n_cut:,} of {answers.n:,} texts were cut to {longest} words"
        print(said, file=sys.stderr)
    if options.out is not None:
        print(f"Written: {options.out}", file=sys.stderr)


class Answers:
    """The class of the text in each row, as text to be written: several rows at once.

    Args:
        classifier: who answers.
        column: where the texts stand.
    """

    def __init__(self, classifier: TextClassifier, column: str) -> None:
        self.classifier, self.column = classifier, column
        self.n = self.n_cut = 0

    def as_json(self, parts: Iterable[list[Row]], *, quiet: bool = False) -> Iterator[str]:
        """A JSON line for each row."""
        labels = [json.dumps(label, ensure_ascii=False) for label in self.classifier.labels]
        for rows in parts:
            told = []
            for row, (i, chances) in zip(rows, self._read(rows), strict=True):
                line = f'{{"label": {labels[i]}, "probability": {chances[i]:.6f}'
                if not quiet:
                    each = zip(labels, chances, strict=True)
                    all_of_them = ", ".join(f"{name}: {p:.6f}" for name, p in each)
                    text = spelled(row[self.column])
                    line += f', "probabilities": {{{all_of_them}}}, "text": {text}'
                told.append(line + "}\n")
            yield "".join(told)

    def as_table(self, parts: Iterable[list[Row]], form: TableForm) -> Iterator[str]:
        """A table with the columns of the first row and two more."""
        columns: list[str] = []
        for rows in parts:
            page: list[list[str]] = []
            if not columns:
                columns = list(rows[0])
                page.append([*columns, *_unused(("predicted", "probability"), columns)])
            for row, (i, chances) in zip(rows, self._read(rows), strict=True):
                _check_columns(row, columns)
                cells = [_cell(row.get(name)) for name in columns]
                page.append([*cells, self.classifier.labels[i], f"{chances[i]:.6f}"])
            yield _spelled_table(page, form)

    def _read(self, rows: list[Row]) -> Iterator[tuple[int, list[float]]]:
        """The likeliest class of each row, and how likely all of them are."""
        logits, n_cut = self.classifier.read([row[self.column] for row in rows])
        self.n, self.n_cut = self.n + len(rows), self.n_cut + n_cut
        chances = logits.softmax(-1)
        return zip(chances.argmax(-1).tolist(), chances.tolist(), strict=True)


def table_form(out: Path) -> TableForm | None:
    """What a file of this name is to hold: a table, or `None` for JSON lines."""
    endings = [suffix.lower() for suffix in out.suffixes if suffix.lower() != ".gz"]
    ending = endings[-1] if endings else ""
    if ending not in ("", ".json", ".jsonl", ".txt", *TABLE_FORMS):
        raise WordwaveError(f"out must end in .jsonl, .csv or .tsv, also .gz, got '{out}'")
    return TABLE_FORMS.get(ending)


def _check_columns(row: Row, columns: list[str]) -> None:
    for name in row:
        if name not in columns:
            raise WordwaveError(
                f"a row has {name!r}, which the first one lacks: a table needs the same columns in "
                "all rows; write .jsonl, or give all rows the same keys"
            )


def _cell(value: Any) -> str:
    """What a table shows of a value that JSON may hold."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _spelled_table(rows: list[list[str]], form: TableForm) -> str:
    if form == "tsv":
        return "".join("\t".join(map(tsv_cell, row)) + "\n" for row in rows)
    return "".join(",".join(map(csv_cell, row)) + "\n" for row in rows)


def _unused(names: Iterable[str], columns: list[str]) -> list[str]:
    """The names, or longer ones where a table has them already."""
    return [f"wordwave_{name}" if name in columns else name for name in names]


def spelled(text: str) -> str:
    """A text in JSON, on what every tool takes for one line."""
    return json.dumps(text, ensure_ascii=False).translate(LINE_ENDS)


def _write(lines: Iterable[str], path: Path, is_packed: bool) -> None:
    opened = gzip.open if is_packed else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        file.writelines(lines)
