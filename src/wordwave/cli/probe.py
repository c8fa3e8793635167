"""`wordwave probe`: the order laboratory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from wordwave.errors import WordwaveError
from wordwave.lab.laboratory import Budget, check_lengths
from wordwave.models.config import EMBEDDINGS, ENCODERS


@dataclass(frozen=True)
class ProbeOptions:
    """What each embedding knows about word order: tasks × embeddings × encoders × seeds.

    Every cell is trained on short sentences under the same budget and tested at each length.
    Results are appended to a file as they come: run the same command again to go on.
    """

    tasks: tuple[str, ...] = ("precedence", "adjacency", "who-did-what")
    """Tasks by name; a wrong one lists them all."""
    embeddings: tuple[str, ...] = EMBEDDINGS
    """Embeddings to compare; rope and alibi run under the transformer only."""
    encoders: tuple[str, ...] = ENCODERS
    """Encoders to put them under."""
    all: bool = False
    """All tasks that need no text file."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    recipe: Literal["plain", "long"] = "plain"
    """plain: positions 1 … L. long: made for sentences longer than those of training (random
    positions for every embedding; see docs/laboratory.md)."""
    lengths: tuple[str, ...] = ("10-20", "40-60")
    """Test lengths in words, shortest-longest."""
    text: Path | None = None
    """Sentences of your own, one a line, for the task swap-text."""
    out: Path = Path("out/probe")
    """Folder for records, tables and pictures."""
    jobs: int = 2
    """Cells at once, one thread each."""
    report_only: bool = False
    """Run nothing; report the cells that are there."""
    budget: Annotated[Budget, tyro.conf.OmitArgPrefixes] = field(default_factory=Budget)


def probe(args: list[str], prog: str) -> None:
    """`wordwave probe`"""
    run_probe(tyro.cli(ProbeOptions, prog=prog, args=args, config=(tyro.conf.OmitArgPrefixes,)))


def run_probe(options: ProbeOptions) -> None:
    """Check the options, run what is missing, and report."""
    from wordwave.cli.console import Console
    from wordwave.cli.progress import exhausted, incomplete, say_skipped, say_waiting, tracked
    from wordwave.grid import Record, Store, check_grid, run_missing
    from wordwave.lab import figures, report
    from wordwave.lab.laboratory import KEY, Laboratory, cell_of, cells, is_record, makes_sense
    from wordwave.lab.tasks import PAIR_TASKS, SEQUENCE_TASKS
    from wordwave.lab.tasks import probe as task_named

    tasks = [*PAIR_TASKS, *SEQUENCE_TASKS] if options.all else list(options.tasks)
    for task in tasks:
        task_named(task, options.text)
    _check("embeddings", options.embeddings, EMBEDDINGS)
    _check("encoders", options.encoders, ENCODERS)
    lengths = tuple(parse_lengths(text) for text in options.lengths)
    laboratory = Laboratory(options.budget, lengths, options.text)
    kinds = (tasks, list(options.embeddings), list(options.encoders))
    check_grid(len(cells(*kinds, 1, options.recipe)), options.seeds, options.jobs)
    wanted = cells(*kinds, options.seeds, options.recipe)
    if not wanted:
        raise WordwaveError("nothing to run: these tasks, embeddings and encoders do not combine")
    store = Store(options.out / "records.jsonl", KEY, is_record)
    keys = {store.key_of(laboratory.key(cell)) for cell in wanted}
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    n_missing = len(keys - store.done())
    problem = None
    if n_missing and not options.report_only:
        results = run_missing(
            wanted,
            laboratory.run,
            store,
            key=laboratory.key,
            n_jobs=options.jobs,
            on_wait=lambda n: say_waiting(n, "cells", console),
        )
        problem = exhausted(tracked(results, n_missing, "cells", console))
    say_skipped(store, console)
    records = [r for r in store.records() if store.key_of(r) in keys]
    if not records:
        raise problem or ValueError(
            f"'{store.path}' holds none of these cells; run without --report-only"
        )
    note = incomplete(len(records), len(keys), "cells")
    for span in report.lengths_in(records):
        console.print(report.table(records, span, note))

    # Files tell of all that was ever run under the same terms, not only of what was asked for now.
    def is_comparable(record: Record) -> bool:
        cell = cell_of(record)
        known = {*PAIR_TASKS, *SEQUENCE_TASKS, *tasks}
        return (
            (cell.task in known and cell.recipe == options.recipe)
            and makes_sense(cell.task, cell.embedding, cell.encoder)
            and store.key_of(record) == store.key_of(laboratory.key(cell))
        )

    records = [r for r in store.records() if is_comparable(r)]
    written = report.write_files(records, options.out, note)
    first = report.lengths_in(records)[0]
    written.append(figures.draw_heat_map(records, first, options.out / "heat-map.png"))
    if len(report.lengths_in(records)) > 1:
        written.append(figures.draw_lengths(records, options.out / "lengths.png"))
    picture = figures.draw_frequencies(records, options.out / "frequencies.png")
    written += [picture] if picture else []
    console.print("Written: " + ", ".join(map(str, (store.path, *written))))
    if problem or note:
        raise problem or ValueError(f"{note} Run without --report-only for the others.")


def parse_lengths(text: str) -> tuple[int, int]:
    """ "40-60" as (40, 60)."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match:
        raise WordwaveError(f"lengths must be written shortest-longest, as in 40-60, got {text!r}")
    low, high = int(match[1]), int(match[2])
    check_lengths("lengths", low, high)
    return low, high


def _check(name: str, values: tuple[str, ...], known: tuple[str, ...]) -> None:
    for value in values:
        if value not in known:
            raise WordwaveError(f"{name} must be among {', '.join(known)}, got {value!r}")
