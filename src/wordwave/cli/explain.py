"""`wordwave explain`: explain a prediction by words and their order."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.table import Column, Table
from rich.text import Text

import wordwave
from wordwave.cli.console import Console, RunFolder, parsed
from wordwave.cli.progress import reading_bar
from wordwave.cli.stream import InputFormat, standard_input
from wordwave.data.formats import TableFormat
from wordwave.data.tables import read_rows, read_texts
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.limits import check_limits
from wordwave.tasks.config import task_of

if TYPE_CHECKING:
    from wordwave.tasks.explain import Explanation
    from wordwave.tasks.explain_pairs import PairExplanation, PairWord, Reordering

BLOCKS = " ▁▂▃▄▅▆▇█"
BLUES = ("", "#1b2a55", "#22408a", "#2a56bf", "#2f6bf0")
ORANGES = ("", "#4a2a10", "#7a4314", "#a85c17", "#d1731a")
"""Backgrounds for white letters."""
LEAST = 0.05
"""The smallest effect that gets full colour: rounding must not look like one."""
LEGEND = "blue: the word raises p, orange: it lowers p; block: what its position changes"


@dataclass(frozen=True)
class ExplainOptions:
    """Explain the predicted class of a text: the contribution of each word and of word order.

    Every word is removed once (importance) and moved to every other position (order sensitivity).
    Effects are changes of the log-odds ln(p / (1 - p)), p the probability of the predicted class. A
    model that ignores order shows 0 for every move.

    Of a run of train match, explain the prediction for a pair of sentences: words of both are
    removed, words of the second are moved and swapped.

    wordwave explain RUN "dog bites man" "man bites dog"

    Or list the words that the model takes for similar: wordwave explain RUN --nearest good
    """

    run: RunFolder
    text: Annotated[str | None, tyro.conf.Positional] = None
    """A text; by default standard input, one text per line, or a pair with a tab between."""
    second: Annotated[str | None, tyro.conf.Positional] = None
    """The second sentence of a pair."""
    file: Path | None = None
    """Several texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz;
    pairs: two columns, or a tab in each line of a .txt."""
    column: str | None = None
    """The column of texts in --file; by default the one used in training."""
    text_a: str | None = None
    """The column of first sentences of pairs; by default the one used in training."""
    text_b: str | None = None
    """The column of second sentences; by default the one used in training."""
    label: str | None = None
    """Explain the probability of this class; by default that of the most probable one."""
    nearest: str | None = None
    """A word instead of a text: the ten words whose amplitudes (without waves, whose vectors) are
    most similar to those of it, by the cosine."""
    picture: Path | None = None
    """Plot it: .png, .svg or .pdf; for a file or pipe, numbered why-1.png, why-2.png, …"""
    json: Path | None = None
    """Write all values to this file, a list with one entry per text."""
    shuffles: int = 100
    """Number of random permutations of the whole text; of pairs, of the second sentence."""
    most_moves: int = 2000
    """Maximum number of moves, and of swaps; for longer texts (46 words or more) some positions are
    skipped."""
    seed: int = 0
    """Random seed of the permutations."""
    table: InputFormat = field(default_factory=InputFormat)

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
    console = Console()
    if options.nearest is not None and (options.text is not None or options.file is not None):
        raise WordwaveError(f"--nearest {options.nearest} goes without texts: leave them out")
    if options.nearest is not None and task_of(options.run) == "match":
        raise WordwaveError("--nearest goes with a run of train classify")
    if options.text is not None or options.nearest is not None:
        options.table.check_unused("--file or standard input")
    entries = _explain_pairs if task_of(options.run) == "match" else _explain_texts
    if options.nearest is not None:
        entries = _nearest_words
    with reading_bar(None):
        found = [entry for entry in entries(options, console) if options.json is not None]
    if options.json is not None:
        write_text(options.json, json.dumps(found, ensure_ascii=False, indent=1) + "\n")
        console.print(f"Written: {options.json}")


def _explain_texts(options: ExplainOptions, console: Console) -> Iterator[dict[str, Any]]:
    """Print and plot the explanations of texts; yields their values."""
    if options.second is not None or options.text_a or options.text_b:
        raise WordwaveError("pairs of sentences go with a run of train match only")
    from wordwave.tasks.explain import explain as explained

    if options.picture is not None:
        from wordwave.plotting import check_format

        check_format(options.picture)
    classifier = wordwave.TextClassifier.load(options.run)
    data = classifier.config.data
    texts = _texts(options, options.column or data.text, data.table)
    for i, text in enumerate(texts, start=1):
        explanation = explained(
            classifier,
            text,
            n_shuffles=options.shuffles,
            most_moves=options.most_moves,
            seed=options.seed,
            label=options.label,
        )
        show(explanation, console)
        if options.picture is not None:
            path = options.picture
            if options.text is None:
                path = path.with_name(f"{path.stem}-{i}{path.suffix}")
            _draw(explanation, path)
            console.print(f"Written: {path}\n")
        yield explanation.to_dict()


def _nearest_words(options: ExplainOptions, console: Console) -> Iterator[dict[str, Any]]:
    """Print the words that are most similar to one; yields them."""
    assert options.nearest is not None
    found = wordwave.TextClassifier.load(options.run).nearest_words(options.nearest)
    table = Table("word", Column("cosine", justify="right"))
    for word, cosine in found:
        table.add_row(Text(word), f"{cosine:.3f}")
    console.print(table)
    return ({"word": word, "cosine": cosine} for word, cosine in found)


def _explain_pairs(options: ExplainOptions, console: Console) -> Iterator[dict[str, Any]]:
    """Print the explanations of pairs; yields their values."""
    if options.picture is not None:
        raise WordwaveError("--picture goes with a run of train classify, not with pairs")
    if options.label is not None:
        raise WordwaveError("--label goes with a run of train classify, not with pairs")
    if options.column is not None:
        raise WordwaveError("--column goes with a run of train classify; pairs: --text-a, --text-b")
    if options.text is not None and options.second is None:
        raise WordwaveError(f"a pair has two sentences, got one, {options.text[:60]!r}")
    from wordwave.tasks.explain_pairs import explain_pair

    matcher = wordwave.TextMatcher.load(options.run)
    data = matcher.config.data
    columns = (options.text_a or data.text_a, options.text_b or data.text_b)
    if columns[0] == columns[1]:
        raise WordwaveError(f"a pair needs two columns, got {columns[0]!r} twice")
    for text_a, text_b in _pairs(options, columns, data.table):
        explanation = explain_pair(
            matcher,
            text_a,
            text_b,
            n_shuffles=options.shuffles,
            most_moves=options.most_moves,
            seed=options.seed,
        )
        show_pair(explanation, console)
        yield explanation.to_dict()


def _draw(explanation: Explanation, path: Path) -> None:
    from wordwave.plotting import draw_explanation, missing_glyphs, written_in

    draw_explanation(explanation, path)
    if note := missing_glyphs(written_in(explanation)):
        print(note, file=sys.stderr)


def _texts(options: ExplainOptions, column: str, trained: TableFormat) -> Iterator[str]:
    if options.text is not None:
        return iter([options.text])
    source = options.file or standard_input("texts, one per line")
    table = options.table.of(source, trained)
    return read_texts(source, text=column, table=table, option="column")


def _pairs(
    options: ExplainOptions, columns: tuple[str, str], trained: TableFormat
) -> Iterator[tuple[str, str]]:
    if options.text is not None and options.second is not None:
        return iter([(options.text, options.second)])
    source = options.file or standard_input("pairs, two sentences and a tab between them, per line")
    rows = read_rows(source, text=columns, table=options.table.of(source, trained))
    return ((row[columns[0]], row[columns[1]]) for row in rows)


def show(explanation: Explanation, console: Console) -> None:
    """Print an explanation."""
    ranked = _ranked(explanation.probabilities)
    console.print(f"“{explanation.text}”\n→ {ranked}  (log-odds {explanation.log_odds:+.2f})")
    console.print(words_line([(w.word, w.importance, w.moved_mean) for w in explanation.words]))
    console.print(Text(LEGEND, style="dim"))
    console.print(words_table(explanation))
    console.print("\n".join(summary(explanation)) + "\n")


def _ranked(probabilities: dict[str, float]) -> str:
    """The most probable classes."""
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])
    shown = "  ".join(f"{label} {p:.4f}" for label, p in ranked[:6])
    return shown + ("  …" if len(ranked) > 6 else "")


def words_line(words: Sequence[tuple[str, float, float]]) -> Text:
    """A sentence in one line: a word is blue if it raises p and orange if it lowers it, and the
    block after it is as high as the change of the log-odds when it is moved.

    Args:
        words: each with its importance and its order sensitivity.
    """
    most_word = max(LEAST, *(abs(importance) for _, importance, _ in words))
    most_place = max(LEAST, *(place for _, _, place in words))
    line = Text()
    for word, importance, place in words:
        strength = round(abs(importance) / most_word * (len(BLUES) - 1))
        shades = BLUES if importance > 0 else ORANGES
        background = shades[strength]
        line.append(f" {word} ", style=f"white on {background}" if background else "")
        line.append(BLOCKS[round(place / most_place * (len(BLOCKS) - 1))], style="bold")
        line.append(" ")
    return line


def words_table(explanation: Explanation) -> Table:
    """A table with one row per word."""
    caption = f"changes of the log-odds of {explanation.label}; ? marks unknown words"
    table = Table(caption=Text(caption, style="dim italic"))
    table.add_column("word", overflow="fold")
    size = "ampli-\ntude" if explanation.amplitude_is == "mean |amplitude|" else "vector\nnorm"
    effects = ("import-\nance", "p with-\nout it", "swap\nnext", "moved\nmean", "\nmax", "\nat")
    for name in (size, "\nδ", *effects):
        table.add_column(name, justify="right", no_wrap=True)
    for word in explanation.words:
        table.add_row(
            Text(word.word + ("" if word.known else " ?"), style="" if word.known else "dim"),
            f"{word.amplitude:.2f}",
            "-" if word.frequency is None else f"{word.frequency:.3f}",
            _signed(word.importance, 2),
            f"{word.p_without:.3f}",
            "-" if word.swap is None else _signed(word.swap, 2),
            f"{word.moved_mean:.2f}",
            f"{word.moved_max:.2f}",
            "-" if word.moved_to is None else str(word.moved_to),
        )
    return table


def _signed(change: float, digits: int) -> str:
    return f"{change:+.{digits}f}" if abs(change) >= 0.5 / 10**digits else f"{0:.{digits}f}"


def summary(explanation: Explanation) -> list[str]:
    """The results for the text as a whole."""
    e, lines = explanation, []
    if e.n_cut:
        lines.append(f"Truncated: the model does not see the last {e.n_cut:,} words.")
    if not e.all_moves:
        lines.append(f"Moves to some positions only: {e.n_moves:,} (--most-moves for more).")
    if e.n_shuffles:
        lines.append(
            f"Shuffled {e.n_shuffles:,} times: the log-odds change by {e.shuffle_change:.2f} on "
            f"average, another class {e.shuffles_to_other_class:,} times."
        )
    if e.n_moves:
        lines.append(f"Single moves: another class at {e.moves_to_other_class:,} of {e.n_moves:,}.")
    if e.n_moves and e.worst_move is None:
        lines.append("No move lowers p.")
    if e.worst_move is not None:
        move = e.worst_move
        lines.append(
            f"Most harmful: “{move.word}” from position {move.place} to {move.to}: "
            f"p {e.probability:.3f} → {move.probability:.3f}, log-odds {e.log_odds:+.2f} → "
            f"{move.log_odds:+.2f}, class {move.label}\n  “{move.text}”"
        )
    return lines


def show_pair(explanation: PairExplanation, console: Console) -> None:
    """Print an explanation of a pair."""
    e = explanation
    shown = f"score {e.p:.4f}" if e.label is None else _ranked(e.probabilities)
    console.print(f"“{e.text_a}”\n“{e.text_b}”\n→ {shown}")
    console.print(words_line([(w.word, w.importance, 0.0) for w in e.words_a]))
    console.print(words_line([(w.word, w.importance, w.moved_mean) for w in e.words_b]))
    console.print(Text(LEGEND, style="dim"))
    console.print(pair_table(e))
    console.print("\n".join(pair_summary(e)) + "\n")


def pair_table(explanation: PairExplanation) -> Table:
    """A table with one row per word of both sentences."""
    of = "the score" if explanation.label is None else f"the log-odds of {explanation.label}"
    caption = f"changes of {of}; * marks words that the other sentence lacks, ? unknown words"
    table = Table(caption=Text(caption, style="dim italic"))
    table.add_column("sen-\ntence", justify="right")
    table.add_column("\nword", overflow="fold")
    for name in ("import-\nance", "moved\nmean", "\nmax", "\nat"):
        table.add_column(name, justify="right")
    digits = 3 if explanation.label is None else 2
    for first in explanation.words_a:
        table.add_row("1", _marked(first), _signed(first.importance, digits), "-", "-", "-")
    table.add_section()
    for word in explanation.words_b:
        table.add_row(
            "2",
            _marked(word),
            _signed(word.importance, digits),
            f"{word.moved_mean:.{digits}f}",
            f"{word.moved_max:.{digits}f}",
            "-" if word.moved_to is None else str(word.moved_to),
        )
    return table


def _marked(word: PairWord) -> Text:
    marks = ("" if word.shared else " *") + ("" if word.known else " ?")
    return Text(word.word + marks, style="" if word.known else "dim")


def pair_summary(explanation: PairExplanation) -> list[str]:
    """The results for the pair as a whole."""
    e, lines = explanation, []
    for n_cut, which in zip(e.n_cut, ("first", "second"), strict=True):
        if n_cut:
            lines.append(
                f"Truncated: the model does not see the last {n_cut:,} words of the {which} "
                "sentence."
            )
    if not e.all_moves:
        lines.append(f"Moves to some positions only: {e.n_moves:,} (--most-moves for more).")
    n_words = len(e.words_b)
    if e.n_swaps < n_words * (n_words - 1) // 2:
        lines.append(f"Swaps of near words only: {e.n_swaps:,} (--most-moves for more).")
    is_class = e.label is not None
    if e.n_shuffles:
        other = f", another class {e.shuffles_to_other_class:,} times" if is_class else ""
        changed = "the log-odds change" if is_class else "the score changes"
        lines.append(
            f"Second sentence shuffled {e.n_shuffles:,} times: {changed} by "
            f"{e.shuffle_change:.3f} on average{other}."
        )
    if e.n_moves and is_class:
        lines.append(f"Single moves: another class at {e.moves_to_other_class:,} of {e.n_moves:,}.")
    if e.n_moves and e.worst_move is None:
        lines.append("No move lowers p.")
    if (move := e.worst_move) is not None:
        lines.append(
            f"Most harmful: “{move.words[0]}” from position {move.positions[0]} to "
            f"{move.positions[1]}: {_after(e, move)}"
        )
    if e.n_swaps and e.best_swap is None:
        lines.append(f"No swap {'lowers' if is_class else 'raises'} p.")
    if (swap := e.best_swap) is not None:
        (one, other), (i, j) = swap.words, swap.positions
        effect = "Most similar" if not is_class else "Closest to another class"
        if swap.label != e.label:
            effect = "Another class"
        lines.append(f"{effect}: “{one}” ({i}) swapped with “{other}” ({j}): {_after(e, swap)}")
    return lines


def _after(explanation: PairExplanation, change: Reordering) -> str:
    label = "" if change.label is None else f", class {change.label}"
    return f"p {explanation.p:.3f} → {change.p:.3f}{label}\n  “{change.text}”"
