"""`python -m benchmarks`: measure, print a table, append records; exit 1 if a target is missed."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.measure import fix_environment, median_times, n_calls
from benchmarks.record import EMULATED, Record, compare, environment, write
from benchmarks.rows import Row, Sizes, rows
from benchmarks.show import show_records
from wordwave.training.devices import has_native_bf16

RECORDS = Path(__file__).parents[1] / "results" / "bench.jsonl"
TINY = Sizes(B=4, L=6, D=16, V=50)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="timed calls of each contender")
    parser.add_argument(
        "--only",
        metavar="NAME",
        default="",
        help="measure only the rows whose name starts with this",
    )
    parser.add_argument(
        "--output", type=Path, help=f"append records to this file, by default {RECORDS.name}"
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="check that every row runs, at tiny sizes; no target applies, no records",
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    options.sizes = TINY if options.tiny else Sizes()
    options.rounds = 1 if options.tiny else options.rounds
    options.rows = [row for row in rows(options.sizes) if row.name.startswith(options.only)]
    if not options.rows:
        names = ", ".join(dict.fromkeys(row.name for row in rows(options.sizes)))
        parser.error(f"--only must be the start of one of {names}, got {options.only!r}")
    if options.output is None and not options.tiny:
        options.output = RECORDS
    return options


def measure(row: Row, rounds: int, no_target: str, progress: Progress) -> list[Record]:
    torch.manual_seed(0)
    # An emulated call takes seconds, and no target applies to it.
    asked = max(1, round(rounds * row.share_of_rounds))
    rounds = min(row.emulated_rounds, asked) if no_target else asked
    task = progress.add_task(f"{row.name} {row.precision}", total=None)
    contenders = row.build()
    progress.update(task, total=len(contenders) * n_calls(rounds))
    times = median_times(contenders, rounds, lambda: progress.advance(task))
    progress.remove_task(task)
    ran_in = {contender.name: contender.ran_in for contender in contenders}
    head = {"row": row.name, "precision": row.precision, "repeats": rounds}
    return [head | record for record in compare(times, ran_in, row.bars, no_target)]


def main() -> int:
    options = arguments()
    fix_environment()
    same = {**asdict(options.sizes), **environment()}
    no_target = {"fp32": "", "bf16": "" if has_native_bf16() else EMULATED}
    if options.tiny:
        no_target = dict.fromkeys(no_target, "tiny sizes: no target applies")
    records: list[Record] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        for row in progress.track(options.rows, description="rows"):
            measured = measure(row, options.rounds, no_target[row.precision], progress)
            records += [record | same for record in measured]
    if options.output:
        write(records, options.output)
    return 1 if show_records(records) else 0


if __name__ == "__main__":
    sys.exit(main())
