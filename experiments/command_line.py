"""`python -m experiments TARGET …`: the paper's tables and figures by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from experiments import long_commands, pair_commands
from experiments.cells import (
    CROSS_VALIDATED,
    DATASETS,
    SST2_SENTENCES,
    Rows,
    table2_cells,
    table4_cells,
    table7_cells,
)
from experiments.cluster import Backend
from experiments.protocol import KEY, Budget, Protocol, SearchConfig, Version
from wordwave.cli.console import parsed
from wordwave.embedding.config import COMPARED, EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.grid import FailedCellsError, check_grid
from wordwave.models.config import ENCODERS, EncoderKind
from wordwave.search.spaces import SpaceName

if TYPE_CHECKING:
    from experiments.cells import TrainingCell
    from wordwave.cli.console import Console
    from wordwave.grid import Store


Target = Literal[
    "table1", "table2", "table3", "table4", "table5", "table6", "table7", "fig1", "fig5", "fig6",
    "report", "pairs", "acceptability", "enrich", "encoder", "checklist",
    "classifier", "withdraw",
]  # fmt: skip
WORDS_TARGETS = ("table7", "fig1", "fig6")
"""Targets that need δ of all words."""
MAX_ROUNDS, MAX_TRIALS = 1000, 100_000
DatasetName = Literal["mr", "subj", "cr", "mpqa", "sst2", "sst2-sentences", "trec"]


@dataclass(frozen=True)
class Options:
    """A table or figure of the paper, from trainings under one protocol (docs/protocol.md).

    Models are selected on the validation set and evaluated once on the test set. Every result is
    recorded when it is there: run the same command again to resume. A table shows all runs with the
    same hyperparameters and searches; flags that narrow it down limit what is trained now.
    """

    target: tyro.conf.Positional[Target]
    """table3 and report only show what was trained. Tables 1, 5, 6 have options of their own, and
    so have pairs, acceptability, enrich, encoder, checklist and classifier, not in the paper, and
    withdraw, which marks records: python -m experiments table5 --help."""
    folds: int = 10
    """How many of the ten folds of mr, subj, cr and mpqa."""
    seeds: int = 1
    """Number of seeds: 0, 1, …"""
    datasets: tuple[DatasetName, ...] = DATASETS  # type: ignore[assignment]
    """Data sets; sst2-sentences is SST-2 trained on whole sentences only. table4, table7, fig1 and
    fig6 use SST-2, fig5 the first of these."""
    encoders: tuple[EncoderKind, ...] = ENCODERS
    """Encoders; table4 uses the transformer."""
    embeddings: tuple[EmbeddingKind, ...] = COMPARED
    """Embeddings; rope and alibi need the transformer."""
    rows: tuple[Rows, ...] = ("paper", "matched", "anchors")
    """table2: the paper's rows, parameter-matched real baselines, anchors (linear models and
    fastText), and variants: what the paper describes but has no row for."""
    quick: bool = False
    """A small version, half an hour on two cores: 1 fold, 1 seed, few epochs, SST-2 sentences, no
    parameter-matched rows. Its results are kept apart and marked."""
    search_trials: int = 0
    """Trials of a hyperparameter search for each row, on the validation set of fold 0; 0: the
    recipes."""
    search_space: SpaceName = "narrow"
    """Search space; see wordwave search."""
    search_on: DatasetName | Literal["similar"] | None = None
    """Search on this data set only, and use the result on all; similar: cr and sst2 use that of mr,
    the others have their own; by default each has its own search."""
    recipes: Path | None = None
    """Folder with ENCODER.yaml, or ENCODER-DATASET.yaml, for each encoder."""
    protocol_version: Version = "current"
    """first: the recipes and epochs of the first records (docs/protocol.md)."""
    rounds: int = 5
    """fig5: measurements of each row."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    backend: Backend = "local"
    """Where to train: on this machine, or on a Ray or Dask cluster."""
    address: str | None = None
    """Address of a running cluster; by default one is started here."""
    out: Path = Path("results")
    """Output folder: REPORT.md, and reproduce/ with records, tables and figures."""
    estimate_only: bool = False
    """Print how long it would take, and stop."""
    report_only: bool = False
    """Train nothing; show what was trained before."""

    @property
    def folder(self) -> Path:
        return self.out / "reproduce"

    @property
    def budget_datasets(self) -> tuple[str, ...]:
        """The data sets; the quick version has SST-2's sentences for its phrases."""
        if not self.quick:
            return self.datasets
        return tuple(dict.fromkeys(SST2_SENTENCES if d == "sst2" else d for d in self.datasets))

    def check(self) -> None:
        """Raise for impossible values before anything is loaded."""
        for name, low, high in (
            ("folds", 1, 10),
            ("rounds", 1, MAX_ROUNDS),
            ("search_trials", 0, MAX_TRIALS),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                rule = f"at least {low}" if value < low else f"at most {high}"
                raise WordwaveError(f"{name} must be {rule}, got {value}")
        for name in ("datasets", "encoders", "embeddings", "rows"):
            if not getattr(self, name):
                raise WordwaveError(f"{name} must name at least one, got none")
        check_grid(len(replace(self, seeds=1).cells()), self.seeds, self.jobs)
        if self.address and self.backend == "local":
            raise WordwaveError(f"address needs --backend ray or dask, got {self.address!r}")

    def protocol(self) -> Protocol:
        """The protocol, before its searches."""
        search = None
        if self.search_trials:
            on = SST2_SENTENCES if self.quick and self.search_on == "sst2" else self.search_on
            search = SearchConfig(self.search_trials, self.search_space, on)
        budget: Budget = "quick" if self.quick else "full"
        return Protocol(budget, search, folder=self.recipes, version=self.protocol_version)

    def cells(self) -> list[TrainingCell]:
        """The trainings that the target needs."""
        datasets = self.budget_datasets
        folds, seeds = (1, 1) if self.quick else (self.folds, self.seeds)
        if self.target in WORDS_TARGETS:
            return table7_cells(datasets, self.encoders, seeds)
        if self.target == "table4":
            return table4_cells(SST2_SENTENCES if SST2_SENTENCES in datasets else "sst2", seeds)
        rows = tuple(r for r in self.rows if not (self.quick and r == "matched"))
        return table2_cells(
            datasets=datasets,
            encoders=self.encoders,
            embeddings=self.embeddings,
            rows=("paper",) if self.target == "fig5" else rows,
            folds=folds if set(datasets) & set(CROSS_VALIDATED) else 1,
            seeds=seeds,
        )


@dataclass(frozen=True)
class WithdrawOptions:
    """Mark records as withdrawn. They stay in the file, and the same cells can be run again."""

    where: tuple[str, ...]
    """Which records: FIELD=VALUE of their keys, such as encoder=nb-svm; all must agree."""
    reason: str
    """Why, for readers of the file."""
    table: Literal["reproduce", "table5", "table6"] = "reproduce"
    """Of which folder: reproduce holds tables 2 and 4."""
    out: Path = Path("results")
    """Output folder of the tables."""


@dataclass(frozen=True)
class Table1Options:
    """The data sets: their sizes, words and classes, beside the paper's."""

    out: Path = Path("results/table1")
    """Folder of the table."""


def main(args: list[str], prog: str) -> None:
    """`python -m experiments`"""
    # Some targets have options of their own, before which these two flags may stand.
    flags = ("--estimate-only", "--report-only")
    at = next((i for i, word in enumerate(args) if word not in flags), len(args))
    own = {
        "table1": run_table1,
        "table5": long_commands.run_table5,
        "table6": long_commands.run_table6,
        "pairs": pair_commands.run_pairs,
        "acceptability": pair_commands.run_acceptability,
        "enrich": pair_commands.run_enrich,
        "encoder": pair_commands.run_encoder,
        "checklist": pair_commands.run_checklist,
        "classifier": pair_commands.run_classifier,
        "withdraw": run_withdraw,
    }
    if (run := own.get(" ".join(args[at : at + 1]))) is not None:
        run([*args[:at], *args[at + 1 :]], f"{prog} {args[at]}")
        return
    options = parsed(Options, args, prog)
    if options.target in own:
        raise WordwaveError(f"{options.target} must come before its options, which are its own")
    options.check()
    run_classifiers(options)


def run_classifiers(options: Options) -> None:
    """Tables 2, 3, 4 and 7, figures and the report: train what is missing, then show it."""
    from experiments.launch import show
    from experiments.records import is_record, upgrade
    from experiments.report import Results
    from wordwave.cli.console import Console
    from wordwave.cli.progress import say_skipped
    from wordwave.grid import Store

    console, folder = Console(), options.folder
    store = Store(folder / "records.jsonl", KEY, is_record, upgrade=upgrade)
    words = Store(folder / "words.jsonl", KEY, is_record, upgrade=upgrade)
    problem = None
    if options.target not in ("table3", "report") and not options.report_only:
        try:
            train_classifiers(options, store, words, console)
        except FailedCellsError as some:
            problem = some
    say_skipped(store, console)
    say_skipped(words, console)
    if not options.estimate_only:
        results = Results.read(options.protocol(), store, words)
        try:
            results.check(options.target, store.path, words.path)
        except WordwaveError as empty:  # the reason why nothing was trained comes first
            raise problem or empty from None
        if options.target == "report":
            path = options.out / f"REPORT{'-quick' if options.quick else ''}.md"
            show([], folder, results.write_report(path, folder), console)
        else:
            drawn = results.draw(options.target, folder)
            show(results.tables(options.target), folder, drawn, console, n_printed=1)
    if problem is not None:
        raise problem


def train_classifiers(options: Options, store: Store, words: Store, console: Console) -> None:
    """Train what the target needs and the stores lack."""
    from experiments.launch import Launcher
    from experiments.training_runs import CellRun

    cells = options.cells()
    launcher = Launcher(
        options.protocol(),
        store,
        console,
        options.jobs,
        options.backend,
        options.address,
        options.estimate_only,
    )
    launcher.check(cells)
    protocol = launcher.search(cells, options.folder / "searches")
    launcher = replace(launcher, protocol=protocol)
    if options.target == "fig5":
        rounds, steps = (2, 10) if options.quick else (options.rounds, 20)
        launcher.measure_epochs(cells, options.budget_datasets[0], rounds=rounds, steps=steps)
    elif options.target in WORDS_TARGETS:
        launcher.train_words(cells, words)
    else:
        launcher.train(cells, CellRun(protocol), protocol.key)


def run_table1(args: list[str], prog: str) -> None:
    """`python -m experiments table1`"""
    options = parsed(Table1Options, args, prog)
    from experiments.launch import show
    from experiments.table1 import table1
    from wordwave.cli.console import Console

    show([table1()], options.out, [], Console())


def run_withdraw(args: list[str], prog: str) -> None:
    """`python -m experiments withdraw`"""
    from experiments.long_table import KEY as LONG_KEY
    from experiments.records import is_record, upgrade, upgrade_long
    from wordwave.grid import Store

    options = parsed(WithdrawOptions, args, prog)
    path = options.out / options.table / "records.jsonl"
    if not path.is_file():
        raise WordwaveError(f"there is no file '{path}'")
    if options.table == "reproduce":
        store = Store(path, KEY, is_record, upgrade=upgrade)
    else:
        store = Store(path, LONG_KEY, upgrade=upgrade_long)
    wanted = [condition.partition("=")[::2] for condition in options.where]
    for name, _ in wanted:
        if name not in store.key:
            raise WordwaveError(f"where must name one of {', '.join(store.key)}, got {name!r}")
    found = [r for r in store.records() if all(str(r.get(name)) == value for name, value in wanted)]
    if not found:
        raise WordwaveError(f"'{path}' has no record with {' and '.join(options.where)}")
    for record in found:
        store.withdraw(record, options.reason)
    print(f"{len(found)} records withdrawn in '{path}'.")
