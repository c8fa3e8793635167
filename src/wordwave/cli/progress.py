"""Progress bars, and grids that are run with one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wordwave.cli.console import Console
from wordwave.errors import WordwaveError
from wordwave.grid import FailedCellsError, Grid, Key, Record, Store

COUNT = "{task.completed:.0f}/{task.total:.0f}"
SECONDS_BETWEEN_UPDATES = 5.0


def progress(unit: str, console: Console, *fields: str, **options: Any) -> Progress:
    """A progress bar: what it counts, the bar, some fields, time elapsed and time left."""
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
    spent: Callable[[Any], float] = lambda cell: 0.0,
    on_record: Callable[[Record], object] = lambda record: None,
    **options: Any,
) -> None:
    """Run the missing cells of a grid with a progress bar.

    Args:
        cost: how much a cell counts in the bar and for the time left, such as estimated seconds.
        spent: the part of its cost that a cell has behind it, if that is known while it runs.
        on_record: is called with each record as it comes; a string that it returns is shown.
        options: of `Grid.run_missing`.
    """
    missing = grid.missing()
    if not missing:
        return
    costs = {key: cost(cell) for key, cell in missing.items()}
    done: set[Key] = set()

    def completed_cost() -> float:
        return sum(costs[key] if key in done else spent(cell) for key, cell in missing.items())

    def on_wait(n: int) -> None:
        console.print(f"Waiting for {n} {grid.unit} that another process is running.")

    count = "{task.fields[n_done]}/{task.fields[n]}"
    fields = (count, "{task.fields[shown]}")
    with progress(grid.unit, console, *fields, speed_estimate_period=3600) as bar:
        before = round(completed_cost())  # does not count for the speed
        total, n = sum(costs.values()), len(missing)
        task = bar.add_task("", total=total, completed=before, n_done=0, n=n, shown="")

        def update() -> None:
            bar.update(task, completed=completed_cost(), n_done=len(done))

        with _repeatedly(update):
            for record in grid.run_missing(on_wait=on_wait, **options):
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
