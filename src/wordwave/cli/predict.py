"""`wordwave predict`: the classes of texts or of pairs, as JSON lines or as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import tyro

from wordwave.cli.console import UseRun, parsed
from wordwave.cli.progress import reading_bar
from wordwave.cli.stream import (
    FILE_OR_STREAM,
    InputFormat,
    answered,
    input_batches,
    write_lines,
)
from wordwave.data.formats import TableFormat, csv_cell, tsv_cell
from wordwave.data.tables import read_rows
from wordwave.errors import WordwaveError

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some tools start a new line at these characters, too."""
TableForm = tuple[Callable[[str], str], str]
"""How a cell is written, and what separates two cells."""
TABLES = (".csv", ".tsv", ".jsonl", ".txt", ".gz")
"""An argument that ends like this is a file, not a sentence."""
TABLE_FORMS: dict[str, TableForm] = {".csv": (csv_cell, ","), ".tsv": (tsv_cell, "\t")}
Row = dict[str, Any]
"""The cells of an input row by column."""
Prediction = tuple[Row, list[float]]
"""An input row and the probabilities of all classes, or a single score."""


class Several(NamedTuple):
    """How several labels of a text are predicted, and written in one cell."""

    separator: str
    threshold: float


@dataclass(frozen=True)
class PredictOptions(UseRun):
    """Predict the class of each text, or of each pair of sentences: one JSON line each, in order.

    A text without words is read as one unknown word, so that every text has its line.

    {"label": "HUM", "probability": 0.98, "probabilities": {"ABBR": 0.001, …}, "text": "Who …"}

    Of a run with --multi-label, all labels of at least --threshold instead, {"labels": ["a", "b"],
    …}, and in a table a column predicted, such as a|b.

    Of a run of train match: a file with two columns of sentences, standard input with two sentences
    in a line, separated by a tab, or: wordwave predict RUN "dog bites man" "man bites dog"
    """

    file: Annotated[str | None, tyro.conf.Positional] = None
    """Texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz; or a text
    itself; by default standard input, one text per line, classified as they arrive."""
    second: Annotated[str | None, tyro.conf.Positional] = None
    """The second sentence, if the first one is given instead of a file."""
    text: str | None = None
    """The column of texts; by default the one used in training."""
    text_a: str | None = None
    """The column of first sentences of pairs; by default the one used in training."""
    text_b: str | None = None
    """The column of second sentences; by default the one used in training."""
    out: Path | None = None
    """Write to this file, completely or not at all, instead of to the terminal: JSON lines, as
    .json a JSON list, or as .csv or .tsv a table of all columns of FILE and two more, predicted and
    probability; also .gz."""
    threshold: Annotated[float, (0, 1)] = 0.5
    """Of a run with --multi-label: labels of at least this probability are predicted."""
    quiet: bool = False
    """Leave out the texts and all probabilities except that of the predicted class."""
    table: InputFormat = field(default_factory=InputFormat)


def predict(args: list[str], prog: str) -> None:
    """`wordwave predict`"""
    options = parsed(PredictOptions, args, prog)
    form = None if options.out is None else _table_form(options.out)
    if options.quiet and form is not None:
        raise WordwaveError(f"--quiet is for JSON, got a table to write, '{options.out}'")
    model = options.load("classify", "match")
    data = model.config.data
    columns: tuple[str, ...]
    if model.task == "match":
        columns = (options.text_a or data.text_a, options.text_b or data.text_b)
        if options.text is not None:
            raise WordwaveError("--text is for texts; of pairs, name columns by --text-a, --text-b")
        if columns[0] == columns[1]:
            raise WordwaveError(f"a pair needs two columns, got {columns[0]!r} twice")
    elif options.text_a or options.text_b:
        raise WordwaveError("--text-a and --text-b go with a run of train match only")
    else:
        columns = (options.text or data.text,)
    rows = _input_rows(options, columns, data.table)
    note = f"texts were truncated to {model.encoder.max_length} words"

    def outputs(rows: list[Row]) -> tuple[list[list[float]], int]:
        texts = [tuple(row[c] for c in columns) if columns[1:] else row[columns[0]] for row in rows]
        logits, n_truncated = model.logits_and_truncated(texts)
        if model.task == "classify":
            found = model.probabilities_of(logits)
        else:
            found = logits.softmax(-1) if model.labels else model.scores_of(logits)
        return found.tolist(), n_truncated

    predictions = answered(rows, outputs, note, texts_per_item=len(columns))
    several = None
    if model.task == "classify" and model.multi_label:
        several = Several(data.multi_label, options.threshold)
    elif options.threshold != PredictOptions.threshold:
        raise WordwaveError("--threshold goes with a run of train classify --multi-label only")
    if form is None:
        lines = _json_lines(predictions, model.labels, columns, several, quiet=options.quiet)
        if options.out is not None and _suffix(options.out) == ".json":
            lines = _json_list(lines)
    else:
        lines = _table_lines(predictions, model.labels, form, several)
    with reading_bar(options.out):
        write_lines(lines, options.out)


def _input_rows(
    options: PredictOptions, columns: tuple[str, ...], trained: TableFormat
) -> Iterator[list[Row]]:
    """The input in batches; of pairs, each row has two texts."""
    if columns[1:] and options.second is not None:
        if Path(options.file or "").suffix.lower() in TABLES:
            raise WordwaveError(f"a pair has two sentences, got a file, {options.file!r}")
        options.table.check_unused(FILE_OR_STREAM)
        return iter([[dict(zip(columns, (options.file or "", options.second), strict=True))]])
    if options.second is not None:
        raise WordwaveError("a second sentence goes with a run of train match only")

    def literal(text: str) -> Row:
        if columns[1:]:
            raise WordwaveError(f"a pair has two sentences, got one, {text[:60]!r}")
        return {columns[0]: text}

    what = "pairs, two sentences and a tab between them" if columns[1:] else "texts"

    def read(source: str | IO[bytes]) -> Iterator[Row]:
        return read_rows(source, text=columns, table=options.table.of(source, trained))

    return input_batches(options.file, read, what=what, literal=literal, table=options.table)


def _table_form(out: Path) -> TableForm | None:
    """The form of an output file by its name: a table, or `None` for JSON lines."""
    suffix = _suffix(out)
    if suffix not in ("", ".json", ".jsonl", ".txt", *TABLE_FORMS):
        raise WordwaveError(f"out must end in .jsonl, .csv or .tsv, also .gz, got '{out}'")
    return TABLE_FORMS.get(suffix)


def _suffix(out: Path) -> str:
    """The ending of a file's name in lower case, before .gz."""
    return Path(out.name.lower().removesuffix(".gz")).suffix


def _json_lines(
    batches: Iterable[list[Prediction]],
    labels: list[str],
    columns: tuple[str, ...],
    several: Several | None,
    *,
    quiet: bool,
) -> Iterator[str]:
    """JSON put together by hand: `json.dumps` of the whole takes twice as long."""
    names = [json.dumps(label, ensure_ascii=False) for label in labels]
    keys = ("text",) if len(columns) == 1 else ("text_a", "text_b")
    for predictions in batches:
        lines = []
        for row, probabilities in predictions:
            best = max(probabilities)
            line = f'{{"score": {best:.7g}'
            if names:
                line = f'{{"label": {names[probabilities.index(best)]}, "probability": {best:.6f}'
            each = list(zip(names, probabilities, strict=bool(names)))
            if several is not None:
                predicted = [(name, p) for name, p in each if p >= several.threshold]
                line = f'{{"labels": [{", ".join(name for name, _ in predicted)}]'
                each = predicted if quiet else each
            if names and (several is not None or not quiet):
                listed = ", ".join(f"{name}: {p:.6f}" for name, p in each)
                line += f', "probabilities": {{{listed}}}'
            if not quiet:
                for key, column in zip(keys, columns, strict=True):
                    # On what every tool takes for one line.
                    text = json.dumps(row[column], ensure_ascii=False).translate(LINE_ENDS)
                    line += f', "{key}": {text}'
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
    batches: Iterable[list[Prediction]],
    labels: list[str],
    form: TableForm,
    several: Several | None,
) -> Iterator[str]:
    """A table with the columns of the first row, and the predictions."""
    written, separator = form
    columns: list[str] = []
    for predictions in batches:
        table: list[list[str]] = []
        if not columns:
            columns = list(predictions[0][0])
            added = ("predicted", "probability") if labels else ("score",)
            table.append([*columns, *(_new_name(name, columns) for name in added)])
        for row, probabilities in predictions:
            for name in row:
                if name not in columns:
                    raise WordwaveError(
                        f"a row has {name!r}, which the first one lacks: a table needs the same "
                        "columns in all rows; write .jsonl, or give all rows the same keys"
                    )
            cells = [_as_text(row.get(name)) for name in columns]
            best = max(probabilities)
            told = [labels[probabilities.index(best)], f"{best:.6f}"] if labels else [f"{best:.7g}"]
            if several is not None:
                pairs = zip(labels, probabilities, strict=True)
                found = [(label, f"{p:.6f}") for label, p in pairs if p >= several.threshold]
                told = [several.separator.join(part) for part in zip(*found, strict=True)]
                told = told or ["", ""]
            table.append([*cells, *told])
        yield "".join(separator.join(map(written, cells)) + "\n" for cells in table)


def _new_name(name: str, columns: list[str]) -> str:
    """A name for another column, unlike those that there are."""
    while name in columns:
        name = f"wordwave_{name}"
    return name


def _as_text(value: Any) -> str:
    """A JSON value as a table cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
