"""Figures of waves, attention, frequencies and explanations, and how figures are saved.

Text of users is drawn with any installed font that has its characters: matplotlib's own font has no
Chinese, Japanese or Korean.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import torch
from torch import Tensor

from wordwave import complex as cx
from wordwave.embedding import WaveEmbedding
from wordwave.errors import WordwaveError
from wordwave.files import write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from wordwave.tasks.explain import Explanation
    from wordwave.tasks.language_model import LanguageModel


DEFAULT_FONT = "DejaVu Sans"
MAX_NAMED = 5
"""Characters and scripts that a message names."""
FORMATS = (".png", ".svg", ".pdf")
BLUE, ORANGE, GREEN, GREY = "#2a6fdb", "#e0662f", "#2f9e66", "#9aa0a6"
COLOURS = (BLUE, ORANGE, GREEN, "#8e44ad", "#c0392b")
MAX_CHARACTERS = 64
MAX_LABELS = 70
MIN_CHANGE = 0.05
"""The smallest change of log-odds that gets full colour: rounding must not look like one."""


def families_for(texts: Iterable[str]) -> list[str]:
    """Fonts to draw texts with: the default one, then those with the characters that it lacks."""
    return [DEFAULT_FONT, *_found(_characters(texts))[0]]


def missing_glyphs(texts: Iterable[str]) -> str:
    """A note on characters that no installed font has, "" if there are none."""
    missing = _found(_characters(texts))[1]
    if not missing:
        return ""
    scripts = sorted({unicodedata.name(c, "UNKNOWN").split()[0].rstrip("-") for c in missing})
    shown = " ".join(sorted(missing)[:MAX_NAMED]) + (" …" if len(missing) > MAX_NAMED else "")
    return (
        f"boxes are drawn for {shown} ({', '.join(scripts[:MAX_NAMED])}): no installed font has "
        "them; install one, such as Noto Sans CJK for Chinese, Japanese and Korean"
    )


def _characters(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(c for text in texts for c in text if c.isprintable() and not c.isspace())


@cache
def _found(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The fewest fonts that have the characters, and the characters that none has."""
    from matplotlib import font_manager

    missing = characters - _glyphs(font_manager.findfont(DEFAULT_FONT))
    families: list[str] = []
    # Not the list of fontManager, which is cached in a file and lacks fonts installed since.
    paths = sorted(font_manager.findSystemFonts()) if missing else []
    while missing and paths:
        best = max(paths, key=lambda path: len(missing & _glyphs(path)))
        if not missing & _glyphs(best):
            break
        missing -= _glyphs(best)
        font_manager.fontManager.addfont(best)
        families.append(font_manager.FontProperties(fname=best).get_name())
    return tuple(families), frozenset(missing)


@cache
def _glyphs(path: str) -> frozenset[str]:
    from matplotlib import font_manager

    try:
        font: Any = font_manager.get_font(path)
        return frozenset(map(chr, font.get_charmap()))
    except (OSError, RuntimeError, ValueError):  # not a font that matplotlib can draw with
        return frozenset()


def new_figure(width: float, height: float) -> Any:
    """An empty figure; width and height in inches."""
    from matplotlib.figure import Figure  # no pyplot: no window system, no global state

    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Refuse a file of another format, before it is drawn."""
    if path.suffix.lower() not in FORMATS:
        raise WordwaveError(f"a picture must end in {', '.join(FORMATS)}, got '{path}'")


def tidy(axes: Axes, grid: Literal["x", "y", "both"] = "y") -> None:
    """Fewer spines, and a grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


def save_figure(figure: Any, path: Path) -> Path:
    """Save a figure; an SVG keeps its text as text and is the same file for the same figure."""
    check_format(path)
    form = path.suffix.lower()[1:]
    undated = {"metadata": {"Date": None}} if form == "svg" else {}
    save = partial(figure.savefig, dpi=160, format=form, **undated)
    stable = mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wordwave"})
    with stable, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # see `missing_glyphs`
        write_whole(path, save)
    return path


def draw_waves(
    embedding: WaveEmbedding,
    words: Sequence[str],
    path: Path,
    *,
    notes: Sequence[str] = (),
    length: int = 24,
) -> Path:
    """Fig. 1 of the paper for the first words of a vocabulary: each dimension is a wave.

    Curves are the real parts over continuous positions; dots are the values at the positions of
    words. Rows are words (ids 1, 2, …), with a note each if there are any; colours are dimensions.
    """
    fine = torch.linspace(0, length, 40 * length + 1)
    ids = torch.arange(1, len(words) + 1).unsqueeze(1).expand(-1, len(fine))
    with torch.no_grad():
        waves = cx.real(embedding(ids, positions=fine))
    with mpl.rc_context({"font.size": 10}):
        figure = new_figure(8, 1.1 + 1.65 * len(words))
        rows = figure.subplots(len(words), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for j, (word, axes) in enumerate(zip(words, rows, strict=True), start=1):
            for d in range(embedding.dim):
                colour = COLOURS[d % len(COLOURS)]
                period = float(embedding.period()[j, d])
                label = f"period {period:.0f}" if period < 1000 else "constant"
                axes.plot(fine, waves[j - 1, :, d], color=colour, lw=1.6, label=label)
                axes.plot(fine[::40], waves[j - 1, ::40, d], "o", color=colour, ms=3)
            label = "\n".join([f"“{word}”", *notes[j - 1 : j]])
            axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=11)
            axes.axhline(0, color="#999999", lw=0.6)
            tidy(axes, "x")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        rows[-1].set_xlabel("position in the sentence")
        rows[-1].set_xticks(range(0, length + 1, 4))
        figure.suptitle("A word is a wave: amplitude is meaning, phase is place", fontsize=12)
        return save_figure(figure, path)


def draw_attention(
    source: Sequence[str], target: Sequence[str], weights: Tensor, path: Path
) -> Path:
    """Attention weights: the mean over all layers, and each layer beside it, smaller.

    Shape: weights (layers, T, S)
    """
    maps = [("all layers", weights.mean(0))]
    if len(weights) > 1:
        maps += [(f"layer {i}", layer) for i, layer in enumerate(weights, start=1)]
    width = min(max(3.0, 0.32 * len(source) + 1.2), 14.0)
    height = min(max(2.2, 0.28 * len(target) + 1.2), 14.0)
    small = min(width, 2.6)
    with mpl.rc_context({"font.size": 9, "font.family": families_for([*source, *target])}):
        figure = new_figure(width + small * (len(maps) - 1), height)
        ratios = [width, *[small] * (len(maps) - 1)]
        axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=ratios)[0]
        for i, ((name, values), axis) in enumerate(zip(maps, axes, strict=True)):
            axis.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axis.set_title(name)
            axis.spines[:].set_visible(False)
            if i:
                axis.set_xticks([])
                axis.set_yticks([])
                continue
            axis.set_xticks(
                range(len(source)), [_label(s) for s in source], rotation=60, ha="right",
                rotation_mode="anchor",
            )  # fmt: skip
            axis.set_yticks(range(len(target)), [_label(t) for t in target])
            axis.set_xlabel("source")
            axis.set_ylabel("target")
        return save_figure(figure, path)


def draw_frequencies(language_model: LanguageModel, path: Path) -> Path:
    """Position sensitivity δ, the mean |ω|, of each character, and each ω against the median.

    Characters are sorted by δ; of more than 64, those at both ends are shown. Colours are how much
    higher or lower a frequency is than the median over characters, in the same dimension.
    """
    embedding = language_model.model.embedding
    if not isinstance(embedding, WaveEmbedding):
        raise WordwaveError(
            "only complex-order has frequencies to draw, "
            f"got a model with embedding {language_model.config.model.embedding.kind!r}"
        )
    alphabet = language_model.alphabet
    first = 1 if alphabet.unit == "char" else 0  # the unknown character is never trained
    delta = embedding.sensitivity()[first:]
    frequency = embedding.frequency.full().detach()[first:].expand(len(delta), embedding.dim).abs()
    order = delta.argsort(descending=True, stable=True).tolist()
    if len(order) > MAX_CHARACTERS:
        order = order[: MAX_CHARACTERS // 2] + order[-MAX_CHARACTERS // 2 :]
    names = [alphabet.names[i + first] for i in order]
    usual = frequency.median(dim=0).values.clamp(min=1e-12)
    beside = (frequency[order] / usual - 1).mul(100).numpy()
    limit = min(max(float(abs(beside).max()), 1e-6), 100.0)
    with mpl.rc_context({"font.size": 9}):
        figure = new_figure(10, 1.6 + 0.19 * len(order))
        dots, grid = figure.subplots(1, 2, sharey=True, width_ratios=[1, 2.4])
        dots.plot(delta[order].numpy(), range(len(order)), "o", color=BLUE, ms=4)
        dots.set_yticks(range(len(order)), names, fontfamily=["monospace", *families_for(names)])
        dots.locator_params(axis="x", nbins=4)
        dots.set_xlabel("δ, mean |ω| (radians per position)")
        tidy(dots, "both")
        image = grid.imshow(
            beside, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        grid.set_xlabel("dimension, from short to long waves")
        figure.colorbar(
            image, ax=grid, label="% above the median character", extend="max", aspect=40
        )
        figure.suptitle("Position sensitivity of each character")
        return save_figure(figure, path)


def draw_explanation(explanation: Explanation, path: Path) -> Path:
    """Bars for the words, above a map of every move; columns are positions in the text."""
    n = len(explanation.words)
    width = min(max(7.5, 2.0 + 0.36 * n), 18.0)
    height = min(max(1.0, (0.34 if n <= 30 else 0.22) * n), 16.0)
    with mpl.rc_context({"font.size": 10, "font.family": families_for(written_in(explanation))}):
        figure = new_figure(width, height + 4.6)
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
        above.set_title(_escape(title), fontsize=12, pad=24)
        image = _draw_moves(explanation, below)
        label = _escape(f"change of the log-odds of “{explanation.label}” by the move")
        scale = figure.add_subplot(grid[2])
        figure.colorbar(image, cax=scale, label=label, orientation="horizontal")
        return save_figure(figure, path)


def written_in(explanation: Explanation) -> list[str]:
    """The texts of the user that the figure shows."""
    return [explanation.label, *(word.word for word in explanation.words)]


def _draw_words(explanation: Explanation, axes: Axes) -> list[Artist]:
    words = explanation.words
    places = range(1, len(words) + 1)
    bars = (
        ("importance: now − without the word", BLUE, [w.importance for w in words]),
        ("order sensitivity: mean |change| when moved", ORANGE, [w.moved_mean for w in words]),
    )
    for (label, colour, values), aside in zip(bars, (-0.2, 0.2), strict=True):
        axes.bar([x + aside for x in places], values, 0.38, color=colour, label=label)
    axes.axhline(0, color="#666666", lw=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -0.1 * MIN_CHANGE), max(high, MIN_CHANGE))
    axes.set_ylabel("change of the log-odds")
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
    now, n = explanation.log_odds, len(explanation.words)
    change = [[after - now for after in _filled(row)] for row in explanation.after_move]
    strongest = max(abs(c) for row in change for c in row)
    limit = 1.15 * max(strongest, MIN_CHANGE)  # the ends of the scale are nearly black
    image = axes.imshow(
        change, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto",
        extent=(0.5, n + 0.5, n + 0.5, 0.5), interpolation="nearest",
    )  # fmt: skip
    step = -(-n // MAX_LABELS)
    shown = range(1, n + 1, step)
    size = 9 if n <= 30 else 7
    words = [_label(explanation.words[i - 1].word) for i in shown]
    axes.set_xticks(shown, words, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(shown, words, fontsize=size)
    if n <= MAX_LABELS:
        lines = [i + 0.5 for i in range(1, n)]
        axes.hlines(lines, 0.5, n + 0.5, color="white", lw=1.2)
        axes.vlines(lines, 0.5, n + 0.5, color="white", lw=1.2)
        axes.plot(range(1, n + 1), range(1, n + 1), ".", color=GREY, ms=3)
    nearest = "" if explanation.all_moves else " (or the nearest position that was tried)"
    axes.set_xlabel(f"moved to the position of{nearest}")
    axes.set_ylabel("word moved")
    axes.spines[:].set_visible(False)
    return image


def _filled(row: list[float | None]) -> list[float]:
    """Positions that were not tried get the value of the nearest one that was."""
    tried = [(j, q) for j, q in enumerate(row) if q is not None]
    return [min(tried, key=lambda pair: abs(pair[0] - i))[1] for i in range(len(row))]


def _label(text: str, longest: int = 16) -> str:
    """Text of a user as a short label, without control characters."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.strip())
    return _escape(text if len(text) <= longest else text[: longest - 1] + "…")


def _escape(text: str) -> str:
    """A dollar sign would start a formula."""
    return text.replace("$", r"\$")
