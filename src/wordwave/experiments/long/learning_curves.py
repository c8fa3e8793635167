"""How long trainings went, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordwave.experiments.pictures.canvas import canvas, saved, tidy
from wordwave.experiments.store import Record

MINUTES = "core minutes"
"""The column of updates times the seconds of a step."""


@dataclass(frozen=True)
class Panel:
    """One figure of every look at dev, over updates or over minutes."""

    value: Callable[[Record], float | None]
    """Of a point of a curve; `None` where it was not taken."""
    label: str
    step_seconds: Mapping[str, float] | None = None
    """By row, to draw it over time and not over updates. What trainings took that ran beside others
    would tell of these."""

    def places(self, row: str, curve: Sequence[Record]) -> list[float]:
        """Where the points of a curve are drawn."""
        unit = 1.0 if self.step_seconds is None else self.step_seconds[row] / 60
        return [point["step"] * unit for point in curve]

    def shows(self, row: str) -> bool:
        """Whether it is known where the points of a row are."""
        return self.step_seconds is None or row in self.step_seconds


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
            if None not in values and panel.shows(row):
                label = None if row in named else row
                places = panel.places(row, curve)
                axes.plot(places, values, color=colours[row], lw=1.4, label=label)
                named.add(row)
        axes.set_xlabel("updates" if panel.step_seconds is None else "minutes of one core")
        axes.set_ylabel(panel.label)
        tidy(axes, "both")
    drawn[0].legend(frameon=False)
    return saved(figure, path)
