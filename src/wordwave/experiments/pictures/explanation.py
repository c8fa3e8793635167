"""The picture of an explanation: what each word brings, and what its place brings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from wordwave.experiments.pictures.canvas import canvas, check_format, written
from wordwave.experiments.pictures.fonts import families_for

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from wordwave.tasks.explanation import Explanation

BLUE, ORANGE, GREY, GREEN = "#2a6fdb", "#e0662f", "#9aa0a6", "#2f9e66"
MOST_LABELS = 70
FAINTEST = 0.05
"""The least change of a probability that gets full colour: rounding must not look like a result."""


def draw_explanation(explanation: Explanation, path: Path) -> Path:
    """Bars for the words above, a map of every move below; columns are places in the text."""
    check_format(path)
    n = len(explanation.words)
    width = min(max(7.5, 2.0 + 0.36 * n), 18.0)
    height = min(max(1.0, (0.34 if n <= 30 else 0.22) * n), 16.0)
    with mpl.rc_context({"font.size": 10, "font.family": families_for(written_in(explanation))}):
        figure = canvas(width, height + 4.6)
        grid = figure.add_gridspec(3, 1, height_ratios=[2.2, height, 0.14])
        below = figure.add_subplot(grid[1])
        above = figure.add_subplot(grid[0], sharex=below)
        above.tick_params(labelbottom=False)
        handles = _draw_words(explanation, above)
        above.legend(
            handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3,
            frameon=False, fontsize=8,
        )  # fmt: skip
        title = f"Why “{explanation.label}”?  p = {explanation.probability:.3f}"
        above.set_title(_safe(title), fontsize=12, pad=24)
        image = _draw_moves(explanation, below)
        label = _safe(f"change of P({explanation.label}) by the move")
        scale = figure.add_subplot(grid[2])
        figure.colorbar(image, cax=scale, label=label, orientation="horizontal")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # `missing_glyphs` tells of it
            return written(figure, path)


def written_in(explanation: Explanation) -> list[str]:
    """The user's texts in the picture."""
    return [explanation.label, *(word.word for word in explanation.words)]


def _draw_words(explanation: Explanation, axes: Axes) -> list[Artist]:
    words = explanation.words
    places = range(1, len(words) + 1)
    bars = (
        ("importance: p − p without it", BLUE, [w.importance for w in words]),
        ("order sensitivity: mean |change of p| when moved", ORANGE, [w.moved_mean for w in words]),
    )
    for (label, colour, values), aside in zip(bars, (-0.2, 0.2), strict=True):
        axes.bar([x + aside for x in places], values, 0.38, color=colour, label=label)
    axes.axhline(0, color="#666666", lw=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -0.1 * FAINTEST), max(high, FAINTEST))
    axes.set_ylabel("change of p")
    axes.spines[["top", "right"]].set_visible(False)
    handles = axes.get_legend_handles_labels()[0]
    frequencies = [w.frequency for w in words if w.frequency is not None]
    if frequencies:
        twin = axes.twinx()
        label = "δ, mean |frequency|"
        handles += twin.plot(
            places, frequencies, "o", label=label, color=GREEN, ms=5, mec="white", mew=0.8
        )
        twin.set_ylim(0, 1.15 * max(*frequencies, 1e-3))
        twin.set_ylabel("δ", color=GREEN)
        twin.tick_params(axis="y", colors=GREEN)
        twin.spines[["top", "left"]].set_visible(False)
    return handles


def _draw_moves(explanation: Explanation, axes: Axes) -> AxesImage:
    p, n = explanation.probability, len(explanation.words)
    change = [[q - p for q in _filled(row)] for row in explanation.after_move]
    strongest = max(abs(c) for row in change for c in row)
    limit = 1.15 * max(strongest, FAINTEST)  # the ends of the scale are nearly black
    image = axes.imshow(
        change, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto",
        extent=(0.5, n + 0.5, n + 0.5, 0.5), interpolation="nearest",
    )  # fmt: skip
    step = -(-n // MOST_LABELS)
    shown = range(1, n + 1, step)
    size = 9 if n <= 30 else 7
    words = [_short(explanation.words[i - 1].word) for i in shown]
    axes.set_xticks(shown, words, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(shown, words, fontsize=size)
    if n <= MOST_LABELS:
        lines = [i + 0.5 for i in range(1, n)]
        axes.hlines(lines, 0.5, n + 0.5, color="white", lw=1.2)
        axes.vlines(lines, 0.5, n + 0.5, color="white", lw=1.2)
        axes.plot(range(1, n + 1), range(1, n + 1), ".", color=GREY, ms=3)
    nearest = "" if explanation.all_moves else " (or the nearest place that was tried)"
    axes.set_xlabel(f"moved to the place of{nearest}")
    axes.set_ylabel("word moved")
    axes.spines[:].set_visible(False)
    return image


def _filled(row: list[float | None]) -> list[float]:
    """Places that were not tried get what the nearest place of those that were has."""
    tried = [(j, q) for j, q in enumerate(row) if q is not None]
    return [min(tried, key=lambda pair: abs(pair[0] - i))[1] for i in range(len(row))]


def _short(word: str, most: int = 16) -> str:
    return _safe(word if len(word) <= most else word[: most - 1] + "…")


def _safe(text: str) -> str:
    """A dollar sign would begin a formula."""
    return text.replace("$", r"\$")
