"""`wordwave data`: what there is, get it, check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from wordwave.data.catalogue import DataSet

ALL = "all"
Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME …")]


@dataclass(frozen=True)
class ListSets:
    """The data sets of the catalogue, and which of them are in the data home."""


@dataclass(frozen=True)
class Prepare:
    """Download data sets and turn them into `label<TAB>text` files.

    What is there already is kept, and a download that was cut goes on. WORDWAVE_DATA names the
    data home; WORDWAVE_MIRROR names a web address that has the same files.
    """

    names: Names = ()
    """Data sets by name, or all."""


@dataclass(frozen=True)
class Verify:
    """Check the prepared files against their checksums."""

    names: Names = ()
    """Data sets by name, or all; without a name, those of which there is a file."""


def list(args: Sequence[str], prog: str) -> None:
    """`wordwave data list`"""
    tyro.cli(ListSets, prog=prog, args=args)
    list_sets()


def prepare(args: Sequence[str], prog: str) -> None:
    """`wordwave data prepare`"""
    options = tyro.cli(Prepare, prog=prog, args=args)
    prepare_sets(_named(options.names))


def verify(args: Sequence[str], prog: str) -> None:
    """`wordwave data verify`"""
    options = tyro.cli(Verify, prog=prog, args=args)
    verify_sets(_named(options.names) if options.names else None)


def list_sets() -> None:
    """Print the catalogue."""
    from rich.console import Console
    from rich.table import Table

    from wordwave.data.catalogue import CATALOGUE
    from wordwave.data.home import data_home

    home = data_home()
    table = Table("name", "classes", "rows", "prepared", "licence")
    table.columns[2].justify = "right"
    for dataset in CATALOGUE.values():
        n_here = sum((home / part.file).is_file() for part in dataset.parts)
        here = "no" if not n_here else "yes" if n_here == len(dataset.parts) else "in part"
        classes = ", ".join(dataset.classes)
        table.add_row(dataset.name, classes, f"{dataset.rows:,}", here, dataset.licence)
    console = Console()
    console.print(table)
    console.print(f"Data home: {home} (WORDWAVE_DATA names another)", soft_wrap=True, markup=False)


def prepare_sets(datasets: Sequence[DataSet]) -> None:
    """Make what is missing, with a bar for each download."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from wordwave.data import prepare as preparation

    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done, total=total)

        for dataset in datasets:
            made = preparation.prepare(dataset, progress=show)
            what = "wrote " + ", ".join(map(str, made)) if made else "all there"
            for line in (f"{dataset.name}: {what}", f"  {dataset.licence}; {dataset.citation}"):
                bars.print(line, soft_wrap=True, markup=False, highlight=False)


def verify_sets(datasets: Sequence[DataSet] | None) -> None:
    """Print how each file stands; anything but ok is an error in the end."""
    from wordwave.data.catalogue import CATALOGUE
    from wordwave.data.home import data_home
    from wordwave.data.prepare import state

    home = data_home()
    if datasets is None:
        sets = CATALOGUE.values()
        datasets = [s for s in sets if any((home / part.file).exists() for part in s.parts)]
        if not datasets:
            raise ValueError(f"data home '{home}' holds no set; run `wordwave data prepare NAME`")
    n_files, bad, again = 0, [], []
    for dataset in datasets:
        for part in dataset.parts:
            found = state(part, home=home)
            print(f"{part.file}: {found}")
            n_files += 1
            if found != "ok":
                bad.append(part.file)
                again.append(dataset.name)
    if bad:
        raise ValueError(
            f"{len(bad)} of {n_files} files must be made again ({', '.join(bad)}); "
            f"run `wordwave data prepare {' '.join(dict.fromkeys(again))}`"
        )


def _named(names: tuple[str, ...]) -> Sequence[DataSet]:
    from wordwave.data.catalogue import CATALOGUE, dataset_named

    if not names:
        raise ValueError(f"name one or more of {', '.join(CATALOGUE)}, or {ALL}")
    if ALL in names:
        return [*CATALOGUE.values()]
    return [dataset_named(name) for name in dict.fromkeys(names)]
