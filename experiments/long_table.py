"""How long trainings went, row by row."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from wordwave.config_io import to_dict
from wordwave.grid import Count, Positive, Record, Store, fits, run_missing
from wordwave.plotting import canvas, saved, tidy
from wordwave.tables import Content, Grid

if TYPE_CHECKING:
    from wordwave.training.loop import Training


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


KEY = ("row", "seed", "config")
WARM_UP, TIMED_STEPS = 3, 20
OPERATIONS_A_SECOND = 3e10
"""Of a core in training; results/table5 and table6 have timings from 1.7e10 to 4.5e10."""
LONG = 30.0
"""Seconds after which no more steps of a row are timed."""


class LongRecord(TypedDict):
    """What is read of every training's record."""

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
    """What is run and where.

    Args:
        out: gets the records, the run folders, the table and its picture.
        measures: time some steps of each row that was never timed; else how long they take follows
            from the size of its model, which needs neither data nor time.
    """

    out: Path
    figures: ClassVar[type] = LongRecord
    """What is read of the records of its rows."""
    choice_figures: ClassVar[type] = LongRecord
    """What is read of the records of choices, which the same file holds."""
    measures: bool = field(default=True, kw_only=True)

    @abstractmethod
    def cells(self) -> list[LongCell]:
        """All trainings, each once."""

    @abstractmethod
    def train(self, cell: LongCell) -> Record:
        """Train in the cell's run folder, from where it was, and make its record."""

    @abstractmethod
    def configs(self) -> Mapping[str, Any]:
        """The settings of each row."""

    @abstractmethod
    def training(self, row: str) -> Training:
        """A training of a row to begin and throw away, to see how long a step takes."""

    @abstractmethod
    def words_per_step(self, row: str) -> int:
        """Words, or characters, that a step of a row learns from."""

    @abstractmethod
    def n_parameters(self, row: str) -> int:
        """How large the model of a row is, as far as that follows from its settings."""

    @property
    def store(self) -> Store:
        return Store(self.out / "records.jsonl", KEY, self._is_record)

    def _is_record(self, record: Record) -> bool:
        is_choice = ":" in str(record.get("row"))
        return fits(record, self.choice_figures if is_choice else self.figures)

    def folder(self, cell: LongCell) -> Path:
        return self.out / "runs" / cell.name

    def run(
        self, n_jobs: int = 1, on_wait: Callable[[int], object] = lambda n: None
    ) -> Iterator[Record]:
        """Run what is missing, one thread each; a record for each training as it ends."""
        yield from run_missing(
            self.cells(),
            self.train,
            self.store,
            key=LongCell.key,
            n_jobs=n_jobs,
            on_wait=on_wait,
        )

    def missing(self) -> list[LongCell]:
        """The trainings that have no record yet."""
        done = self.store.done()
        return [cell for cell in self.cells() if self.store.key_of(cell.key()) not in done]

    def records(self) -> list[Record]:
        """What is there of these trainings."""
        wanted = {self.store.key_of(cell.key()) for cell in self.cells()}
        return [r for r in self.store.records() if self.store.key_of(r) in wanted]

    def steps_done(self, cell: LongCell) -> int:
        """The step of a training at its last look at dev."""
        from wordwave.training.run import read_metrics

        journal = read_metrics(self.folder(cell) / "metrics.jsonl")
        return int(journal[-1]["step"]) if journal else 0

    def step_seconds(self) -> dict[str, float]:
        """CPU seconds of a step of each row, measured once, in turns, and kept; or estimated."""
        known, timed_as = self.known_step_seconds(), self.timed_as()
        missing = [row for row in dict.fromkeys(timed_as.values()) if row not in known]
        if not self.measures:
            known |= {row: self.estimated_step_seconds(row) for row in missing}
            return {row: known[other] for row, other in timed_as.items()}
        measured = timed({row: self.training(row) for row in missing})
        for row, seconds in measured.items():
            self._timings.append({**_timed_by(row, self.configs()[row]), "seconds": seconds})
        return {row: (known | measured)[other] for row, other in timed_as.items()}

    def estimated_step_seconds(self, row: str) -> float:
        """A multiplication and an addition a weight and word, once forwards, twice backwards."""
        return 6 * self.n_parameters(row) * self.words_per_step(row) / OPERATIONS_A_SECOND

    def timed_as(self) -> Mapping[str, str]:
        """Of each row, the one whose steps take as long."""
        return {row: row for row in self.configs()}

    def known_step_seconds(self) -> dict[str, float]:
        """The same of those rows that were measured."""
        found = {self._timings.key_of(r): float(r["seconds"]) for r in self._timings.records()}
        keys = {row: self._timings.key_of(_timed_by(row, c)) for row, c in self.configs().items()}
        return {row: found[key] for row, key in keys.items() if key in found}

    @property
    def _timings(self) -> Store:
        path = self.out / "timing.jsonl"
        return Store(path, ("row", "config"), lambda record: fits(record, _StepTime))


def _timed_by(row: str, config: Any) -> Record:
    """What a step's time depends on."""
    plain: Record = to_dict(config)
    plain["training"] = {
        k: v for k, v in plain["training"].items() if k not in ("seed", "max_steps")
    }
    return {"row": row, "config": plain}


def timed(trainings: Mapping[str, Training]) -> dict[str, float]:
    """CPU seconds of a step of each training: the median of some, taken in turns, without the
    first ones, in which memory is still empty."""
    from statistics import median

    import torch

    from wordwave.training.task import Step

    torch.set_num_threads(1)
    running = {row: training.run() for row, training in trainings.items()}
    seconds: dict[str, list[float]] = {row: [] for row in running}
    for _ in range(WARM_UP + TIMED_STEPS):
        for row, reports in running.items():
            if sum(seconds[row]) > LONG:
                continue
            start = time.process_time()
            if isinstance(next(reports, None), Step):
                seconds[row].append(time.process_time() - start)
    return {row: median(found[WARM_UP:] or found) for row, found in seconds.items()}


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
