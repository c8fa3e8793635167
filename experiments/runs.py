"""What `wordwave reproduce` trains: first searches, then cells, with the time they will take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.anchors import check_installed
from experiments.cells import Cell
from experiments.chosen import SearchRun, searched_cells, with_choices
from experiments.epoch_timing import Timing, timing_kinds
from experiments.estimate import Estimate
from experiments.protocol import Protocol, parts_of
from experiments.reproduce import ReproduceOptions, cells_of
from experiments.sensitive_words import WordsRun, as_run
from experiments.training_runs import CellRun
from wordwave.cli.progress import progress, say_waiting, spelled
from wordwave.errors import WordwaveError
from wordwave.grid import run_missing

if TYPE_CHECKING:
    from wordwave.cli.console import Console
    from wordwave.grid import Store


def run(
    options: ReproduceOptions, protocol: Protocol, store: Store, words: Store, console: Console
) -> None:
    """Train what a target needs and the stores lack."""
    cells = cells_of(options)
    if not cells:
        raise WordwaveError("nothing to train: these encoders and embeddings do not combine")
    if not options.estimate_only:
        for name in {cell.encoder for cell in cells if cell.is_anchor}:
            check_installed(name)
        for dataset in {cell.dataset for cell in cells}:
            parts_of(dataset)  # a set that is missing is told of before anything is trained
    if protocol.search is not None:
        protocol = searched(options, protocol, cells, store, console)
    if options.target == "fig5":
        measure(options, protocol, cells, store, console)
    elif options.target in ("table7", "fig1", "fig6"):
        runner = WordsRun(protocol)
        try:
            train(options, protocol, cells, words, console, runner, runner.key)
        finally:
            if not options.estimate_only:
                keep_runs(words, store)
    else:
        train(options, protocol, cells, store, console, CellRun(protocol), protocol.key)


def train(
    options: ReproduceOptions,
    protocol: Protocol,
    cells: Sequence[Cell],
    store: Store,
    console: Console,
    runner: CellRun | WordsRun,
    key: Callable[[Cell], dict[str, object]],
) -> None:
    """Run the cells that the store lacks, with the time they will take."""
    done = store.done()
    missing = [
        cell for cell in cells if not protocol.knows(cell) or store.key_of(key(cell)) not in done
    ]
    if not missing:
        return
    # Before a search the recipe's own settings say well enough how long a cell will take.
    measures = not options.estimate_only
    by_recipe = Estimate(protocol.unsearched(), store.records(), measures)
    estimate = Estimate(protocol, store.records(), measures)
    seconds = [(estimate if protocol.knows(cell) else by_recipe).seconds(cell) for cell in missing]
    total = sum(seconds) / options.jobs
    console.print(
        f"{len(missing)} of {len(cells)} trainings are missing: about {spelled(total)} with "
        f"{options.jobs} at once, if they have a core each.",
        highlight=False,
    )
    if options.estimate_only:
        return
    results = run_missing(
        missing,
        runner,
        store,
        key=key,
        n_jobs=options.jobs,
        backend=options.backend,
        address=options.address,
        on_wait=lambda n: say_waiting(n, "trainings", console),
    )
    by_key = {store.key_of(key(cell)): s for cell, s in zip(missing, seconds, strict=True)}
    with bar("trainings", sum(seconds), len(missing), console) as advance:
        for record in results:
            advance(by_key.get(store.key_of(record), 0.0))


def keep_runs(words: Store, store: Store) -> None:
    """A training whose words were kept is one of table 2 as well, and need not be made again."""
    done = store.done()
    for run in map(as_run, words.records()):
        if store.key_of(run) not in done:
            store.append(run)


def searched(
    options: ReproduceOptions,
    protocol: Protocol,
    cells: Sequence[Cell],
    store: Store,
    console: Console,
) -> Protocol:
    """The protocol with the settings that searches chose, made now where they are missing."""
    if not options.estimate_only:
        try:
            import optuna  # noqa: F401
        except ModuleNotFoundError:
            raise WordwaveError("searches need optuna: pip install 'wordwave[search]'") from None
    assert protocol.search is not None
    search = SearchRun(protocol, options.folder / "searches")
    wanted, done = searched_cells(cells, protocol.search), store.done()
    missing = [cell for cell in wanted if store.key_of(search.key(cell)) not in done]
    if missing:
        estimate = Estimate(protocol.unsearched(), store.records(), not options.estimate_only)
        seconds = {
            store.key_of(search.key(cell)): protocol.search.trials * estimate.seconds(cell)
            for cell in missing
        }
        total = sum(seconds.values())
        console.print(
            f"{len(missing)} searches of {protocol.search.trials} trials are missing: at most "
            f"about {spelled(total / options.jobs)}.",
            highlight=False,
        )
        if options.estimate_only:
            return with_choices(protocol, store)
        results = run_missing(
            missing,
            search,
            store,
            key=search.key,
            n_jobs=options.jobs,
            backend=options.backend,
            address=options.address,
            claims=False,  # processes share the trials of a search
        )
        with bar("searches", total, len(missing), console) as advance:
            for record in results:
                advance(seconds.get(store.key_of(record), 0.0))
    return with_choices(protocol, store)


def measure(
    options: ReproduceOptions,
    protocol: Protocol,
    cells: Sequence[Cell],
    store: Store,
    console: Console,
) -> None:
    """Fig. 5's seconds, unless they have been measured."""
    rounds, steps = (2, 10) if options.quick else (options.rounds, 20)
    kinds = timing_kinds(cells)
    timing = Timing(protocol, options.where[0], kinds, rounds=rounds, steps=steps)
    searched = all(protocol.knows(Cell(timing.dataset, *kind)) for kind in kinds)
    if searched and store.key_of(timing.key()) in store.done():
        if options.estimate_only:
            console.print("No measurement is missing.")
        return
    if options.estimate_only:
        console.print(f"{timing.n_measurements} measurements of about a second each.")
        return
    with bar("measurements", timing.n_measurements, timing.n_measurements, console) as advance:
        for record in timing.run():
            if record is None:
                advance(1.0)
            else:
                store.append(record)


@contextmanager
def bar(unit: str, total: float, n: int, console: Console) -> Iterator[Callable[[float], None]]:
    """A bar over estimated seconds, so that short and long trainings count as they should."""
    count = "{task.fields[done]}/{task.fields[n]}"
    with progress(unit, console, count, speed_estimate_period=3600) as shown:
        task = shown.add_task(unit, total=total, done=0, n=n)
        done = 0

        def advance(seconds: float) -> None:
            nonlocal done
            done += 1
            shown.update(task, advance=seconds, done=done)

        yield advance
