"""Progress bars: over results that arrive one by one, and over a training."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    from wordwave.training.task import Epoch, Step

T = TypeVar("T")


def tracked(results: Iterable[T], n: int, unit: str, console: Console) -> Iterator[T]:
    """The same results, with a bar that shows how many came and how long the rest will take."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(unit),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(unit, total=n)
        for result in results:
            bar.advance(task)
            yield result


@contextmanager
def step_bar(total: int, done: Callable[[], int], console: Console) -> Iterator[None]:
    """A bar over the steps of trainings in other processes, which is asked for now and then."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("steps"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=3600) as bar:
        task, over = bar.add_task("steps", total=total, completed=done()), threading.Event()

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


def spelled(seconds: float) -> str:
    """A time to wait, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


@contextmanager
def training_bar(epochs: int, console: Console) -> Iterator[Callable[[Step | Epoch], None]]:
    """A bar over the steps of a training, and a line for each epoch: what `Training.run` tells."""
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from wordwave.training.task import Step

    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]:,.0f} words/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, epoch=f"1/{epochs}", loss=float("nan"), speed=0.0)
        began, words, epoch = time.monotonic(), 0, 0

        def watch(report: Step | Epoch) -> None:
            nonlocal began, words, epoch
            now = time.monotonic()
            if isinstance(report, Step):
                words += report.n_words
                bar.update(
                    task,
                    total=report.n_steps,
                    completed=report.step,
                    loss=report.loss,
                    speed=words / max(now - began, 1e-9),
                )
                return
            epoch = report.epoch
            scores = "".join(f"  dev {name} {value:.4f}" for name, value in report.scores.items())
            best = "  best" if report.is_best else ""
            console.print(
                f"epoch {epoch:>3}  loss {report.loss:.4f}{scores}  "
                f"{words / max(now - began, 1e-9):,.0f} words/s{best}",
                highlight=False,
            )
            bar.update(task, epoch=f"{min(epoch + 1, epochs)}/{epochs}")
            began, words = time.monotonic(), 0

        yield watch
