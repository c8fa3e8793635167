"""`wordwave predict`: the classes of texts, as JSON lines or as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

import wordwave
from wordwave.cli.console import RunFolder, parsed
from wordwave.cli.stream import answered, input_batches, write_lines
from wordwave.data.tables import csv_cell, read_rows, tsv_cell
from wordwave.errors import WordwaveError

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some tools start a new line at these characters, too."""
BATCH = 2048
TableForm = tuple[Callable[[str], str], str]
"""How a cell is written, and what separates two cells."""
TABLE_FORMS: dict[str, TableForm] = {".csv": (csv_cell, ","), ".tsv": (tsv_cell, "\t")}
Row = dict[str, Any]
"""The cells of an input row by column."""
Prediction = tuple[Row, list[float]]
"""An input row and the probabilities of all classes."""


@dataclass(frozen=True)
class PredictOptions:
    """Predict the class of each text: one JSON line per text, in input order.

    A text without words is read as one unknown word, so that every text has its line.

    {"label": "HUM", "probability": 0.98, "probabilities": {"ABBR": 0.001, …}, "text": "Who …"}
    """

    run: RunFolder
    file: Annotated[str | None, tyro.conf.Positional] = None
    """Texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz; or a text
    itself; by default standard input, one text per line, classified as they arrive."""
    text: str | None = None
    """The column of texts; by default the one used in training."""
    out: Path | None = None
    """Write to this file, completely or not at all, instead of to the terminal: JSON lines, as
    .json a JSON list, or as .csv or .tsv a table of all columns of FILE and two more, predicted and
    probability; also .gz."""
    quiet: bool = False
    """Leave out the texts and all probabilities except that of the predicted class."""


def predict(args: list[str], prog: str) -> None:
    """`wordwave predict`"""
    options = parsed(PredictOptions, args, prog)
    form = None if options.out is None else _table_form(options.out)
    if options.quiet and form is not None:
        raise WordwaveError(f"--quiet is for JSON, got a table to write, '{options.out}'")
    classifier = wordwave.TextClassifier.load(options.run)
    column = options.text or classifier.config.data.text

    def probabilities(rows: list[Row]) -> tuple[list[list[float]], int]:
        logits, n_truncated = classifier.logits_and_truncated([row[column] for row in rows])
        return logits.softmax(-1).tolist(), n_truncated

    rows = input_batches(
        options.file,
        partial(read_rows, text=column),
        size=BATCH,
        what="texts, one per line",
        literal=lambda text: {column: text},
    )
    note = f"texts were truncated to {classifier.encoder.max_length} words"
    predictions = answered(rows, probabilities, note)
    if form is None:
        lines = _json_lines(predictions, classifier.labels, column, quiet=options.quiet)
        if options.out is not None and ".json" in options.out.suffixes[-2:]:
            lines = _json_list(lines)
    else:
        lines = _table_lines(predictions, classifier.labels, form)
    write_lines(lines, options.out)


def _table_form(out: Path) -> TableForm | None:
    """The form of an output file by its name: a table, or `None` for JSON lines."""
    suffix = Path(out.name.lower().removesuffix(".gz")).suffix
    if suffix not in ("", ".json", ".jsonl", ".txt", *TABLE_FORMS):
        raise WordwaveError(f"out must end in .jsonl, .csv or .tsv, also .gz, got '{out}'")
    return TABLE_FORMS.get(suffix)


def _json_lines(
    batches: Iterable[list[Prediction]], labels: list[str], column: str, *, quiet: bool
) -> Iterator[str]:
    """JSON put together by hand: `json.dumps` of the whole takes twice as long."""
    names = [json.dumps(label, ensure_ascii=False) for label in labels]
    for predictions in batches:
        lines = []
        for row, probabilities in predictions:
            best = max(probabilities)
            line = f'{{"label": {names[probabilities.index(best)]}, "probability": {best:.6f}'
            if not quiet:
                each = zip(names, probabilities, strict=True)
                listed = ", ".join(f"{name}: {p:.6f}" for name, p in each)
                # On what every tool takes for one line.
                text = json.dumps(row[column], ensure_ascii=False).translate(LINE_ENDS)
                line += f', "probabilities": {{{listed}}}, "text": {text}'
            lines.append(line + "}\n")
        yield "".join(lines)


def _json_list(lines: Iterable[str]) -> Iterator[str]:
    """JSON lines as the elements of a list."""
    start = "[\n"
    for batch in lines:
        yield start + batch.rstrip("\n").replace("\n", ",\n")
        start = ",\n"
    yield "\n]\n"


def _table_lines(
    batches: Iterable[list[Prediction]], labels: list[str], form: TableForm
) -> Iterator[str]:
    """A table with the columns of the first row and two more."""
    written, separator = form
    columns: list[str] = []
    for predictions in batches:
        table: list[list[str]] = []
        if not columns:
            columns = list(predictions[0][0])
            added = ("predicted", "probability")
            table.append([*columns, *(f"wordwave_{a}" if a in columns else a for a in added)])
        for row, probabilities in predictions:
            for name in row:
                if name not in columns:
                    raise WordwaveError(
                        f"a row has {name!r}, which the first one lacks: a table needs the same "
                        "columns in all rows; write .jsonl, or give all rows the same keys"
                    )
            cells = [_as_text(row.get(name)) for name in columns]
            best = max(probabilities)
            table.append([*cells, labels[probabilities.index(best)], f"{best:.6f}"])
        yield "".join(separator.join(map(written, cells)) + "\n" for cells in table)


def _as_text(value: Any) -> str:
    """A JSON value as a table cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
