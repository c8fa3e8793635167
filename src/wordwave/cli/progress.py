"""Progress bars: over results that arrive one by one, and over trainings."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

    from wordwave.cli.console import Console
    from wordwave.grid import FailedCellsError, Store
    from wordwave.training.run import Watch
    from wordwave.training.task import Epoch, Note, Step

T = TypeVar("T")
COUNT = "{task.completed:.0f}/{task.total:.0f}"


def progress(unit: str, console: Console, *fields: str, **options: Any) -> Progress:
    """A bar with what it counts before it, some fields after it, and times."""
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn(unit, markup=False),
        BarColumn(),
        *(TextColumn(field, markup=False) for field in fields),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        **options,
    )


def tracked(results: Iterable[T], n: int, unit: str, console: Console) -> Iterator[T]:
    """The same results, with a bar that shows how many came and how long the rest will take."""
    with progress(unit, console, COUNT) as bar:
        task = bar.add_task("", total=n)
        for result in results:
            bar.advance(task)
            yield result


def exhausted(results: Iterable[object]) -> FailedCellsError | None:
    """Take all results; what cannot be run is a problem to tell after the others are shown."""
    from wordwave.grid import FailedCellsError

    try:
        for _ in results:
            pass
    except FailedCellsError as problem:
        return problem
    return None


def say_waiting(n: int, unit: str, console: Console) -> None:
    console.print(f"Waiting for {n} {unit} that another process is running.")


def say_skipped(store: Store, console: Console) -> None:
    """Tell of lines in a file of records that are none."""
    if note := store.skipped():
        console.print(f"Note: {note}.")


def incomplete(n: int, n_wanted: int, unit: str) -> str:
    """What a table says of itself when it does not hold all that was asked for, else ""."""
    return "" if n >= n_wanted else f"Incomplete: {n} of {n_wanted} {unit}."


@contextmanager
def step_bar(total: int, done: Callable[[], int], console: Console) -> Iterator[None]:
    """A bar over the steps of trainings in other processes, which is asked for now and then."""
    with progress("steps", console, COUNT, speed_estimate_period=3600) as bar:
        task, over = bar.add_task("", total=total, completed=done()), threading.Event()

        def look() -> None:
            while not over.wait(timeout=5.0):
                bar.update(task, completed=done())

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
            bar.update(task, completed=done())


@dataclass(frozen=True)
class Saying:
    """How a task tells of its training."""

    unit: str
    """What is read."""
    loss: Callable[[float], str]
    """The loss of a step, beside the bar."""
    look: Callable[[Epoch], str]
    """A look at the dev part, on a line of its own."""


def _figures(report: Epoch) -> str:
    scores = "".join(f"  dev {name} {value:.4f}" for name, value in report.scores.items())
    return f"loss {report.loss:.4f}{scores}"


def _bits(report: Epoch) -> str:
    said = f"training {report.loss / math.log(2):.4f} bits"
    if report.scores:
        said += f"  valid {-report.scores['minus_bpc']:.4f} bits"
    return said


OF_WORDS = Saying("words", lambda loss: f"loss {loss:.4f}", _figures)
OF_CHARACTERS = Saying("characters", lambda loss: f"{loss / math.log(2):.3f} bits", _bits)


@contextmanager
def training_bar(console: Console, saying: Saying, epochs: int | None = None) -> Iterator[Watch]:
    """A bar over the steps of a training, and a line for each look: what `Training.run` tells.

    Args:
        epochs: how many there will be at most; `None` where steps are counted instead.
    """
    from wordwave.training.task import Note, Step

    unit = "epoch {task.fields[epoch]}" if epochs else "step " + COUNT
    fields = "{task.fields[loss]}  {task.fields[speed]:,.0f} " + f"{saying.unit}/s"
    with progress(unit, console, fields, transient=True) as bar:
        task = bar.add_task("", total=1, epoch=f"1/{epochs}", loss="", speed=0.0)
        pace = Pace()

        def watch(report: Step | Epoch | Note) -> None:
            if isinstance(report, Note):
                console.print(report.text)
            elif isinstance(report, Step):
                pace.count(report.n_words)
                bar.update(task, total=report.n_steps, completed=report.step)
                bar.update(task, loss=saying.loss(report.loss), speed=pace.speed)
            else:
                at = f"epoch {report.epoch:>3}" if epochs else f"step {report.step:>6}"
                best = "  best" if report.is_best else ""
                speed = f"{pace.speed:,.0f} {saying.unit}/s"
                console.print(f"{at}  {saying.look(report)}  {speed}{best}")
                bar.update(task, epoch=f"{min(report.epoch + 1, epochs or 0)}/{epochs}")
                pace.restart()

        yield watch


class Pace:
    """How many words a second."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.began, self.n = time.monotonic(), 0

    def count(self, n: int) -> None:
        self.n += n

    @property
    def speed(self) -> float:
        return self.n / max(time.monotonic() - self.began, 1e-9)


def spelled(seconds: float) -> str:
    """A time to wait, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
