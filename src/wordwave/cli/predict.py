"""`wordwave predict`: the classes of texts, as JSON lines or as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from wordwave.data.tables import csv_cell, tsv_cell
from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.tasks.classifier import TextClassifier

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some tools start a new line at these characters, too."""
BATCH = 2048
TableForm = Literal["csv", "tsv"]
TABLE_FORMS: dict[str, TableForm] = {".csv": "csv", ".tsv": "tsv"}
Row = dict[str, Any]
"""The cells of an input row by column."""
Prediction = tuple[Row, int, list[float]]
"""An input row, its predicted class and the probabilities of all classes."""


@dataclass(frozen=True)
class PredictOptions:
    """Predict the class of each text: one JSON line per text, in input order.

    A text without words is read as one unknown word, so that every text has its line.

    {"label": "HUM", "probability": 0.98, "probabilities": {"ABBR": 0.001, …}, "text": "Who …"}
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    file: Annotated[str | None, tyro.conf.Positional] = None
    """Texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz; or a text
    itself; by default standard input, one text per line, classified as they arrive."""
    text: str | None = None
    """The column of texts; by default the one used in training."""
    out: Path | None = None
    """Write to this file, completely or not at all, instead of to the terminal: JSON lines, or as
    .csv or .tsv a table of all columns of FILE and two more, predicted and probability; also
    .gz."""
    quiet: bool = False
    """Leave out the texts and all probabilities except that of the predicted class."""


def predict(args: list[str], prog: str) -> None:
    """`wordwave predict`"""
    options = tyro.cli(PredictOptions, prog=prog, args=args)
    from wordwave.cli.stream import input_batches, write_lines
    from wordwave.data.tables import read_rows
    from wordwave.tasks.classifier import TextClassifier

    form = None if options.out is None else table_form(options.out)
    if options.quiet and form is not None:
        raise WordwaveError(f"--quiet is for JSON, got a table to write, '{options.out}'")
    classifier = TextClassifier.load(options.run)
    column = options.text or classifier.config.data.text
    rows = input_batches(
        options.file,
        partial(read_rows, text=column),
        size=BATCH,
        what="texts, one per line",
        literal=lambda text: {column: text},
    )
    predictions = _predictions(classifier, rows, column)
    if form is None:
        lines = _json_lines(predictions, classifier.labels, column, quiet=options.quiet)
    else:
        lines = _table_lines(predictions, classifier.labels, form)
    write_lines(lines, options.out)


def _predictions(
    classifier: TextClassifier, batches: Iterable[list[Row]], column: str
) -> Iterator[list[Prediction]]:
    n = n_truncated = 0
    for rows in batches:
        logits, truncated = classifier.logits_and_truncated([row[column] for row in rows])
        n, n_truncated = n + len(rows), n_truncated + truncated
        probabilities = logits.softmax(-1)
        classes = probabilities.argmax(-1).tolist()
        yield list(zip(rows, classes, probabilities.tolist(), strict=True))
    if n_truncated:
        longest = classifier.encoder.max_length
        print(f"{n_truncated:,} of {n:,} texts were cut to {longest} words", file=sys.stderr)


def _json_lines(
    batches: Iterable[list[Prediction]], labels: list[str], column: str, *, quiet: bool
) -> Iterator[str]:
    names = [json.dumps(label, ensure_ascii=False) for label in labels]
    for predictions in batches:
        lines = []
        for row, i, probabilities in predictions:
            line = f'{{"label": {names[i]}, "probability": {probabilities[i]:.6f}'
            if not quiet:
                each = zip(names, probabilities, strict=True)
                listed = ", ".join(f"{name}: {p:.6f}" for name, p in each)
                # On what every tool takes for one line.
                text = json.dumps(row[column], ensure_ascii=False).translate(LINE_ENDS)
                line += f', "probabilities": {{{listed}}}, "text": {text}'
            lines.append(line + "}\n")
        yield "".join(lines)


def _table_lines(
    batches: Iterable[list[Prediction]], labels: list[str], form: TableForm
) -> Iterator[str]:
    """A table with the columns of the first row and two more."""
    cell, separator = (tsv_cell, "\t") if form == "tsv" else (csv_cell, ",")
    columns: list[str] = []
    for predictions in batches:
        table: list[list[str]] = []
        if not columns:
            columns = list(predictions[0][0])
            added = ("predicted", "probability")
            table.append([*columns, *(f"wordwave_{a}" if a in columns else a for a in added)])
        for row, i, probabilities in predictions:
            _check_columns(row, columns)
            cells = [_as_text(row.get(name)) for name in columns]
            table.append([*cells, labels[i], f"{probabilities[i]:.6f}"])
        yield "".join(separator.join(map(cell, cells)) + "\n" for cells in table)


def table_form(out: Path) -> TableForm | None:
    """The form of an output file by its name: a table, or `None` for JSON lines."""
    suffixes = [suffix.lower() for suffix in out.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in ("", ".json", ".jsonl", ".txt", *TABLE_FORMS):
        raise WordwaveError(f"out must end in .jsonl, .csv or .tsv, also .gz, got '{out}'")
    return TABLE_FORMS.get(suffix)


def _check_columns(row: Row, columns: list[str]) -> None:
    for name in row:
        if name not in columns:
            raise WordwaveError(
                f"a row has {name!r}, which the first one lacks: a table needs the same columns in "
                "all rows; write .jsonl, or give all rows the same keys"
            )


def _as_text(value: Any) -> str:
    """A JSON value as a table cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
