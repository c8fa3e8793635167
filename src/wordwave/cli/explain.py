"""`wordwave explain`: explain the predicted class of a text by its words and their order."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table
from rich.text import Text

import wordwave
from wordwave.cli.console import Console, RunFolder, parsed
from wordwave.cli.stream import standard_input
from wordwave.data.tables import read_texts
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.limits import check_limits

if TYPE_CHECKING:
    from wordwave.tasks.explain import Explanation

BAR = 8


@dataclass(frozen=True)
class ExplainOptions:
    """Explain the predicted class of a text: the contribution of each word and of word order.

    Every word is removed once (importance) and moved to every other position (order sensitivity);
    p is the probability of the predicted class. A model that ignores order shows 0 for every move.
    """

    run: RunFolder
    text: Annotated[str | None, tyro.conf.Positional] = None
    """A text; by default standard input, one text per line."""
    file: Path | None = None
    """Several texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz."""
    column: str | None = None
    """The column of texts in --file; by default the one used in training."""
    picture: Path | None = None
    """Plot it: .png, .svg or .pdf; for a file or pipe, numbered why-1.png, why-2.png, …"""
    json: Path | None = None
    """Write all values to this file, a list with one entry per text."""
    shuffles: int = 100
    """Number of random permutations of the whole text."""
    most_moves: int = 2000
    """Maximum number of moves; for longer texts (46 words or more) some positions are skipped."""
    seed: int = 0
    """Random seed of the permutations."""

    def __post_init__(self) -> None:
        limits = {"shuffles": (0, 100_000), "most_moves": (0, 1_000_000), "seed": (0, 2**63 - 1)}
        check_limits(self, limits)


def explain(args: list[str], prog: str) -> None:
    """`wordwave explain`"""
    options = parsed(ExplainOptions, args, prog)
    if options.text is not None and options.file is not None:
        raise WordwaveError(
            f"give a text or --file, got both {options.text!r} and '{options.file}'"
        )
    if options.text is not None and os.path.isfile(options.text):  # noqa: PTH113 (long texts)
        raise WordwaveError(f"'{options.text}' is a file: --file reads the texts in it")
    from wordwave.tasks.explain import explain as explained

    if options.picture is not None:
        from wordwave.plotting import check_format

        check_format(options.picture)
    classifier = wordwave.TextClassifier.load(options.run)
    console, entries = Console(), []
    texts = _texts(options, options.column or classifier.config.data.text)
    for i, text in enumerate(texts, start=1):
        explanation = explained(
            classifier,
            text,
            n_shuffles=options.shuffles,
            most_moves=options.most_moves,
            seed=options.seed,
        )
        show(explanation, console)
        if options.picture is not None:
            path = options.picture
            if options.text is None:
                path = path.with_name(f"{path.stem}-{i}{path.suffix}")
            _draw(explanation, path)
            console.print(f"Written: {path}\n")
        if options.json is not None:
            entries.append(explanation.to_dict())
    if options.json is not None:
        write_text(options.json, json.dumps(entries, ensure_ascii=False, indent=1) + "\n")
        console.print(f"Written: {options.json}")


def _draw(explanation: Explanation, path: Path) -> None:
    from wordwave.plotting import draw_explanation, missing_glyphs, written_in

    draw_explanation(explanation, path)
    if note := missing_glyphs(written_in(explanation)):
        print(note, file=sys.stderr)


def _texts(options: ExplainOptions, column: str) -> Iterator[str]:
    if options.text is not None:
        return iter([options.text])
    if options.file is not None:
        return read_texts(options.file, text=column)
    return read_texts(standard_input("texts, one per line"))


def show(explanation: Explanation, console: Console) -> None:
    """Print an explanation."""
    ranked = sorted(explanation.probabilities.items(), key=lambda pair: -pair[1])
    shown = "  ".join(f"{label} {p:.4f}" for label, p in ranked[:6])
    console.print(f"“{explanation.text}”\n→ {shown}" + ("  …" if len(ranked) > 6 else ""))
    console.print(words_table(explanation))
    console.print("\n".join(summary(explanation)) + "\n")


def words_table(explanation: Explanation) -> Table:
    """A table with one row per word."""
    caption = f"p = P({explanation.label}); ? marks unknown words"
    table = Table(caption=Text(caption, style="dim italic"))
    table.add_column("word", overflow="fold")
    size = "ampli-\ntude" if explanation.amplitude_is == "mean |amplitude|" else "vector\nnorm"
    for name in (size, "\nδ", "import-\nance", "swap\nnext", "moved\nmean", "\nmax", "\nat"):
        table.add_column(name, justify="right")
    table.add_column("\norder", min_width=BAR)
    most = max(0.01, *(word.moved_mean for word in explanation.words))
    for word in explanation.words:
        table.add_row(
            Text(word.word + ("" if word.known else " ?"), style="" if word.known else "dim"),
            f"{word.amplitude:.2f}",
            "-" if word.frequency is None else f"{word.frequency:.3f}",
            _signed(word.importance),
            "-" if word.swap is None else _signed(word.swap),
            f"{word.moved_mean:.3f}",
            f"{word.moved_max:.3f}",
            "-" if word.moved_to is None else str(word.moved_to),
            "█" * round(BAR * word.moved_mean / most),
        )
    return table


def _signed(change: float) -> str:
    return f"{change:+.3f}" if abs(change) >= 0.0005 else "0.000"


def summary(explanation: Explanation) -> list[str]:
    """The results for the text as a whole."""
    e, lines = explanation, []
    if e.n_cut:
        lines.append(f"Truncated: the model does not see the last {e.n_cut:,} words.")
    if not e.all_moves:
        lines.append(f"Moves to some positions only: {e.n_moves:,} (--most-moves for more).")
    if e.n_shuffles:
        lines.append(
            f"Shuffled {e.n_shuffles:,} times: p changes by {e.shuffle_change:.3f} on average, "
            f"another class {e.shuffles_to_other_class:,} times."
        )
    if e.n_moves:
        lines.append(f"Single moves: another class at {e.moves_to_other_class:,} of {e.n_moves:,}.")
    if e.n_moves and e.worst_move is None:
        lines.append("No move lowers p.")
    if e.worst_move is not None:
        move = e.worst_move
        lines.append(
            f"Most harmful: “{move.word}” from position {move.place} to {move.to}: "
            f"p {e.probability:.3f} → {move.probability:.3f}, class {move.label}\n  “{move.text}”"
        )
    return lines
