"""Figures 1, 5 and 6 of the paper from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.timing import epoch_seconds
from wordwave.grid import Record
from wordwave.models.config import ENCODERS
from wordwave.plotting import COLOURS, new_figure, save_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ENDINGS = (".png", ".svg")
_BANDS = ((1, 4), (5, 49), (50, None))
"""Word counts in the training set."""


def save_png_and_svg(figure: Any, path: Path) -> list[Path]:
    """Save a figure as PNG and as SVG."""
    return [save_figure(figure, path.with_name(path.name + ending)) for ending in ENDINGS]


def draw_fig1(record: Record, path: Path) -> list[Path]:
    """Waves of three words of a trained model, from greatest to smallest δ, in three dimensions."""
    import torch

    from wordwave.embedding import WaveEmbedding
    from wordwave.plotting import draw_waves

    waves = record["waves"]
    embedding = WaveEmbedding(len(waves) + 1, 3, padding_idx=0)
    with torch.no_grad():
        for i, wave in enumerate(waves.values(), start=1):
            embedding.amplitude.weight[i] = torch.tensor(wave["amplitude"])
            embedding.frequency.weight[i] = torch.tensor(wave["frequency"])
    notes = [f"δ {wave['delta']:.4f}" for wave in waves.values()]
    return [draw_waves(embedding, list(waves), path.with_suffix(e), notes=notes) for e in ENDINGS]


def draw_fig5(record: Record, path: Path) -> list[Path]:
    """Seconds per epoch as bars, one panel per encoder; error bars are the range over rounds."""
    seconds = epoch_seconds(record)
    encoders = [e for e in ENCODERS if any(kind[0] == e for kind in seconds)]
    figure = new_figure(2.9 * len(encoders) + 0.6, 3.4)
    panels = figure.subplots(1, len(encoders), squeeze=False)[0]
    for axes, encoder in zip(panels, encoders, strict=True):
        own = {kind[1]: found for kind, found in seconds.items() if kind[0] == encoder}
        middles = [found[0] for found in own.values()]
        below = [found[0] - found[1] for found in own.values()]
        above = [found[2] - found[0] for found in own.values()]
        colours = [COLOURS[1] if name.startswith("complex") else COLOURS[0] for name in own]
        axes.bar(range(len(own)), middles, yerr=[below, above], color=colours, capsize=3, width=0.7)
        axes.set_xticks(range(len(own)), list(own), rotation=35, ha="right")
        axes.set_title(encoder)
        tidy(axes)
    panels[0].set_ylabel("seconds per epoch")
    words = record["words_per_epoch"]
    figure.suptitle(f"One epoch of {record['dataset']} ({words:,} words) on one core")
    return save_png_and_svg(figure, path)


def draw_fig6(records: Sequence[Record], path: Path) -> list[Path]:
    """The density of δ by word frequency, one panel per trained model."""
    columns = min(2, len(records))
    rows = -(-len(records) // columns)
    figure = new_figure(5.2 * columns, 0.6 + 3.2 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, record in zip(panels, records, strict=False):
        _draw_density(axes, record)
    for axes in panels[::columns]:
        axes.set_ylabel("density (square-root scale)")
    for axes in panels[len(records) :]:
        axes.set_visible(False)
    figure.suptitle("Position sensitivity δ of words, by word frequency")
    return save_png_and_svg(figure, path)


def _draw_density(axes: Axes, record: Record) -> None:
    import numpy as np

    delta, counts = np.array(record["delta"]), np.array(record["counts"])
    low, high = float(delta.min()), float(delta.max())
    margin = max(0.02 * (high - low), 1e-6)
    edges = np.linspace(low - margin, high + margin, 61)
    for (least, most), colour in zip(_BANDS, COLOURS, strict=False):
        own = delta[(counts >= least) & (counts <= (most or counts.max()))]
        if len(own):
            times = f"{least} times or more" if most is None else f"{least} to {most} times"
            density, _ = np.histogram(own, edges, density=True)
            label = f"{times} ({len(own):,} words)"
            axes.stairs(density, edges, color=colour, lw=1.6, label=label)
    if record["untrained_delta"] is not None:
        axes.axvline(
            record["untrained_delta"], color="#777777", lw=1, ls="--", label="before training"
        )
    axes.set_yscale("function", functions=(_root, np.square))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("δ, mean |ω| of a word")
    axes.set_title(f"{record['encoder']} on {record['dataset']}")
    axes.legend(frameon=False, fontsize=8, title="seen in training", title_fontsize=8)
    tidy(axes)


def _root(values: Any) -> Any:
    import numpy as np

    return np.sqrt(np.maximum(values, 0))
