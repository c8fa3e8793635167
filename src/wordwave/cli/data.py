"""`wordwave data`: what there is, get it, check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.data.inventory import Item

ALL = "all"
Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME …")]


@dataclass(frozen=True)
class ListSets:
    """All data sets that have a name, and which of them are in the data home."""


@dataclass(frozen=True)
class Prepare:
    """Download data sets, check them and turn them into the form that wordwave reads.

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
    """Print all there is."""
    from rich.table import Table

    from wordwave.cli.console import Console
    from wordwave.data.inventory import shelf
    from wordwave.data.registry import data_home

    table = Table("name", "what", "size", "prepared", "licence")
    table.columns[2].justify = "right"
    for item in shelf().values():
        n_here = item.n_here()
        here = "no" if not n_here else "yes" if n_here == len(item.files) else "in part"
        table.add_row(item.name, item.what, item.size, here, item.licence)
    console = Console()
    console.print(table)
    home = data_home()
    console.print(f"Data home: {home} (WORDWAVE_DATA names another)")


def prepare_sets(items: Sequence[Item]) -> None:
    """Make what is missing, with a bar for each download."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from wordwave.cli.console import Console

    console = Console()
    columns = (
        TextColumn("{task.description}", markup=False),
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

        for item in items:
            made = item.prepare(show)
            what = "wrote " + ", ".join(map(str, made)) if made else "all there"
            for line in (f"{item.name}: {what}", f"  {item.licence}; {item.citation}"):
                bars.print(line)


def verify_sets(items: Sequence[Item] | None) -> None:
    """Print how each file stands; anything but ok is an error in the end."""
    from wordwave.data.inventory import shelf
    from wordwave.data.registry import data_home

    if items is None:
        items = [item for item in shelf().values() if item.n_here()]
        if not items:
            home = data_home()
            raise WordwaveError(
                f"data home '{home}' holds no set; run `wordwave data prepare NAME`"
            )
    n_files, bad, again = 0, [], []
    for item in items:
        for file, state in item.files.items():
            found = state()
            print(f"{file}: {found}")
            n_files += 1
            if found != "ok":
                bad.append(file)
                again.append(item.name)
    if bad:
        raise WordwaveError(
            f"{len(bad)} of {n_files} files must be made again ({', '.join(bad)}); "
            f"run `wordwave data prepare {' '.join(dict.fromkeys(again))}`"
        )


def _named(names: tuple[str, ...]) -> Sequence[Item]:
    from wordwave.data.inventory import item_named, shelf

    if not names:
        raise WordwaveError(f"name one or more of {', '.join(shelf())}, or {ALL}")
    if ALL in names:
        return [*shelf().values()]
    return [item_named(name) for name in dict.fromkeys(names)]
