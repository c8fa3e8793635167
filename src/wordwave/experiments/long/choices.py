"""Short trainings that each change something of a row, judged by dev alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar

from wordwave.experiments.grid import Content, Grid
from wordwave.experiments.long.long_table import LongCell, LongTable
from wordwave.experiments.store import Record

FIRST = "at first"


def named(row: str, change: str = FIRST) -> str:
    """A row of choices: a row of the table, and what is changed of it."""
    return f"{row}: {change}"


def first_of(choice: str) -> str:
    """The same row with nothing changed."""
    return named(choice.partition(":")[0])


class Choices(LongTable):
    """A table whose rows are choices; no figure of the test part is in its records."""

    seeds: int
    title: ClassVar[str]
    figure: ClassVar[str]
    """The name of the figure of dev in records; less is better."""

    @abstractmethod
    def notes(self, records: Sequence[Record]) -> list[str]:
        """What a reader should know of the figures."""

    def cells(self) -> list[LongCell]:
        return [
            LongCell(row, seed, replace(config, training=replace(config.training, seed=seed)))
            for seed in range(self.seeds)
            for row, config in self.configs().items()
        ]

    def timed_as(self) -> Mapping[str, str]:
        return {row: first_of(row) for row in self.configs()}


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """A config with other settings of the model or of the training."""
    of_model = {name: value for name, value in changes.items() if hasattr(config.model, name)}
    of_training = {name: value for name, value in changes.items() if name not in of_model}
    return replace(
        config,
        model=replace(config.model, **of_model),
        training=replace(config.training, **of_training),
    )


def choices_grid(table: Choices) -> Grid:
    """The figure of dev, the best first."""
    records = table.records()
    found: dict[str, list[float]] = {}
    for r in records:
        found.setdefault(r["row"], []).append(r[table.figure])
    means = {row: fmean(values) for row, values in found.items()}
    rows: list[list[Content]] = []
    for row, mean in sorted(means.items(), key=lambda item: item[1]):
        first = first_of(row)
        known = first in means and row != first
        gap = f"{mean - means[first]:+.4f}" if known else None
        rows.append([row, f"{mean:.4f}", gap, len(found[row])])
    columns = ["choice", "dev", "against at first", "seeds"]
    return Grid("choices", table.title, columns, rows, table.notes(records) if records else [])
