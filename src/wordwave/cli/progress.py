"""Progress bars: over results that arrive one by one, and over trainings."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from wordwave.cli.options import AS_IT_IS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from wordwave.training.task import Epoch, Step

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
        TextColumn(unit),
        BarColumn(),
        *map(TextColumn, fields),
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


@contextmanager
def training_bar(epochs: int | None, console: Console) -> Iterator[Callable[[Step | Epoch], None]]:
    """A bar over the steps of a training, and a line for each look: what `Training.run` tells.

    Args:
        epochs: how many there will be at most; `None` where steps are counted instead.
    """
    from wordwave.training.task import Step

    unit = "epoch {task.fields[epoch]}" if epochs else "step " + COUNT
    fields = "loss {task.fields[loss]}  {task.fields[speed]:,.0f} words/s"
    with progress(unit, console, fields, transient=True) as bar:
        task = bar.add_task("", total=1, epoch=f"1/{epochs}", loss="-", speed=0.0)
        pace = Pace()

        def watch(report: Step | Epoch) -> None:
            if isinstance(report, Step):
                pace.count(report.n_words)
                bar.update(task, total=report.n_steps, completed=report.step)
                bar.update(task, loss=f"{report.loss:.4f}", speed=pace.speed)
                return
            scores = "".join(f"  dev {name} {value:.4f}" for name, value in report.scores.items())
            best = "  best" if report.is_best else ""
            at = f"epoch {report.epoch:>3}" if epochs else f"step {report.step:>6}"
            console.print(
                f"{at}  loss {report.loss:.4f}{scores}  {pace.speed:,.0f} words/s{best}",
                **AS_IT_IS,
            )
            bar.update(task, epoch=f"{min(report.epoch + 1, epochs or 0)}/{epochs}")
            pace.restart()

        yield watch


@contextmanager
def character_bar(console: Console) -> Iterator[Callable[[Step | Epoch], None]]:
    """The same for a language model: a line for each look at the valid part, in bits."""
    from wordwave.training.task import Step

    fields = "{task.fields[bits]} bits  {task.fields[speed]:,.0f} characters/s"
    with progress("step", console, COUNT, fields, transient=True) as bar:
        task = bar.add_task("", total=1, bits="-", speed=0.0)
        pace = Pace()

        def watch(report: Step | Epoch) -> None:
            bits = report.loss / math.log(2)
            if isinstance(report, Step):
                pace.count(report.n_words)
                bar.update(task, total=report.n_steps, completed=report.step)
                bar.update(task, bits=f"{bits:.3f}", speed=pace.speed)
                return
            said = f"step {report.step:>6}  training {bits:.4f} bits"
            if report.scores:
                said += f"  valid {-report.scores['minus_bpc']:.4f} bits per character"
            best = "  best" if report.is_best else ""
            console.print(f"{said}  {pace.speed:,.0f} characters/s{best}", **AS_IT_IS)
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
