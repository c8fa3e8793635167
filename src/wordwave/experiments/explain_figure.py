"""The picture of an explanation: what each word brings, and what its place brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from wordwave.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wordwave.tasks.explanation import Explanation

FORMATS = (".png", ".svg", ".pdf")
BLUE, ORANGE, GREY, GREEN = "#2a6fdb", "#e0662f", "#9aa0a6", "#2f9e66"
MOST_LABELS = 80
FAINTEST = 0.05
"""The least change of a probability that gets full colour: rounding must not look like a result."""


def draw_explanation(explanation: Explanation, path: Path) -> Path:
    """Bars for the words above, a map of every move below; columns are places in the text."""
    from matplotlib.figure import Figure  # no pyplot: no window system, no global state

    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a picture must end in {', '.join(FORMATS)}, got '{path}'")
    n = len(explanation.words)
    width = min(max(7.5, 3.0 + 0.42 * n), 24.0)
    cell = (width - 3.0) / n
    height = min(max(cell * n, 1.2), 16.0)
    settings: dict[str, Any] = {"font.size": 10, "svg.fonttype": "none", "axes.unicode_minus": True}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, 3.4 + height), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, height])
        _draw_words(explanation, above)
        _draw_moves(explanation, below)
        certain = f"P({explanation.label}) = {explanation.probability:.3f}"
        # A dollar sign would begin a formula.
        figure.suptitle(f"Why “{explanation.label}”?  {certain}".replace("$", r"\$"), fontsize=12)
        form = path.suffix.lower()[1:]
        write_whole(path, lambda new: figure.savefig(new, dpi=150, format=form))
    return path


def _draw_words(explanation: Explanation, axes: Axes) -> None:
    words = explanation.words
    places = range(1, len(words) + 1)
    bars = (
        ("importance: p − p without the word", BLUE, [w.importance for w in words]),
        ("order sensitivity: mean |change of p| when moved", ORANGE, [w.moved_mean for w in words]),
    )
    for (label, colour, values), aside in zip(bars, (-0.2, 0.2), strict=True):
        axes.bar([x + aside for x in places], values, 0.38, color=colour, label=label)
    axes.axhline(0, color="#666666", lw=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -0.1 * FAINTEST), max(high, FAINTEST))
    axes.set_ylabel("probability")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    frequencies = [w.frequency for w in words if w.frequency is not None]
    if frequencies:
        twin = axes.twinx()
        (dots,) = twin.plot(places, frequencies, "o", color=GREEN, ms=5, mec="white", mew=0.8)
        twin.set_ylim(0, 1.15 * max(*frequencies, 1e-3))
        twin.set_ylabel("δ, mean |frequency|", color=GREEN)
        twin.tick_params(axis="y", colors=GREEN)
        twin.spines[["top", "left"]].set_visible(False)
        handles, labels = [*handles, dots], [*labels, "δ of the word"]
    axes.legend(
        handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False,
        fontsize=8,
    )  # fmt: skip


def _draw_moves(explanation: Explanation, axes: Axes) -> None:
    p, n = explanation.probability, len(explanation.words)
    change = [[float("nan") if q is None else q - p for q in row] for row in explanation.after_move]
    strongest = max((abs(c) for row in change for c in row if c == c), default=0.0)
    limit = max(strongest, FAINTEST)
    colours = mpl.colormaps["RdBu"].with_extremes(bad="#e8e8e8")
    image = axes.imshow(
        change, cmap=colours, vmin=-limit, vmax=limit, aspect="auto",
        extent=(0.5, n + 0.5, n + 0.5, 0.5), interpolation="nearest",
    )  # fmt: skip
    step = -(-n // MOST_LABELS)
    if n <= MOST_LABELS:
        axes.plot(range(1, n + 1), range(1, n + 1), ".", color=GREY, ms=3)
    shown = range(1, n + 1, step)
    size = 9 if n <= 40 else 6
    words = [_short(explanation.words[i - 1].word) for i in shown]
    axes.set_xticks(shown, words, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(shown, words, fontsize=size)
    axes.set_xlabel("moved to the place of")
    axes.set_ylabel("word moved")
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label=f"change of P({explanation.label})", pad=0.02)


def _short(word: str, most: int = 16) -> str:
    word = word if len(word) <= most else word[: most - 1] + "…"
    return word.replace("$", r"\$")
