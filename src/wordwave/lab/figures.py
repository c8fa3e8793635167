"""Figures of the laboratory: a heat map, accuracy against length, frequencies of words."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from wordwave.embedding.config import EMBEDDING_KINDS
from wordwave.grid import Record
from wordwave.lab import suite_report
from wordwave.lab.paraphrases import ROWS
from wordwave.lab.report import Accuracies, accuracies_at, lengths_in, rows_in, sensitivities
from wordwave.lab.tasks import PAIR_TASKS, TEXT_TASK
from wordwave.plotting import new_figure, save_figure, tidy
from wordwave.tables import Score

Points = list[tuple[float, float]]
EMBEDDING_COLOURS = {
    "none": "#9aa0a6",
    "pe": "#c77d0a",
    "tpe": "#2f9e66",
    "complex-vanilla": "#8e44ad",
    "complex-order": "#2a6fdb",
    "rope": "#c0392b",
    "alibi": "#5d4037",
    "nope": "#607d8b",
    "p-rope": "#e57373",
    "xpos": "#ad1457",
    "t5": "#00897b",
    "kerple": "#a1887f",
    "fire": "#ff7043",
    "cope": "#fbc02d",
    "pope": "#7e57c2",
    "wave-attention": "#1a237e",
    "token-clock": "#4fc3f7",
}


def draw_figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """All figures that the records have data for."""
    lengths = lengths_in(records)
    drawn = [draw_heat_map(records, lengths[0], folder / "heat-map.png")]
    if len(lengths) > 1:
        drawn.append(draw_lengths(records, folder / "lengths.png"))
    if sensitivities(records):
        drawn.append(draw_sensitivities(records, folder / "frequencies.png"))
    return drawn


def draw_heat_map(records: Sequence[Record], lengths: str, path: Path) -> Path:
    """Accuracy of every task and encoder with every embedding."""
    found = accuracies_at(records, lengths)
    rows = rows_in(found)
    columns = [k for k in EMBEDDING_KINDS if any(key[2] == k for key in found)]
    figure = new_figure(max(7, 2.6 + 1.15 * len(columns)), 1.3 + 0.32 * len(rows))
    axes = figure.subplots()
    means = [[_mean(found.get((*row, k))) for k in columns] for row in rows]
    image = axes.imshow(means, cmap="RdYlGn", vmin=0.0, vmax=1.0, aspect="auto")
    for i, row in enumerate(means):
        for j, value in enumerate(row):
            if value == value:
                colour = "white" if abs(value - 0.5) > 0.35 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(columns)), columns, rotation=20, ha="right")
    axes.set_yticks(range(len(rows)), [f"{t} · {e}" for t, e in rows], fontsize=8)
    axes.set_title(f"Who knows the order of words? Accuracy at {lengths} words", fontsize=11)
    figure.colorbar(image, ax=axes, label="accuracy")
    return save_figure(figure, path)


def draw_lengths(records: Sequence[Record], path: Path) -> Path:
    """Accuracy against the length of the sentence, a panel for each task and encoder.

    Embeddings that ignore order have the same accuracy, and so the same line: a line that others
    cover is drawn wider than they are, so that all of them can be seen.
    """
    ranges = {lengths: accuracies_at(records, lengths) for lengths in lengths_in(records)}
    rows = rows_in(next(iter(ranges.values())))
    n_columns = min(4, len(rows))
    n_rows = -(-len(rows) // n_columns)
    figure = new_figure(3.6 * n_columns + 1.2, 2.6 * n_rows + 0.6)
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for (task, encoder), axes in zip(rows, panels.flat, strict=False):
        drawn = {kind: _points(ranges, (task, encoder, kind)) for kind in EMBEDDING_KINDS}
        drawn = {kind: points for kind, points in drawn.items() if points}
        for n, (kind, points) in enumerate(drawn.items(), start=1):
            above = list(drawn.values())[n:]
            for stretch in pairwise(points) if len(points) > 1 else [points]:
                over = sum(_lies_on(stretch, other) for other in above)
                axes.plot(
                    *zip(*stretch, strict=True), "o-", color=EMBEDDING_COLOURS[kind],
                    lw=1.5 + 2 * over, ms=3 + 2 * over, clip_on=False, solid_capstyle="round",
                )  # fmt: skip
            lines[kind] = Line2D([], [], color=EMBEDDING_COLOURS[kind], marker="o", lw=2.5, ms=5)
        axes.set_xscale("log")
        middles = [_middle(r) for r in ranges]
        axes.set_xticks(middles, [f"{m:.0f}" for m in middles], fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.03)
        if task in PAIR_TASKS or task == TEXT_TASK:
            axes.axhline(0.5, color="#bbbbbb", lw=0.8, ls=":")
        axes.set_title(f"{task} · {encoder}", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(panels.flat)[len(rows) :]:
        axes.set_visible(False)
    figure.supxlabel("words in the sentence", fontsize=10)
    figure.supylabel("accuracy", fontsize=10)
    shown = [kind for kind in EMBEDDING_KINDS if kind in lines]
    figure.legend([lines[kind] for kind in shown], shown, loc="outside right upper", frameon=False)
    return save_figure(figure, path)


def draw_sensitivities(records: Sequence[Record], path: Path) -> Path:
    """δ_j of the words whose position decides the answer and of all others, by task."""
    found = sensitivities(records)
    figure = new_figure(8, 1.2 + 0.34 * len(found))
    axes = figure.subplots()
    for i, seeds in enumerate(found.values()):
        deciding, others = ([d for seed in seeds for d in seed[side]] for side in (0, 1))
        axes.vlines(others, i + 0.02, i + 0.36, color="#9aa0a6", lw=1, alpha=0.5)
        axes.vlines(deciding, i - 0.36, i - 0.02, color="#2a6fdb", lw=2)
    axes.set_yticks(range(len(found)), [f"{t} · {e}" for t, e in found], fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)  # the first row above, and all of each row
    axes.set_xlabel("δ, mean |frequency| of a word")
    axes.set_title("Words whose place decides (blue, above) and all others (grey)", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path)


def draw_demo(generated: Sequence[Record], real: Sequence[Record], path: Path) -> Path:
    """Accuracy on the tasks of the laboratory, and beside it AUC on real paraphrases.

    Args:
        generated: records of the laboratory, of one encoder and one range of lengths.
        real: records of `wordwave.lab.paraphrases`.
    """
    found = accuracies_at(generated, lengths_in(generated)[0])
    kinds = [kind for kind in EMBEDDING_KINDS if any(key[2] == kind for key in found)]
    figure = new_figure(11, 4.6)
    tasks, pairs = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    width = 0.84 / len(kinds)
    rows = rows_in(found)
    for i, kind in enumerate(kinds):
        means = [_mean(found.get((*row, kind))) for row in rows]
        places = [n + (i - (len(kinds) - 1) / 2) * width for n in range(len(rows))]
        _draw_bars(tasks, places, means, [kind] * len(rows), width=0.92 * width, size=7)
    tasks.set_xticks(range(len(rows)), [task for task, _ in rows], fontsize=10)
    tasks.set_title("Generated sentences: accuracy", fontsize=11)
    auc = {r["embedding"]: r["auc"] for r in real}
    shown = [kind for kind in ROWS if kind in auc]
    values = [auc[kind] for kind in shown]
    _draw_bars(pairs, range(len(shown)), values, shown, width=0.6, size=10)
    names = [ROWS[kind].replace(" + ", "\n+ ") for kind in shown]
    pairs.set_xticks(range(len(shown)), names, fontsize=10)
    pairs.set_title("Paraphrases of Wikipedia sentences (PAWS): AUC", fontsize=11)
    for axes in (tasks, pairs):
        axes.axhline(0.5, color="#444444", lw=0.9, ls=":")
        axes.set_ylim(0, 1.08)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "guessing  0.5", "0.75", "1"])
        axes.tick_params(length=0)
        tidy(axes)
    squares = [Line2D([], [], color=EMBEDDING_COLOURS[k], marker="s", lw=0, ms=8) for k in kinds]
    figure.legend(
        squares, kinds, loc="outside lower center", ncols=len(kinds), frameon=False, fontsize=10
    )
    figure.suptitle("Which sums of words keep their order?", fontsize=13)
    return save_figure(figure, path)


def draw_suite(records: Sequence[Record], folder: Path) -> list[Path]:
    """Figures of the suite of encodings: a heat map at the first and the last length, and accuracy
    against length, a panel for each task."""
    spans = lengths_in(records)
    cells = suite_report.cells_of(records)
    tasks, names = suite_report.tasks_in(cells), suite_report.encodings_in(cells)
    tables = {span: suite_report.accuracy_table(records, span) for span in (spans[0], spans[-1])}
    figure = new_figure(2.2 + 1.0 * len(tasks) * len(tables), 1.6 + 0.3 * len(names))
    panels = figure.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    for axes, (span, table) in zip(panels, tables.items(), strict=True):
        values = [[_value(score) for score in row[1:]] for row in table.rows]
        axes.imshow(values, cmap="RdYlGn", vmin=0.0, vmax=1.0, aspect="auto")
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                if value == value:
                    colour = "white" if abs(value - 0.5) > 0.35 else "black"
                    axes.text(
                        j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour
                    )
        axes.set_xticks(
            range(len(table.columns) - 1), table.columns[1:], rotation=30, ha="right", fontsize=8
        )
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_title(f"Accuracy at {span} tokens", fontsize=10)
    drawn = [save_figure(figure, folder / "encodings-heat-map.png")]
    if len(spans) == 1:
        return drawn
    n_columns = min(4, len(tasks))
    figure = new_figure(3.4 * n_columns + 1.8, 2.5 * -(-len(tasks) // n_columns) + 0.6)
    panels = figure.subplots(-(-len(tasks) // n_columns), n_columns, squeeze=False, sharey=True)
    lines: dict[str, Any] = {}
    for task, axes in zip(tasks, panels.flat, strict=False):
        for i, name in enumerate(names):
            means = {_middle(s): _mean(suite_report.at(cells, task, name, s)) for s in spans}
            found = [(x, mean) for x, mean in means.items() if mean == mean]
            if found:
                style = ("-", "--", ":")[i // 10 % 3]
                (lines[name],) = axes.plot(
                    *zip(*found, strict=True), style, color=f"C{i % 10}", marker="o", ms=3, lw=1.2
                )
        axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(task, fontsize=9)
        tidy(axes)
    for axes in list(panels.flat)[len(tasks) :]:
        axes.set_visible(False)
    figure.supxlabel("tokens in the sequence", fontsize=10)
    figure.supylabel("accuracy", fontsize=10)
    figure.legend(
        list(lines.values()), list(lines), loc="outside right upper", frameon=False, fontsize=8
    )
    return [*drawn, save_figure(figure, folder / "encodings-lengths.png")]


def _value(score: Any) -> float:
    return score.mean if isinstance(score, Score) else float("nan")


def _draw_bars(
    axes: Any,
    places: Iterable[float],
    values: Sequence[float],
    kinds: Sequence[str],
    *,
    width: float,
    size: float,
) -> None:
    """Bars in the colours of embeddings, each below its value in letters of a size."""
    colours = [EMBEDDING_COLOURS[kind] for kind in kinds]
    bars = axes.bar(list(places), values, width, color=colours)
    axes.bar_label(bars, [f"{value:.2f}" for value in values], fontsize=size, padding=2)


def _points(ranges: Mapping[str, Accuracies], row: tuple[str, str, str]) -> Points:
    """Length and mean accuracy, where there are any."""
    found = {lengths: by_row.get(row) for lengths, by_row in ranges.items()}
    return [(_middle(r), statistics.fmean(values)) for r, values in found.items() if values]


def _lies_on(stretch: Sequence[tuple[float, float]], line: Points) -> bool:
    """Whether a part of a line cannot be told from a part of another one."""
    values = dict(line)
    return all(x in values and abs(y - values[x]) < 0.015 for x, y in stretch)


def _middle(lengths: str) -> float:
    low, high = map(int, lengths.split("-"))
    return (low + high) / 2


def _mean(values: list[float] | None) -> float:
    return statistics.fmean(values) if values else float("nan")
