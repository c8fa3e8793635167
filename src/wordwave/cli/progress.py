"""Progress bars, and grids that are run with one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from wordwave.cli.console import Console
from wordwave.errors import WordwaveError
from wordwave.grid import FailedCellsError, Grid, Key, Record, Store
from wordwave.progress import TRAINING, listening
from wordwave.workers import Workers, start_workers

COUNT = "{task.completed:.0f}/{task.total:.0f}"
SECONDS_BETWEEN_UPDATES = 2.0
FIRST_LINE = 5.0
"""Seconds after which a command that does not write to a terminal tells how long it will take."""
SECONDS_BETWEEN_LINES = 10.0
SHARE_BETWEEN_LINES = 0.2
LEAST_SHARE = 0.003
"""What must be done before the time left is told: what is done first, such as loading, takes
longer than the rest."""


class Clock:
    """How long something takes that is reported in shares, from where it began or was resumed."""

    def __init__(self, share: float) -> None:
        self.began, self.first = time.monotonic(), share
        self.told_at, self.told = self.began, share
        """When, and at which share, the last line was printed."""

    def left(self, share: float) -> str:
        """The time left, such as 0:01:30, if it can be told."""
        elapsed, done = time.monotonic() - self.began, share - self.first
        if done <= 0:
            return "?"
        return str(timedelta(seconds=round(elapsed * (1 - share) / done)))

    def is_line_due(self, share: float, between: float) -> bool:
        """Whether to print a line: one soon, and then one for each `between` of the work."""
        now = time.monotonic()
        is_first = self.told_at == self.began and now - self.began >= FIRST_LINE
        is_next = share >= self.told + between and now - self.told_at >= SECONDS_BETWEEN_LINES
        return share >= self.first + LEAST_SHARE and (is_first or is_next)

    def tell(self, share: float) -> None:
        """A line is printed now."""
        self.told_at, self.told = time.monotonic(), share


class Display:
    """Shows how far a command is and the time left: bars at a terminal, otherwise some lines.

    Within its `with` block it listens to the reports of `wordwave.progress`. A training is shown by
    `bar` and `print`.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.is_closed = False
        """Whether the reader of the output has ended, as `head` does."""
        self._bars = progress("{task.description}", console, "{task.fields[shown]}", transient=True)
        self._tasks: dict[str, Any] = {}
        self._clocks: dict[str, Clock] = {}
        self._exit = ExitStack()

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._exit.enter_context(self._bars)
        self._exit.enter_context(listening(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def print(self, line: str) -> None:
        try:
            self.console.print(line)
        except (BrokenPipeError, SystemExit):  # rich turns the former into the latter
            self.is_closed = True

    def note(self, line: str) -> None:
        self.print(line)

    def stage(self, what: str, share: float) -> None:
        if what == TRAINING:
            return
        clock = self._clocks.setdefault(what, Clock(share))
        if share >= 1:
            del self._clocks[what]
            if what in self._tasks:
                self._bars.remove_task(self._tasks.pop(what))
            return
        self.bar(what, share)
        is_shown = self.console.is_terminal or self.console.quiet
        if not is_shown and clock.is_line_due(share, SHARE_BETWEEN_LINES):
            clock.tell(share)
            self.print(f"{what}: {share:.0%}, {clock.left(share)} left")

    def bar(self, name: str, share: float, description: str = "", shown: str = "") -> None:
        """Move a bar, at a terminal."""
        if self.console.is_terminal:
            if name not in self._tasks:
                begun: Any = share  # rich asks for an integer, and takes any number
                self._tasks[name] = self._bars.add_task(name, total=1.0, completed=begun, shown="")
            text = description or name
            self._bars.update(self._tasks[name], description=text, completed=share, shown=shown)


class TookColumn(TimeElapsedColumn):
    """The time elapsed, which must not be taken for the time left that follows it."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        return Text.assemble("took ", super().render(task), ",")


@contextmanager
def reading_bar(out: Path | None) -> Iterator[None]:
    """Show on standard error how much of the input file has been read, unless results are printed
    to the terminal."""
    if out is None and sys.stdout.isatty():
        yield
        return
    with Display(Console(stderr=True)):
        yield


def progress(unit: str, console: Console, *fields: str, **options: Any) -> Progress:
    """A progress bar: what it counts, the bar, some fields, time elapsed and time left."""
    return Progress(
        TextColumn(unit, markup=False),
        BarColumn(34),
        *(TextColumn(field, markup=False) for field in fields),
        TookColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        **options,
    )


@contextmanager
def completed(
    grid: Grid[Any], console: Console, *, report_only: bool = False, **options: Any
) -> Iterator[tuple[list[Record], str]]:
    """Run the missing cells of a grid, then let the block report: yields the records that there
    are, and a note if they are incomplete.

    After the report, missing records end the command with an error.

    Args:
        report_only: run nothing.
        options: of `run_grid`.
    """
    failed = None
    try:
        if not report_only:
            run_grid(grid, console, **options)
    except FailedCellsError as error:
        failed = error
    say_skipped(grid.store, console)
    records, note = grid.records(), grid.incomplete()
    if not records:
        raise failed or WordwaveError(
            f"'{grid.store.path}' holds none of these {grid.unit}; run without --report-only"
        )
    yield records, note
    if failed or note:
        raise failed or WordwaveError(f"{note} Run without --report-only for the others.")


def run_grid(
    grid: Grid[Any],
    console: Console,
    *,
    cost: Callable[[Any], float] = lambda cell: 1.0,
    spent: Callable[[Any], float] | None = None,
    on_record: Callable[[Record], object] = lambda record: None,
    **options: Any,
) -> None:
    """Run the missing cells of a grid with a progress bar.

    Args:
        cost: how much a cell counts in the bar and for the time left, such as estimated seconds.
        spent: the part of its cost that a cell has behind it, if more is known while it runs than
            the share of its training.
        on_record: is called with each record as it comes; a string that it returns is shown.
        options: of `Grid.run_missing`.
    """
    missing = grid.missing()
    if not missing:
        return
    costs = {key: cost(cell) for key, cell in missing.items()}
    done: set[Key] = set()

    start: Callable[..., Workers[Any, Any]] = options.pop("start", start_workers)
    started: list[Workers[Any, Any]] = []

    def watched(*args: Any) -> Workers[Any, Any]:
        started.append(start(*args))
        return started[0]

    def completed_cost() -> float:
        finished = sum(cost for key, cost in costs.items() if key in done)
        left = [cell for key, cell in missing.items() if key not in done]
        if spent is not None:
            return finished + sum(map(spent, left))
        # What runs costs about as much as the mean of what is left.
        running = started[0].share_done() if started and left else 0.0
        return finished + running * sum(map(cost, left)) / max(len(left), 1)

    def on_wait(n: int) -> None:
        console.print(f"Waiting for {n} {grid.unit} that another process is running.")

    count = "{task.fields[n_done]}/{task.fields[n]}"
    fields = (count, "{task.fields[shown]}")
    with progress(grid.unit, console, *fields, speed_estimate_period=3600) as bar:
        before: Any = completed_cost()  # does not count for the speed
        total, n = sum(costs.values()), len(missing)
        task = bar.add_task("", total=total, n_done=0, n=n, shown="")
        bar.update(task, completed=before)
        clock = Clock(before / total)

        def update() -> None:
            now = completed_cost()
            bar.update(task, completed=now, n_done=len(done))
            if not console.is_terminal and clock.is_line_due(now / total, SHARE_BETWEEN_LINES):
                clock.tell(now / total)
                left = clock.left(now / total)
                console.print(f"{len(done)} of {n} {grid.unit}, {now / total:.0%}, {left} left")

        with _repeatedly(update):
            for record in grid.run_missing(on_wait=on_wait, start=watched, **options):
                done.add(grid.store.key_of(record))
                bar.update(task, shown=on_record(record) or "")
                update()


@contextmanager
def _repeatedly(call: Callable[[], None]) -> Iterator[None]:
    """Call a function every few seconds, in a thread, until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(SECONDS_BETWEEN_UPDATES):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def say_skipped(store: Store, console: Console) -> None:
    """Print a note if a file of records has lines that are not records."""
    if note := store.skipped():
        console.print(f"Note: {note}.")
