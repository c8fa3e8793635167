"""How long trainings went, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from wordwave.experiments.pictures.canvas import canvas, saved, tidy
from wordwave.experiments.store import Record


@dataclass(frozen=True)
class Panel:
    """One figure of every look at dev, over updates or over minutes."""

    value: Callable[[Record], float | None]
    """Of a point of a curve; `None` where it was not taken."""
    label: str
    over_time: bool = False

    def places(self, curve: Sequence[Record]) -> list[float]:
        """Where the points of a curve are drawn."""
        if not self.over_time:
            return [point["step"] for point in curve]
        return [seconds / 60 for seconds in accumulate(point["seconds"] for point in curve)]


def draw_curves(
    records: Sequence[Record], colours: Mapping[str, str], panels: Sequence[Panel], path: Path
) -> list[Path]:
    """The curve of every training in every panel; rows are colours."""
    figure = canvas(3.8 * len(panels), 3.6)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, axes in zip(panels, drawn, strict=True):
        named: set[str] = set()
        for record in records:
            row, curve = record["row"], record["curve"]
            values: list[Any] = [panel.value(point) for point in curve]
            if None not in values:
                label = None if row in named else row
                axes.plot(panel.places(curve), values, color=colours[row], lw=1.4, label=label)
                named.add(row)
        axes.set_xlabel("minutes of training" if panel.over_time else "updates")
        axes.set_ylabel(panel.label)
        tidy(axes, "both")
    drawn[0].legend(frameon=False)
    return saved(figure, path)
