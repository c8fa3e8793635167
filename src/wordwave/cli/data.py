"""`wordwave data`: list, download and verify data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wordwave.cli.console import Console, parsed
from wordwave.data import prepare as preparation
from wordwave.data.registry import BUILT_IN, DataSet, catalogue, data_home, dataset_named
from wordwave.errors import WordwaveError

ALL = "all"
Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME …")]


@dataclass(frozen=True)
class ListOptions:
    """List the data sets that can be used by name, and which of them are in the data home."""


@dataclass(frozen=True)
class PrepareOptions:
    """Download data sets, verify their checksums and convert them to the format wordwave reads.

    Existing files are kept, and an interrupted download is resumed. WORDWAVE_DATA sets the data
    home; WORDWAVE_MIRROR sets a web address that serves the same files.
    """

    names: Names = ()
    """Names of data sets, or all."""


@dataclass(frozen=True)
class VerifyOptions:
    """Verify the checksums of prepared files."""

    names: Names = ()
    """Names of data sets, or all; by default those that have a file in the data home."""


def list(args: Sequence[str], prog: str) -> None:
    """`wordwave data list`"""
    parsed(ListOptions, args, prog)
    table = Table("name", "what", "size", "prepared", "licence")
    table.columns[2].justify = "right"
    for dataset in catalogue().values():
        n, n_files = dataset.n_present(), len(dataset.local_files())
        prepared = "no" if not n else "yes" if n == n_files else "in part"
        table.add_row(dataset.name, dataset.description, dataset.size, prepared, dataset.licence)
    licence = catalogue()["paws-wiki"].licence
    table.add_row(BUILT_IN, "train match: a part of paws-wiki", "8,000 pairs", "yes", licence)
    table.add_row(BUILT_IN, "train translate: en-de", "17,064 pairs", "yes", "Apache-2.0")
    console = Console()
    console.print(table)
    console.print(f"Data home: {data_home()} (set WORDWAVE_DATA to change it)")


def prepare(args: Sequence[str], prog: str) -> None:
    """`wordwave data prepare`"""
    datasets = _datasets(parsed(PrepareOptions, args, prog).names)
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console()) as bars:
        tasks = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done, total=total)

        for dataset in datasets:
            written = preparation.prepare(dataset, progress=show)
            what = "wrote " + ", ".join(map(str, written)) if written else "already prepared"
            bars.print(f"{dataset.name}: {what}")
            bars.print(f"  {dataset.licence}; {dataset.citation}")


def verify(args: Sequence[str], prog: str) -> None:
    """`wordwave data verify`"""
    names = parsed(VerifyOptions, args, prog).names
    names = names or tuple(d.name for d in catalogue().values() if d.n_present())
    if not names:
        raise WordwaveError(
            f"data home '{data_home()}' holds no data set; run `wordwave data prepare NAME`"
        )
    n_files, bad = 0, {}
    for dataset in _datasets(names):
        for file in dataset.local_files():
            found = preparation.state(file)
            print(f"{file.path}: {found}")
            n_files += 1
            if found != "ok":
                bad[file.path] = dataset.name
    if bad:
        raise WordwaveError(
            f"{len(bad)} of {n_files} files are missing or wrong ({', '.join(bad)}); "
            f"run `wordwave data prepare {' '.join(dict.fromkeys(bad.values()))}`"
        )


def _datasets(names: tuple[str, ...]) -> Sequence[DataSet]:
    if not names:
        raise WordwaveError(f"name one or more of {', '.join(catalogue())}, or {ALL}")
    if ALL in names:
        return [*catalogue().values()]
    return [dataset_named(name) for name in dict.fromkeys(names)]
