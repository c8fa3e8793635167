"""Tables 5 and 6: few trainings that take long, each resumable in a run folder of its own."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from experiments.figures import save_png_and_svg
from experiments.records import upgrade_long
from wordwave.config_io import from_dict, to_dict
from wordwave.grid import Count, Grid, Positive, Record, Store, fits
from wordwave.plotting import new_figure, tidy

if TYPE_CHECKING:
    from wordwave.training.loop import Training

KEY = ("row", "seed", "config")
CORE_MINUTES = "core minutes"
"""The column of updates times the CPU seconds of a step."""
WARM_UP_STEPS, TIMED_STEPS = 3, 20
MAX_TIMING_SECONDS = 30.0
"""After which no more steps of a row are timed."""
FLOPS = 3e10
"""Floating-point operations per second of a core in training; the timings in results/table5 and
results/table6 are between 1.7e10 and 4.5e10."""


class LongRecord(TypedDict):
    """The fields that every record must have."""

    row: str
    seed: int
    config: dict[str, Any]
    steps: Count
    parameters: Count


class _StepTime(TypedDict):
    row: str
    config: dict[str, Any]
    seconds: Positive


@dataclass(frozen=True)
class LongCell:
    """One training."""

    row: str
    seed: int
    config: Any
    """Of its task, with `training.max_steps`."""

    @property
    def name(self) -> str:
        """Of its run folder."""
        row = re.sub(r"[^a-z0-9]+", "-", self.row.lower()).strip("-")
        settings = json.dumps(self.key()["config"], sort_keys=True)
        return f"{row}-{self.steps}-{self.seed}-{sha256(settings.encode()).hexdigest()[:8]}"

    @property
    def steps(self) -> int:
        steps: int = self.config.training.max_steps
        return steps

    def __str__(self) -> str:
        return f"{self.row}, seed {self.seed}"

    def key(self) -> Record:
        return {"row": self.row, "seed": self.seed, "config": to_dict(self.config)}


@dataclass(frozen=True)
class LongTable(ABC):
    """A table of long trainings.

    Args:
        out: folder of the records, the run folders, the table and its picture.
        measures: time some steps of each row that was not timed before; else estimate them from the
            size of its model, which needs neither data nor time.
    """

    out: Path
    config_type: ClassVar[type]
    """Of the task."""
    record_type: ClassVar[type] = LongRecord
    """The fields that records of its rows must have."""
    choice_record_type: ClassVar[type] = LongRecord
    """The same of `--choices`, whose records are in the same file."""
    measures: bool = field(default=True, kw_only=True)

    @abstractmethod
    def cells(self) -> list[LongCell]:
        """All trainings, each once."""

    @abstractmethod
    def train(self, cell: LongCell) -> Record:
        """Train in the cell's run folder, resuming what is there, and return its record."""

    @abstractmethod
    def configs(self) -> Mapping[str, Any]:
        """The configuration of each row."""

    @abstractmethod
    def training(self, row: str) -> Training:
        """A training of a row whose first steps are timed and thrown away."""

    @abstractmethod
    def tokens_per_step(self, row: str) -> int:
        """Subwords or characters per update of a row."""

    @abstractmethod
    def n_parameters(self, row: str) -> int:
        """The size of a row's model, from its configuration alone."""

    @property
    def store(self) -> Store:
        return Store(self.out / "records.jsonl", KEY, self._is_record, upgrade=self._upgrade)

    def _upgrade(self, record: Record) -> Record:
        record = upgrade_long(record)
        with suppress(TypeError, ValueError):  # else it is not a record
            record["config"] = to_dict(from_dict(self.config_type, record.get("config")))
        return record

    def _is_record(self, record: Record) -> bool:
        is_choice = ":" in str(record.get("row"))
        return fits(record, self.choice_record_type if is_choice else self.record_type)

    def folder(self, cell: LongCell) -> Path:
        return self.out / "runs" / cell.name

    @property
    def grid(self) -> Grid[LongCell]:
        return Grid(self.store, self.cells(), LongCell.key, self.train, "trainings")

    def records(self) -> list[Record]:
        """The records of these trainings."""
        return self.grid.records()

    def steps_done(self, cell: LongCell) -> int:
        """The step of a training at its last evaluation."""
        from wordwave.training.run import read_metrics

        metrics = read_metrics(self.folder(cell) / "metrics.jsonl")
        return int(metrics[-1]["step"]) if metrics else 0

    def step_seconds(self) -> dict[str, float]:
        """CPU seconds of a step of each row: measured once and recorded, or estimated."""
        known, timed_as = self.known_step_seconds(), self.timed_as()
        missing = [row for row in dict.fromkeys(timed_as.values()) if row not in known]
        if self.measures:
            measured = time_steps({row: self.training(row) for row in missing})
            for row, seconds in measured.items():
                self._timings.append({**_timing_key(row, self.configs()[row]), "seconds": seconds})
        else:
            measured = {row: self.estimated_step_seconds(row) for row in missing}
        return {row: (known | measured)[other] for row, other in timed_as.items()}

    def estimated_step_seconds(self, row: str) -> float:
        """One multiplication and addition per weight and token, once forward, twice backward."""
        return 6 * self.n_parameters(row) * self.tokens_per_step(row) / FLOPS

    def timed_as(self) -> Mapping[str, str]:
        """For each row, the row whose measured step it shares."""
        return {row: row for row in self.configs()}

    def known_step_seconds(self) -> dict[str, float]:
        """CPU seconds of a step of each row that was measured."""
        found = {self._timings.key_of(r): float(r["seconds"]) for r in self._timings.records()}
        keys = {row: self._timings.key_of(_timing_key(row, c)) for row, c in self.configs().items()}
        return {row: found[key] for row, key in keys.items() if key in found}

    @property
    def _timings(self) -> Store:
        def upgrade(record: Record) -> Record:
            record = self._upgrade(record)
            return {**record, "config": _without_length(record.get("config"))}

        def is_record(record: Record) -> bool:
            return fits(record, _StepTime)

        path = self.out / "timing.jsonl"
        return Store(path, ("row", "config"), is_record, upgrade=upgrade)


def _timing_key(row: str, config: Any) -> Record:
    """What the time of a step depends on."""
    return {"row": row, "config": _without_length(to_dict(config))}


def _without_length(config: Any) -> Any:
    """A configuration without the settings that do not change the time of a step."""
    if not isinstance(config, dict) or not isinstance(config.get("training"), dict):
        return config
    kept = {k: v for k, v in config["training"].items() if k not in ("seed", "max_steps")}
    return {**config, "training": kept}


def time_steps(trainings: Mapping[str, Training]) -> dict[str, float]:
    """CPU seconds of a step of each training: medians, taken in turns, without the warm-up."""
    import torch

    from wordwave.training.loop import Step

    torch.set_num_threads(1)
    running = {row: training.run() for row, training in trainings.items()}
    seconds: dict[str, list[float]] = {row: [] for row in running}
    for _ in range(WARM_UP_STEPS + TIMED_STEPS):
        for row, reports in running.items():
            if sum(seconds[row]) > MAX_TIMING_SECONDS:
                continue
            start = time.process_time()
            if isinstance(next(reports, None), Step):
                seconds[row].append(time.process_time() - start)
    return {row: median(found[WARM_UP_STEPS:] or found) for row, found in seconds.items()}


@dataclass(frozen=True)
class Panel:
    """A validation metric of every training, over updates or over time."""

    value: Callable[[Record], float | None]
    """Of a point of a curve; `None` where it was not computed."""
    label: str
    step_seconds: Mapping[str, float] | None = None
    """By row, for a time axis. Wall-clock times would depend on what else the machine ran."""

    def x(self, row: str, curve: Sequence[Record]) -> list[float]:
        """Where the points of a curve are drawn."""
        unit = 1.0 if self.step_seconds is None else self.step_seconds[row] / 60
        return [point["step"] * unit for point in curve]


def draw_curves(
    records: Sequence[Record], colours: Mapping[str, str], panels: Sequence[Panel], path: Path
) -> list[Path]:
    """The curve of every training in every panel; the colour is the row."""
    figure = new_figure(3.8 * len(panels), 3.6)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, axes in zip(panels, drawn, strict=True):
        labelled: set[str] = set()
        for record in records:
            row, curve = record["row"], record["curve"]
            values: list[Any] = [panel.value(point) for point in curve]
            is_timed = panel.step_seconds is None or row in panel.step_seconds
            if None not in values and is_timed:
                label = None if row in labelled else row
                axes.plot(panel.x(row, curve), values, color=colours[row], lw=1.4, label=label)
                labelled.add(row)
        axes.set_xlabel("updates" if panel.step_seconds is None else "minutes of one core")
        axes.set_ylabel(panel.label)
        tidy(axes, "both")
    drawn[0].legend(frameon=False)
    return save_png_and_svg(figure, path)
