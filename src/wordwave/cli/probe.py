"""`wordwave probe`: the order laboratory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wordwave.cli.console import Console, parsed
from wordwave.cli.progress import completed
from wordwave.embedding.config import COMPARED, EMBEDDING_KINDS
from wordwave.errors import WordwaveError
from wordwave.grid import Grid, Record, Store, check_grid
from wordwave.lab import report
from wordwave.lab.laboratory import KEY, Budget, Laboratory, cells, check_lengths, is_record
from wordwave.models.config import ENCODERS


@dataclass(frozen=True)
class ProbeOptions:
    """How well each embedding encodes word order: tasks × embeddings × encoders × seeds.

    Each cell is a model trained on short sentences with the same budget as all others and tested
    at each length. Records are appended as they come: run the same command again to resume.
    """

    tasks: tuple[str, ...] = ("precedence", "adjacency", "who-did-what")
    """Tasks by name; an unknown one lists them all."""
    embeddings: tuple[str, ...] = COMPARED
    """Embeddings to compare; rope and alibi are run with the transformer only."""
    encoders: tuple[str, ...] = ENCODERS
    """Encoders to combine them with."""
    all: bool = False
    """All tasks that need no text file."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    recipe: Literal["plain", "long"] = "plain"
    """plain: positions 1 … L. long: for test sentences longer than those of training (random
    positions for every embedding; see docs/laboratory.md)."""
    lengths: tuple[str, ...] = ("10-20", "40-60")
    """Test lengths in words, shortest-longest."""
    text: Path | None = None
    """Your own sentences, one per line, for the task swap-text."""
    out: Path = Path("out/probe")
    """Folder for records, tables and figures."""
    jobs: int = 2
    """Cells at once, one thread each."""
    report_only: bool = False
    """Run nothing; report the cells that have records."""
    budget: Budget = field(default_factory=Budget)


def probe(args: list[str], prog: str) -> None:
    """`wordwave probe`"""
    run_probe(parsed(ProbeOptions, args, prog))


def run_probe(options: ProbeOptions) -> list[Record]:
    """Check the options, run what is missing, and report; returns the records."""
    from wordwave.lab.figures import draw_figures
    from wordwave.lab.tasks import PAIR_TASKS, SEQUENCE_TASKS, probe_task

    tasks = [*PAIR_TASKS, *SEQUENCE_TASKS] if options.all else list(options.tasks)
    for task in tasks:
        probe_task(task, options.text)
    for name, known in (("embeddings", EMBEDDING_KINDS), ("encoders", ENCODERS)):
        for value in getattr(options, name):
            if value not in known:
                raise WordwaveError(f"{name} must be among {', '.join(known)}, got {value!r}")
    if not options.lengths:
        raise WordwaveError("lengths must be one or more, such as 10-20, got none")
    lengths = tuple(parse_lengths(text) for text in options.lengths)
    laboratory = Laboratory(options.budget, lengths, options.text)
    kinds = (tasks, list(options.embeddings), list(options.encoders))
    check_grid(len(cells(*kinds, 1, options.recipe)), options.seeds, options.jobs)
    wanted = cells(*kinds, options.seeds, options.recipe)
    if not wanted:
        raise WordwaveError("nothing to run: these tasks, embeddings and encoders do not combine")
    store = Store(options.out / "records.jsonl", KEY, is_record)
    grid = Grid(store, wanted, laboratory.key, laboratory.run)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    report_only, n_jobs = options.report_only, options.jobs
    with completed(grid, console, report_only=report_only, n_jobs=n_jobs) as (records, note):
        for span in report.lengths_in(records):
            table = report.accuracy_table(records, span, note, mark_best=True)
            console.print(table.to_rich())
        # The files report all that was ever run under the same conditions, not only these cells.
        comparable = [r for r in store.records() if laboratory.ran(r, options.recipe)]
        written = report.write_files(comparable, options.out, note)
        written += draw_figures(comparable, options.out)
        console.print("Written: " + ", ".join(map(str, (store.path, *written))))
    return records


def parse_lengths(text: str) -> tuple[int, int]:
    """ "40-60" as (40, 60)."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match:
        raise WordwaveError(f"lengths must be written shortest-longest, as in 40-60, got {text!r}")
    low, high = int(match[1]), int(match[2])
    check_lengths("lengths", low, high)
    return low, high
