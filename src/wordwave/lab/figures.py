"""Pictures of the laboratory: a heat map, accuracy against length, frequencies of words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wordwave.grid import Record
from wordwave.lab.report import by_encoder, lengths_in, rows_in, scores_at
from wordwave.lab.tasks import PAIR_TASKS, TEXT_TASK
from wordwave.models.config import EMBEDDINGS
from wordwave.plotting import written

Points = list[tuple[float, float]]
COLOURS = {
    "none": "#9aa0a6",
    "pe": "#c77d0a",
    "tpe": "#2f9e66",
    "complex-vanilla": "#8e44ad",
    "complex-order": "#2a6fdb",
    "rope": "#c0392b",
    "alibi": "#5d4037",
}


def draw_heat_map(records: list[Record], lengths: str, path: Path) -> Path:
    """Accuracy of every task and encoder under every embedding."""
    scores = scores_at(records, lengths)
    rows = rows_in(scores)
    columns = [k for k in EMBEDDINGS if any(key[2] == k for key in scores)]
    figure = Figure(
        figsize=(max(7, 2.6 + 1.15 * len(columns)), 1.3 + 0.32 * len(rows)), layout="constrained"
    )
    axes = figure.subplots()
    means = [[_mean(scores.get((t, e, k))) for k in columns] for t, e in rows]
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
    return written(figure, path)


def draw_lengths(records: list[Record], path: Path) -> Path:
    """Accuracy against the length of the sentence, a panel for each task and encoder.

    Embeddings that are blind to order have the same accuracy, and so the same line: where
    others are drawn over one, it is wider than they are, so that all of them are seen.
    """
    ranges = lengths_in(records)
    rows = rows_in(scores_at(records, ranges[0]))
    n_columns = min(4, len(rows))
    n_rows = -(-len(rows) // n_columns)
    figure = Figure(figsize=(3.6 * n_columns + 1.2, 2.6 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for (task, encoder), axes in zip(rows, panels.flat, strict=False):
        drawn = {kind: _points(records, ranges, (task, encoder, kind)) for kind in EMBEDDINGS}
        drawn = {kind: points for kind, points in drawn.items() if points}
        for n, (kind, points) in enumerate(drawn.items(), start=1):
            above = list(drawn.values())[n:]
            for stretch in pairwise(points) if len(points) > 1 else [points]:
                over = sum(_lies_on(stretch, other) for other in above)
                axes.plot(
                    *zip(*stretch, strict=True), "o-", color=COLOURS[kind],
                    lw=1.5 + 2 * over, ms=3 + 2 * over, clip_on=False, solid_capstyle="round",
                )  # fmt: skip
            lines[kind] = Line2D([], [], color=COLOURS[kind], marker="o", lw=2.5, ms=5)
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
    shown = [kind for kind in EMBEDDINGS if kind in lines]
    figure.legend([lines[kind] for kind in shown], shown, loc="outside right upper", frameon=False)
    return written(figure, path)


def draw_frequencies(records: list[Record], path: Path) -> Path | None:
    """δ_j of the words whose place decides against those of all others, by task."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for r in by_encoder(records):
        words = r.get("sensitivity")
        if words and len(set(words["others"])) > 1:
            marked, others = found.setdefault(f"{r['task']} · {r['encoder']}", ([], []))
            marked += words["marked"]
            others += words["others"]
    if not found:
        return None
    figure = Figure(figsize=(8, 1.2 + 0.34 * len(found)), layout="constrained")
    axes = figure.subplots()
    for i, (marked, others) in enumerate(found.values()):
        axes.vlines(others, i + 0.02, i + 0.36, color="#9aa0a6", lw=1, alpha=0.5)
        axes.vlines(marked, i - 0.36, i - 0.02, color="#2a6fdb", lw=2)
    axes.set_yticks(range(len(found)), list(found), fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)  # the first row above, and all of each row
    axes.set_xlabel("δ, mean |frequency| of a word")
    axes.set_title("Words whose place decides (blue, above) and all others (grey)", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return written(figure, path)


def _points(records: list[Record], ranges: list[str], row: tuple[str, str, str]) -> Points:
    """Length and mean accuracy, as far as there are any."""
    found = {r: scores_at(records, r).get(row) for r in ranges}
    return [(_middle(r), statistics.fmean(scores)) for r, scores in found.items() if scores]


def _lies_on(stretch: Sequence[tuple[float, float]], line: Points) -> bool:
    """Whether a part of a line is a part of another one, as far as one can see."""
    values = dict(line)
    return all(x in values and abs(y - values[x]) < 0.015 for x, y in stretch)


def _middle(lengths: str) -> float:
    low, high = map(int, lengths.split("-"))
    return (low + high) / 2


def _mean(values: list[float] | None) -> float:
    return statistics.fmean(values) if values else float("nan")
