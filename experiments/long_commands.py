"""`python -m experiments table5` and `table6`: the tables of long trainings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.grid import check_grid

if TYPE_CHECKING:
    from experiments.long_table import LongTable
    from wordwave.cli.console import Console

TranslationRow = Literal[
    "aed",
    "tpe",
    "rope",
    "complex-vanilla",
    "complex-order",
    "complex-order-chosen",
    "complex-order-shared",
    "wave-attention",
]
TRANSLATION_ROWS: dict[TranslationRow, str] = {
    "aed": "AED",
    "tpe": "Transformer + tpe",
    "rope": "Transformer + rope",
    "complex-vanilla": "complex-vanilla",
    "complex-order": "complex-order",
    "complex-order-chosen": "complex-order, chosen",
    "complex-order-shared": "complex-order, shared frequencies",
    "wave-attention": "Transformer + waves in attention",
}
LanguageModelRow = Literal[
    "transformer-xl", "rope", "tpe", "complex-vanilla", "complex-order", "complex-order-paper"
]
LANGUAGE_MODEL_ROWS: dict[LanguageModelRow, str] = {
    "transformer-xl": "transformer-xl",
    "rope": "transformer-xl + rope",
    "tpe": "transformer-xl + tpe",
    "complex-vanilla": "complex-vanilla",
    "complex-order": "complex-order",
    "complex-order-paper": "complex-order, as in the paper",
}


@dataclass(frozen=True)
class LongOptions:
    """Options of both tables of long trainings."""

    steps: int | None = None
    """Updates of every row (table6 at equal time: of the real row); by default those of its
    size."""
    batch_size: int | None = None
    """Words (table5) or parallel streams of text (table6) per update, instead of those of the
    size."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    out: Path | None = None
    """Folder of records, run folders, the table and the curves; by default results/TABLE."""
    estimate_only: bool = False
    """Print how long it would take, and stop; from steps timed before, else from model sizes."""
    report_only: bool = False
    """Train nothing; show what was trained before."""

    @property
    def changes(self) -> tuple[tuple[str, int], ...]:
        """Settings that all rows have instead of their own."""
        return () if self.batch_size is None else (("batch_size", self.batch_size),)

    @property
    def trains(self) -> bool:
        return not (self.estimate_only or self.report_only)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "jobs", "seeds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise WordwaveError(f"{name} must be at least 1, got {value}")
        for name in ("rows", "budgets"):
            given = getattr(self, name, ("",))
            if len(set(given)) < max(len(given), 1):
                shown = " ".join(given) or "none"
                raise WordwaveError(f"{name} must name at least one, and each once, got {shown}")


@dataclass(frozen=True)
class Table5Options(LongOptions):
    """Translation: an attentional encoder-decoder, Transformers and complex Transformers.

    All rows have the same number of parameters and updates. Checkpoints are selected on the
    validation set, the test set is translated once. Run the same command again to resume.
    """

    size: Literal["full", "cpu"] = "cpu"
    """full: the recipes, hours per row on one core; cpu: shorter trainings on smaller batches."""
    data: Literal["multi30k", "built-in"] = "multi30k"
    """Parallel text; built-in needs no download."""
    rows: tuple[TranslationRow, ...] = tuple(TRANSLATION_ROWS)
    """Rows of the table; complex-order-chosen has the hyperparameters that --choices found best for
    complex-order at 400 updates. It is a row of its own, as no other row had such a search;
    complex-order-shared has one frequency per dimension for all words, and wider layers."""
    seeds: int = 1
    """Number of seeds: 0, 1, …"""
    choices: bool = False
    """Instead of the table: short trainings of every row with three learning rates, and of
    complex-order with one change each, compared on the validation set."""


@dataclass(frozen=True)
class Table6Options(LongOptions):
    """Language models: Transformer-XL with real and complex numbers, in bits per character.

    All rows have the same number of parameters, and either the same number of updates or the same
    time. Checkpoints are selected on the validation set, the test set is evaluated once. Run the
    same command again to resume.
    """

    size: Literal["small", "paper"] = "small"
    """small: for one core; paper: 6 layers of width 512, 400,000 updates, for a GPU."""
    data: str = "text8"
    """text8, enwik8, python-help (built in), or a text file."""
    budgets: tuple[Literal["updates", "time"], ...] = ("updates", "time")
    """At equal updates, at equal time, or both."""
    rows: tuple[LanguageModelRow, ...] = tuple(LANGUAGE_MODEL_ROWS)
    """Rows of the table; complex-order-paper replaces words by waves of positions in the segment,
    and nothing else."""
    seeds: int = 2
    """Number of seeds: 0, 1, …"""
    choices: bool = False
    """Instead of the table: short trainings for what the paper leaves open, the same number for
    each row, each with one change, compared on the validation set."""


def run_table5(args: list[str], prog: str) -> None:
    """`python -m experiments table5`"""
    options = parsed(Table5Options, args, prog)
    from experiments.choices import Table5Choices, choices_table
    from experiments.launch import show
    from experiments.table5 import ROWS, Table5, draw_table5, table5_tables

    kind = Table5Choices if options.choices else Table5
    table = kind(
        options.out or Path("results/table5"),
        options.size,
        options.data,
        rows=tuple(TRANSLATION_ROWS[row] for row in options.rows),
        steps=options.steps,
        seeds=options.seeds,
        changes=options.changes,
        measures=options.trains,
    )
    check_grid(len(table.configs()), options.seeds, options.jobs)
    with trained(table, options) as console:
        table = replace(table, rows=tuple(ROWS))  # whatever was trained now or before
        if console is not None and isinstance(table, Table5Choices):
            show([choices_table(table)], table.out, [], console)
        elif console is not None:
            show(table5_tables(table), table.out, draw_table5(table), console)


def run_table6(args: list[str], prog: str) -> None:
    """`python -m experiments table6`"""
    options = parsed(Table6Options, args, prog)
    from experiments.choices import Table6Choices, choices_table
    from experiments.launch import show
    from experiments.table6 import ROWS, Table6, draw_table6, table6_table

    kind = Table6Choices if options.choices else Table6
    table = kind(
        options.out or Path("results/table6"),
        options.size,
        options.data,
        steps=options.steps,
        seeds=options.seeds,
        budgets=options.budgets,
        rows=tuple(LANGUAGE_MODEL_ROWS[row] for row in options.rows),
        changes=options.changes,
        measures=options.trains,
    )
    check_grid(len(table.configs()) * len(options.budgets), options.seeds, options.jobs)
    with trained(table, options) as console:
        if console is not None and isinstance(table, Table6Choices):
            show([choices_table(table)], table.out, [], console)
        elif console is not None:
            table = replace(table, rows=ROWS)  # whatever was trained now or before
            show([table6_table(table)], table.out, draw_table6(table), console)


@contextmanager
def trained(table: LongTable, options: LongOptions) -> Iterator[Console | None]:
    """Train what is missing, if the options ask for it; a console if there is something to show."""
    from experiments.launch import estimate_long_table
    from wordwave.cli.console import Console
    from wordwave.cli.progress import completed, say_skipped

    console = Console()
    if not options.report_only:
        estimate_long_table(table, console, options.jobs, estimate_only=options.estimate_only)
    if options.estimate_only:
        say_skipped(table.store, console)
        yield None
        return
    with completed(
        table.grid,
        console,
        report_only=options.report_only,
        n_jobs=options.jobs,
        cost=lambda cell: cell.steps,
        spent=table.steps_done,
        on_record=lambda r: console.print(f"{r['row']}, seed {r['seed']}: done"),
    ):
        yield console
