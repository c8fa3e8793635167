"""`wordwave probe`: the order laboratory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wordwave.cli.console import Console, parsed
from wordwave.cli.progress import completed
from wordwave.embedding.config import COMPARED, EMBEDDING_KINDS
from wordwave.errors import WordwaveError, unknown
from wordwave.grid import Grid, Record, Store, check_grid
from wordwave.lab import report
from wordwave.lab import suite as encodings_suite
from wordwave.lab.laboratory import (
    KEY,
    Budget,
    Laboratory,
    Pooling,
    cells,
    check_lengths,
    is_record,
)
from wordwave.lab.suite import Suite
from wordwave.limits import check_limit
from wordwave.models.config import ENCODERS

TASKS = ("precedence", "adjacency", "who-did-what")
LENGTHS = ("10-20", "40-60")


@dataclass(frozen=True)
class ProbeOptions:
    """How well each embedding encodes word order: tasks × embeddings × encoders × seeds.

    Each cell is a model trained on short sentences with the same budget as all others and tested
    at each length. Records are appended as they come: run the same command again to resume.
    With --suite encodings: position encodings inside attention, in causal Transformers.
    """

    suite: Literal["embeddings", "encodings"] = "embeddings"
    """embeddings: those of the paper, with RoPE and ALiBi, in four encoders. encodings: all
    position encodings in causal Transformers, on sequence tasks up to 2,000 tokens."""
    tasks: tuple[str, ...] = ()
    """Tasks by name; an unknown one lists them all. By default precedence, adjacency and
    who-did-what, or the ten core tasks of the suite of encodings."""
    encodings: tuple[str, ...] = ()
    """suite encodings: position encodings by name, with +random for randomised positions; by
    default all. An unknown one lists them."""
    encoding: str | None = None
    """suite encodings: your own, as module:Class, in place of those. Imports the module, and so
    runs its code."""
    quick: bool = False
    """suite encodings: three tasks, a quarter of the steps and shorter tests; ten minutes."""
    steps: int | None = None
    """suite encodings: optimizer steps in place of those of each task's budget."""
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
    learning_rate: float | None = None
    """Peak learning rate, in place of each encoder's."""
    pooling: Pooling | None = None
    """How the words of a sentence are pooled; by default a sum for fasttext, otherwise a mean."""
    lengths: tuple[str, ...] | None = None
    """Test lengths in words, shortest-longest; by default 10-20 and 40-60, or six up to 2,000
    tokens for the suite of encodings."""
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
    if options.suite == "encodings" or options.encoding is not None:
        return run_suite(options)
    from wordwave.lab.figures import draw_figures
    from wordwave.lab.tasks import PAIR_TASKS, SEQUENCE_TASKS, probe_task

    for name in ("encodings", "quick"):
        if getattr(options, name):
            raise WordwaveError(f"{name} goes with --suite encodings")
    tasks = [*PAIR_TASKS, *SEQUENCE_TASKS] if options.all else list(options.tasks or TASKS)
    for task in tasks:
        probe_task(task, options.text)
    for name, known in (("embeddings", EMBEDDING_KINDS), ("encoders", ENCODERS)):
        for value in getattr(options, name):
            if value not in known:
                raise WordwaveError(f"{name} must be among {', '.join(known)}, got {value!r}")
    lengths = _lengths(options.lengths) or tuple(map(parse_lengths, LENGTHS))
    rate, pooling = options.learning_rate, options.pooling
    if rate is not None and not 0 < rate < math.inf:
        raise WordwaveError(f"learning_rate must be above 0, got {rate}")
    laboratory = Laboratory(options.budget, lengths, options.text, rate, pooling)
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


def run_suite(options: ProbeOptions) -> list[Record]:
    """The suite of encodings: check the options, run what is missing, and report."""
    from wordwave.lab import suite_report
    from wordwave.lab.figures import draw_suite

    for name in ("learning_rate", "pooling"):
        if getattr(options, name) is not None:
            raise WordwaveError(f"{name} goes with --suite embeddings")
    known = encodings_suite.BUDGETS
    tasks = list(
        options.tasks or (encodings_suite.QUICK if options.quick else encodings_suite.CORE)
    )
    if options.all:
        tasks = [task for task in known if task not in encodings_suite.TEXT_TASKS]
    for task in tasks:
        if task not in known:
            raise unknown("task", task, known)
    own = () if options.encoding is None else (options.encoding,)
    encodings = list(own or options.encodings or encodings_suite.ALL_ENCODINGS)
    for encoding in encodings:
        encodings_suite.check_encoding(encoding)
    lengths = _lengths(options.lengths)
    if any(high > encodings_suite.MAX_LENGTH for _, high in lengths):
        raise WordwaveError(f"lengths must be at most {encodings_suite.MAX_LENGTH} tokens")
    if options.steps is not None:
        check_limit("steps", options.steps, (1, 10**9))
    usual = encodings_suite.QUICK_LENGTHS if options.quick else encodings_suite.LENGTHS
    share = encodings_suite.QUICK_SHARE if options.quick else 1.0
    suite = Suite(lengths or usual, options.steps, share, options.text)
    check_grid(len(tasks) * len(encodings), options.seeds, options.jobs)
    wanted = encodings_suite.suite_cells(tasks, encodings, options.seeds)
    store = Store(options.out / "encodings.jsonl", encodings_suite.KEY, encodings_suite.is_record)
    grid = Grid(store, wanted, suite.key, suite.run)
    for task in tasks:
        suite.task(task)  # its file is there
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    report_only, n_jobs = options.report_only, options.jobs
    with completed(grid, console, report_only=report_only, n_jobs=n_jobs, cost=suite.cost) as (
        records,
        note,
    ):
        # Beside all that was ever run under the same conditions.
        comparable = [r for r in store.records() if suite.ran(r)]
        spans = report.lengths_in(comparable)
        for span in dict.fromkeys((spans[0], spans[-1])):
            console.print(suite_report.accuracy_table(comparable, span, note).to_rich())
        console.print(suite_report.rank_table(comparable, note).to_rich())
        written = suite_report.write_files(comparable, options.out, note)
        written += draw_suite(comparable, options.out)
        console.print("Written: " + ", ".join(map(str, (store.path, *written))))
    return records


def _lengths(given: tuple[str, ...] | None) -> tuple[tuple[int, int], ...]:
    """The lengths that were given, none by default."""
    if given == ():
        raise WordwaveError("lengths must be one or more, as in --lengths 10-20 40-60, got none")
    return tuple(map(parse_lengths, given or ()))


def parse_lengths(text: str) -> tuple[int, int]:
    """ "40-60" as (40, 60)."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match:
        raise WordwaveError(f"lengths must be written shortest-longest, as in 40-60, got {text!r}")
    low, high = int(match[1]), int(match[2])
    check_lengths("lengths", low, high)
    return low, high
