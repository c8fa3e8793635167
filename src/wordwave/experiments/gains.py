"""What complex-order brings, ours beside the paper's: Table 2 in one look."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from wordwave.experiments import paper
from wordwave.experiments.cells import WAVES
from wordwave.experiments.pictures.canvas import COLOURS, canvas, saved, tidy
from wordwave.experiments.summary import Row, Summary
from wordwave.experiments.table2 import judged_columns
from wordwave.models.config import ENCODERS

RIVALS = ("none", "pe", "tpe")


def gains(summary: Summary) -> dict[tuple[str, str], tuple[float, float]]:
    """Points of accuracy over the mean of the real embeddings, ours and the paper's, by encoder
    and data set; only folds and seeds that all four have count."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for encoder in ENCODERS:
        for dataset in judged_columns(summary):
            rows: list[Row] = [(encoder, kind, "paper") for kind in (WAVES, *RIVALS)]
            ours = summary.common_means(rows, dataset)
            printed = [paper.accuracy(*row, dataset) for row in rows]
            if ours is not None:
                known = [value for value in printed if value is not None]
                found[encoder, dataset] = _gain(ours), _gain(known)
    return found


def _gain(values: list[float]) -> float:
    waves, *rivals = values
    return 100 * (waves - fmean(rivals))


def draw_gains(summary: Summary, path: Path, *, note: str = "") -> list[Path]:
    """A line of each data set, an encoder a panel: a dot for us, a ring for the paper.

    Args:
        note: what else the title should say.
    """
    found = gains(summary)
    encoders = [e for e in ENCODERS if any(place[0] == e for place in found)]
    datasets = [d for d in judged_columns(summary) if any(place[1] == d for place in found)]
    figure = canvas(max(2.5 * len(encoders) + 1, 7.5), 0.34 * len(datasets) + 1.7)
    panels = figure.subplots(1, len(encoders), squeeze=False, sharex=True, sharey=True)[0]
    for encoder, axes in zip(encoders, panels, strict=True):
        axes.axvline(0, color="#777777", lw=1)
        for line, dataset in enumerate(datasets):
            if (encoder, dataset) in found:
                ours, printed = found[encoder, dataset]
                axes.plot([ours, printed], [line, line], color="#d5d5d5", lw=1.4, zorder=1)
                ring = {"mfc": "white", "mec": COLOURS[1], "mew": 1.6, "ms": 7}
                axes.plot(printed, line, "o", label="the paper", **ring)
                axes.plot(ours, line, "o", color=COLOURS[0], ms=7, label="here, test seen once")
        axes.set_title(encoder)
        axes.set_yticks(range(len(datasets)), datasets)
        tidy(axes, "both")
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=2, frameon=False)
    title = "Points of accuracy that complex-order adds to the mean of none, pe and tpe"
    counts = sorted({len(summary.scores((e, WAVES, "paper"), d)) for e, d in found})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    figure.suptitle(f"{title}\n{runs} runs a row{note and f'; {note}'}", fontsize=11)
    return saved(figure, path)
