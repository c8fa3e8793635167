"""`wordwave reproduce`: the paper's tables and figures by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from experiments import long_tables_cli as reproduce_long
from experiments.cells import DATASETS, SENTENCES, WITH_FOLDS, Rows
from experiments.protocol import KEY
from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.grid import Backend, FailedCellsError, check_grid
from wordwave.models.config import EMBEDDINGS, ENCODERS, EmbeddingKind, EncoderKind
from wordwave.search.space import SpaceName

if TYPE_CHECKING:
    from experiments.cells import Cell
    from experiments.protocol import Protocol


Target = Literal[
    "table2", "table3", "table4", "table5", "table6", "table7", "fig1", "fig5", "fig6", "report"
]
MOST_ROUNDS, MOST_TRIALS = 1000, 100_000
DataName = Literal["mr", "subj", "cr", "mpqa", "sst2", "sst2-sentences", "trec"]


@dataclass(frozen=True)
class ReproduceOptions:
    """A table or figure of the paper, from trainings under one protocol (docs/protocol.md).

    Dev selects, the test part is scored once. Results are appended as they come: the same command
    goes on where it stopped. A table shows all runs that have the same settings and searches; the
    flags that narrow it say what is trained now.
    """

    target: tyro.conf.Positional[Target]
    """table3 and report train nothing; they show what there is. Tables 5 and 6 have options of
    their own: wordwave reproduce table5 --help."""
    folds: int = 10
    """How many of the ten folds of mr, subj, cr and mpqa."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    datasets: tuple[DataName, ...] = DATASETS  # type: ignore[assignment]
    """Data sets; sst2-sentences learns from SST-2's whole sentences alone. table4, table7, fig1 and
    fig6 use SST-2, fig5 the first one."""
    encoders: tuple[EncoderKind, ...] = ENCODERS
    """Encoders; table4 uses the transformer."""
    embeddings: tuple[EmbeddingKind, ...] = EMBEDDINGS
    """Embeddings; rope and alibi go with the transformer only."""
    rows: tuple[Rows, ...] = ("paper", "matched", "anchors")
    """table2: the paper's rows, real baselines of as many parameters, and outside anchors."""
    quick: bool = False
    """A small version in half an hour on two cores: 1 fold, 1 seed, few epochs, SST-2 from
    sentences, no rows of matched size. Kept apart from the others, and marked."""
    search_trials: int = 0
    """Search the settings of each row with so many trials on fold 0's dev part; 0: recipes as they
    are."""
    search_pool: SpaceName = "narrow"
    """What a search varies; see wordwave search."""
    search_on: DataName | None = None
    """One data set to search on, whose settings then serve on all; by default each has its own
    search."""
    recipes: Path | None = None
    """A folder with ENCODER.yaml, or ENCODER-DATASET.yaml, for each encoder."""
    rounds: int = 5
    """fig5: measurements of each row."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    backend: Backend = "local"
    """Who trains: this machine, or a Ray or Dask cluster."""
    address: str | None = None
    """Of a cluster that runs already; by default one is started here."""
    out: Path = Path("results")
    """Folder: REPORT.md, and reproduce/ with records, tables and figures."""
    estimate_only: bool = False
    """Say how long it would take, and stop."""
    report_only: bool = False
    """Train nothing; show what is there."""

    @property
    def folder(self) -> Path:
        return self.out / "reproduce"

    @property
    def where(self) -> tuple[str, ...]:
        """The data sets, as the budget has them."""
        if not self.quick:
            return self.datasets
        return tuple(dict.fromkeys(SENTENCES if d == "sst2" else d for d in self.datasets))


def reproduce(args: list[str], prog: str) -> None:
    """`wordwave reproduce`"""
    # After other flags; at once, the verb of that name would have been found.
    flags = ("--estimate-only", "--report-only")
    at = next((i for i, word in enumerate(args) if word not in flags), len(args))
    if args[at : at + 1] in (["table5"], ["table6"]):
        run = getattr(reproduce_long, args[at])
        run([*args[:at], *args[at + 1 :]], f"{prog} {args[at]}")
        return
    options = parsed(ReproduceOptions, args, prog)
    if options.target in ("table5", "table6"):
        raise WordwaveError(f"{options.target} must stand before its options, which are its own")
    check(options)
    from experiments import runs as reproduce_runs
    from experiments import show as reproduce_show
    from experiments.records import is_record
    from wordwave.cli.console import Console
    from wordwave.cli.progress import say_skipped
    from wordwave.grid import Store

    console = Console()
    store = Store(options.folder / "records.jsonl", KEY, is_record)
    words = Store(options.folder / "words.jsonl", KEY, is_record)
    protocol = protocol_of(options)
    problem = None
    if options.target not in ("table3", "report") and not options.report_only:
        try:
            reproduce_runs.run(options, protocol, store, words, console)
        except FailedCellsError as some:
            problem = some
    say_skipped(store, console)
    say_skipped(words, console)
    if not options.estimate_only:
        reproduce_show.show(options, protocol, store, words, console)
    if problem is not None:
        raise problem


def check(options: ReproduceOptions) -> None:
    """Refuse what makes no sense before anything is loaded."""
    for name, low, high in (
        ("folds", 1, 10),
        ("rounds", 1, MOST_ROUNDS),
        ("search_trials", 0, MOST_TRIALS),
    ):
        value = getattr(options, name)
        if not low <= value <= high:
            rule = f"at least {low}" if value < low else f"at most {high}"
            raise WordwaveError(f"{name} must be {rule}, got {value}")
    for name in ("datasets", "encoders", "embeddings", "rows"):
        if not getattr(options, name):
            raise WordwaveError(f"{name} must name at least one, got none")
    check_grid(len(cells_of(replace(options, seeds=1))), options.seeds, options.jobs)
    if options.address and options.backend == "local":
        raise WordwaveError(f"address goes with --backend ray or dask, got {options.address!r}")


def protocol_of(options: ReproduceOptions) -> Protocol:
    """The terms; what searches choose is filled in when they are done."""
    from experiments.protocol import Protocol, SearchTerms

    search = None
    if options.search_trials:
        on = SENTENCES if options.quick and options.search_on == "sst2" else options.search_on
        search = SearchTerms(options.search_trials, options.search_pool, on)
    budget: Literal["quick", "full"] = "quick" if options.quick else "full"
    return Protocol(budget, search, {}, options.recipes)


def cells_of(options: ReproduceOptions) -> list[Cell]:
    """The trainings that a target needs."""
    from experiments.cells import table2_cells, table4_cells
    from experiments.sensitive_words import words_cells

    folds, seeds = (1, 1) if options.quick else (options.folds, options.seeds)
    if options.target in ("table7", "fig1", "fig6"):
        return words_cells(options.where, options.encoders, seeds)
    if options.target == "table4":
        return table4_cells(SENTENCES if SENTENCES in options.where else "sst2", seeds)
    rows = tuple(r for r in options.rows if not (options.quick and r == "matched"))
    return table2_cells(
        datasets=options.where,
        encoders=options.encoders,
        embeddings=options.embeddings,
        rows=("paper",) if options.target == "fig5" else rows,
        folds=folds if set(options.where) & set(WITH_FOLDS) else 1,
        seeds=seeds,
    )
