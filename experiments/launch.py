"""Runs what a table lacks, after an estimate of how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cells import TrainingCell
from experiments.cluster import Backend, start_workers_on
from experiments.protocol import Protocol, load_cell_splits
from experiments.sensitive_words import WordsRun, as_run
from experiments.settings_search import SearchRun, search_cells, with_best_settings
from experiments.timing import EpochTiming, Estimate, timed_rows
from experiments.training_runs import CellRun
from wordwave.cli.progress import COUNT, progress, run_grid
from wordwave.errors import WordwaveError
from wordwave.grid import Grid
from wordwave.search.baselines import check_installed

if TYPE_CHECKING:
    from experiments.long_table import LongTable
    from wordwave.cli.console import Console
    from wordwave.grid import Record, Store
    from wordwave.tables import ResultTable


@dataclass(frozen=True)
class Launcher:
    """Trains the classifiers that a store lacks, or only estimates how long that takes."""

    protocol: Protocol
    store: Store
    console: Console
    n_jobs: int = 2
    backend: Backend = "local"
    address: str | None = None
    estimate_only: bool = False

    def check(self, cells: Sequence[TrainingCell]) -> None:
        """Raise for what is missing before anything is trained."""
        if not cells:
            raise WordwaveError("nothing to train: these encoders and embeddings do not combine")
        if self.estimate_only:
            return
        for name in {cell.encoder for cell in cells if cell.is_anchor}:
            check_installed(name, "leave it out with --rows paper matched")
        for dataset in {cell.dataset for cell in cells}:
            load_cell_splits(dataset)
        if self.protocol.search is not None:
            try:
                import optuna  # noqa: F401
            except ModuleNotFoundError:
                raise WordwaveError(
                    "searches need optuna: pip install 'wordwave[search]'"
                ) from None

    def search(self, cells: Sequence[TrainingCell], folder: Path) -> Protocol:
        """Run the searches that the cells need; the protocol with what they selected."""
        search = self.protocol.search
        if search is None:
            return self.protocol
        run = SearchRun(self.protocol, folder)
        wanted = search_cells(cells, search)
        # Processes share the trials of a search.
        grid = Grid(self.store, wanted, run.key, run, "searches", exclusive=False)
        missing = list(grid.missing().values())
        if missing:
            estimate = self._estimate(self.protocol.without_search())
            seconds = {cell: search.trials * estimate.seconds(cell) for cell in missing}
            self.console.print(
                f"{len(missing)} searches of {search.trials} trials are missing: at most "
                f"about {spelled(sum(seconds.values()) / self.n_jobs)}."
            )
            self._run(grid, seconds)
        return with_best_settings(self.protocol, self.store)

    def train(
        self,
        cells: Sequence[TrainingCell],
        run: CellRun | WordsRun,
        key: Callable[[TrainingCell], Record],
        store: Store | None = None,
    ) -> None:
        """Train the cells that the store lacks."""
        store, protocol = store or self.store, self.protocol
        done = store.done()
        missing = [
            cell
            for cell in cells
            if not protocol.covers(cell) or store.key_of(key(cell)) not in done
        ]
        if not missing:
            return
        # Before its search, a cell is estimated by the hyperparameters of its recipe.
        recipes, own = self._estimate(protocol.without_search()), self._estimate(protocol)
        seconds = {c: (own if protocol.covers(c) else recipes).seconds(c) for c in missing}
        self.console.print(
            f"{len(missing)} of {len(cells)} trainings are missing: about "
            f"{spelled(sum(seconds.values()) / self.n_jobs)} with {self.n_jobs} at once, on a core "
            "each."
        )
        self._run(Grid(store, missing, key, run, "trainings"), seconds)

    def train_words(self, cells: Sequence[TrainingCell], words: Store) -> None:
        """As `train`, with δ of all words; these are also runs of Table 2."""
        run = WordsRun(self.protocol)
        try:
            self.train(cells, run, run.key, words)
        finally:
            if not self.estimate_only:
                for record in map(as_run, words.records()):
                    self.store.append(record)

    def measure_epochs(
        self, cells: Sequence[TrainingCell], dataset: str, *, rounds: int, steps: int
    ) -> None:
        """Fig. 5's seconds per epoch, unless they have been measured."""
        rows = timed_rows(cells)
        timing = EpochTiming(self.protocol, dataset, rows, rounds=rounds, steps=steps)
        is_searched = all(self.protocol.covers(TrainingCell(dataset, *row)) for row in rows)
        if is_searched and self.store.key_of(timing.key()) in self.store.done():
            if self.estimate_only:
                self.console.print("No measurement is missing.")
            return
        if self.estimate_only:
            self.console.print(f"{timing.n_measurements} measurements of about a second each.")
            return
        with progress("measurements", self.console, COUNT) as bar:
            task = bar.add_task("", total=timing.n_measurements)
            for record in timing.run():
                if record is None:
                    bar.advance(task)
                else:
                    self.store.append(record)

    def _estimate(self, protocol: Protocol) -> Estimate:
        return Estimate(protocol, self.store.records(), measures=not self.estimate_only)

    def _run(self, grid: Grid[TrainingCell], seconds: dict[TrainingCell, float]) -> None:
        if not self.estimate_only:
            run_grid(
                grid,
                self.console,
                cost=seconds.__getitem__,
                n_jobs=self.n_jobs,
                start=partial(start_workers_on, self.backend, self.address),
            )


def estimate_long_table(
    table: LongTable, console: Console, n_jobs: int, *, estimate_only: bool
) -> None:
    """Print how long the missing trainings of Table 5 or 6 will take."""
    status = console.status("timing a few steps of each row, once")
    with nullcontext() if estimate_only else status:
        missing = list(table.grid.missing().values())
        seconds = table.step_seconds() if missing else {}
    if missing:
        left = sum((c.steps - table.steps_done(c)) * seconds[c.row] for c in missing)
        console.print(
            f"{len(missing)} of {len(table.cells())} trainings are missing: about "
            f"{spelled(left / n_jobs)} of steps with {n_jobs} at once, on a core each, and some "
            f"more to evaluate. Metrics: {table.out}/runs/*/metrics.jsonl"
        )
    elif estimate_only:
        console.print("No training is missing.")


def spelled(seconds: float) -> str:
    """A duration with a unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def show(
    tables: Sequence[ResultTable],
    folder: Path,
    pictures: Sequence[Path],
    console: Console,
    n_printed: int | None = None,
) -> None:
    """Print the first tables, write all, and print the paths of what was written."""
    for table in tables[:n_printed]:
        console.print(table.to_rich())
    written = [path for table in tables for path in table.write(folder)]
    console.print("Written: " + ", ".join(map(str, [*written, *pictures])))
