"""`wordwave reproduce table5` and `table6`: few trainings, each of which takes long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.grid import FailedCellsError, check_grid

if TYPE_CHECKING:
    from experiments.long_table import LongTable
    from wordwave.cli.console import Console
    from wordwave.tables import Grid


TranslationRow = Literal[
    "aed", "tpe", "rope", "complex-vanilla", "complex-order", "complex-order-chosen"
]
TRANSLATION_ROWS: dict[TranslationRow, str] = {
    "aed": "AED",
    "tpe": "Transformer + tpe",
    "rope": "Transformer + rope",
    "complex-vanilla": "complex-vanilla",
    "complex-order": "complex-order",
    "complex-order-chosen": "complex-order, chosen",
}


@dataclass(frozen=True)
class LongOptions:
    """What both tables understand."""

    steps: int | None = None
    """Updates of every row, in table6 at equal time those of the real row; by default as many as
    its size has."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    out: Path | None = None
    """Folder of records, run folders, the table and the curves; by default results/TABLE."""
    estimate_only: bool = False
    """Say how long it would take, and stop; by steps timed before, or else by sizes of models."""
    report_only: bool = False
    """Train nothing; show what is there."""

    @property
    def trains(self) -> bool:
        return not (self.estimate_only or self.report_only)

    def __post_init__(self) -> None:
        for name in ("steps", "jobs", "seeds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise WordwaveError(f"{name} must be at least 1, got {value}")
        for name in ("rows", "budgets"):
            given = getattr(self, name, ("",))
            if len(set(given)) < max(len(given), 1):
                told = " ".join(given) or "none"
                raise WordwaveError(f"{name} must name at least one, and each once, got {told}")


@dataclass(frozen=True)
class Table5Options(LongOptions):
    """Translation: an attentional encoder-decoder, Transformers and complex Transformers.

    All rows have as many parameters and updates. Dev selects, the test part is translated once.
    Stop it whenever you like: the same command goes on where it was.
    """

    size: Literal["full", "cpu"] = "cpu"
    """full: the recipes, hours a row on one core; cpu: shorter trainings on smaller batches."""
    data: Literal["multi30k", "built-in"] = "multi30k"
    """What is learnt from; built-in needs no download."""
    rows: tuple[TranslationRow, ...] = tuple(TRANSLATION_ROWS)
    """Rows of the table; complex-order-chosen has the settings that --choices found best for waves
    at 400 updates, and is a row of its own, for no other row had such a search."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    choices: bool = False
    """Instead of the table, what might help complex-order: short trainings of all rows, and of that
    one with something changed each, judged by dev alone."""


@dataclass(frozen=True)
class Table6Options(LongOptions):
    """Language models: Transformer-XL over real and complex numbers, in bits per character.

    All rows have as many parameters; once as many updates, once as much time. The valid part
    selects, the test part is scored once. Stop it whenever you like: the same command goes on.
    """

    size: Literal["small", "paper"] = "small"
    """small: for one core; paper: 6 layers of width 512, 400,000 steps, for a GPU."""
    data: str = "text8"
    """text8, enwik8, python-help (built in), or a text file."""
    budgets: tuple[Literal["updates", "time"], ...] = ("updates", "time")
    """At equal updates, at equal time, or both."""
    seeds: int = 2
    """Repetitions, with seeds 0, 1, …"""
    choices: bool = False
    """Instead of the table, what the paper leaves open: short trainings, as many for each row, each
    with something changed, judged by the valid part alone."""


def table5(args: list[str], prog: str) -> None:
    """`wordwave reproduce table5`"""
    options = parsed(Table5Options, args, prog)
    from experiments.long_table import choices_grid
    from experiments.table5 import ROWS, Table5, Table5Choices, draw_table5, table5_grids

    rows = tuple(TRANSLATION_ROWS[row] for row in options.rows)
    kind = Table5Choices if options.choices else Table5
    table = kind(
        options.out or Path("results/table5"),
        options.size,
        options.data,
        rows=rows,
        steps=options.steps,
        seeds=options.seeds,
        measures=options.trains,
    )
    check_grid(len(table.configs()), options.seeds, options.jobs)
    with completed(table, options) as is_to_show:
        table = replace(table, rows=tuple(ROWS))  # whatever was trained now or before
        if is_to_show and isinstance(table, Table5Choices):
            show(table.out, [choices_grid(table)])
        elif is_to_show:
            show(table.out, table5_grids(table), draw_table5(table))


def table6(args: list[str], prog: str) -> None:
    """`wordwave reproduce table6`"""
    options = parsed(Table6Options, args, prog)
    from experiments.long_table import choices_grid
    from experiments.table6 import Table6, Table6Choices, draw_table6, table6_grid

    kind = Table6Choices if options.choices else Table6
    table = kind(
        options.out or Path("results/table6"),
        options.size,
        options.data,
        steps=options.steps,
        seeds=options.seeds,
        budgets=options.budgets,
        measures=options.trains,
    )
    check_grid(len(table.configs()) * len(options.budgets), options.seeds, options.jobs)
    with completed(table, options) as is_to_show:
        if is_to_show and isinstance(table, Table6Choices):
            show(table.out, [choices_grid(table)])
        elif is_to_show:
            show(table.out, [table6_grid(table)], draw_table6(table))


@contextmanager
def completed(table: LongTable, options: LongOptions) -> Iterator[bool]:
    """Train what is missing, unless told otherwise; whether there is something to show.

    That some trainings have no record is told at the end.
    """
    from wordwave.cli.console import Console
    from wordwave.cli.progress import incomplete, say_skipped

    console, problem = Console(), None
    if not options.report_only:
        problem = train(table, options, console)
    say_skipped(table.store, console)
    if options.estimate_only:
        yield False
        return
    if not table.store.records() or not table.records():
        raise problem or ValueError(
            f"'{table.store.path}' holds none of it; leave --report-only out"
        )
    yield True
    if note := incomplete(len(table.records()), len(table.cells()), "trainings"):
        raise problem or ValueError(f"{note} Run without --report-only for the others.")


def train(table: LongTable, options: LongOptions, console: Console) -> FailedCellsError | None:
    """Train what is missing, or say how long it would take; what could not be trained."""
    from wordwave.cli.progress import exhausted, say_waiting, spelled, step_bar

    waiting = console.status("how long a step of each row takes is measured once")
    with waiting if options.trains else nullcontext():
        missing = table.missing()
        each = table.step_seconds() if missing else {}
    if missing:
        done = {cell: table.steps_done(cell) for cell in missing}
        left = sum((cell.steps - done[cell]) * each[cell.row] for cell in missing)
        console.print(
            f"{len(missing)} of {len(table.cells())} trainings are missing: about "
            f"{spelled(left / options.jobs)} of steps with {options.jobs} at once, if they have a "
            f"core each, and some more to score. Journals: {table.out}/runs/*/metrics.jsonl",
        )
    elif options.estimate_only:
        console.print("No training is missing.")
    if options.estimate_only:
        return None

    def told() -> Iterator[None]:
        for record in table.run(options.jobs, lambda n: say_waiting(n, "trainings", console)):
            console.print(f"{record['row']}, seed {record['seed']}: done")
            yield

    with step_bar(
        sum(cell.steps for cell in missing),
        lambda: sum(map(table.steps_done, missing)),
        console,
    ):
        return exhausted(told())


def show(folder: Path, grids: Sequence[Grid], pictures: Sequence[Path] = ()) -> None:
    """Tables in the terminal and as files, and where those and the pictures are."""
    from wordwave.cli.console import Console
    from wordwave.tables import terminal, write_grid

    console = Console()
    written: list[Path] = []
    for grid in grids:
        console.print(terminal(grid))
        written += write_grid(grid, folder)
    told = ", ".join(map(str, [*written, *pictures]))
    console.print(f"Written: {told}")
