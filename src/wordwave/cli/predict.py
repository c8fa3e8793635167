"""`wordwave predict`: the classes of texts, as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from wordwave.tasks.classifier import TextClassifier

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some tools begin a new line at these, too."""
BATCH = 2048


@dataclass(frozen=True)
class PredictOptions:
    """The class of each text, one JSON line each, in their order; any number of texts.

    {"label": "HUM", "probability": 0.98, "probabilities": {"ABBR": 0.001, …}, "text": "Who …"}
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    file: Annotated[Path | None, tyro.conf.Positional] = None
    """Texts: a .txt with one a line, or a column of a .csv, .tsv or .jsonl, also .gz; by default
    what is piped in, one a line, answered as it comes."""
    text: str | None = None
    """The column of texts; by default as in training."""
    out: Path | None = None
    """Write to this file, whole or not at all, instead of to the terminal."""
    quiet: bool = False
    """Leave the texts and all but the first probability out."""


def predict(args: list[str], prog: str) -> None:
    """`wordwave predict`"""
    options = tyro.cli(PredictOptions, prog=prog, args=args)
    from wordwave.cli.stream import arriving, batches, piped
    from wordwave.data.tables import read_texts
    from wordwave.files import write_whole
    from wordwave.tasks.classifier import TextClassifier

    classifier = TextClassifier.load(options.run)
    column = options.text or classifier.config.data.text
    if options.file is not None:
        parts = batches(read_texts(options.file, text=column), BATCH)
    else:
        if sys.stdin.isatty():
            print("Type texts, one a line; Ctrl-D ends.", file=sys.stderr)
        parts = arriving(read_texts(piped()), BATCH)
    lines = answers(classifier, parts, quiet=options.quiet)
    if options.out is not None:
        write_whole(options.out, lambda new: _write(lines, new))
        print(f"Written: {options.out}", file=sys.stderr)
        return
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()


def spelled(text: str) -> str:
    """A text in JSON, on what every tool takes for one line."""
    return json.dumps(text, ensure_ascii=False).translate(LINE_ENDS)


def answers(
    classifier: TextClassifier, parts: Iterable[list[str]], *, quiet: bool = False
) -> Iterator[str]:
    """JSON lines, several at once, for each part of the texts; in the end it says what was cut."""
    n = n_cut = 0
    labels = [json.dumps(label, ensure_ascii=False) for label in classifier.labels]
    for texts in parts:
        logits, cut = classifier.read(texts)
        probabilities = logits.softmax(-1)
        n, n_cut = n + len(texts), n_cut + cut
        best = probabilities.argmax(-1).tolist()
        told = []
        for text, row, i in zip(texts, probabilities.tolist(), best, strict=True):
            line = f'{{"label": {labels[i]}, "probability": {row[i]:.6f}'
            if not quiet:
                each = ", ".join(f"{name}: {p:.6f}" for name, p in zip(labels, row, strict=True))
                line += f', "probabilities": {{{each}}}, "text": {spelled(text)}'
            told.append(line + "}\n")
        yield "".join(told)
    if n_cut:
        longest = classifier.encoder.max_length
        print(f"{n_cut:,} of {n:,} texts were cut to {longest} words", file=sys.stderr)


def _write(lines: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
