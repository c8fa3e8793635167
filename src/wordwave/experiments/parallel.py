"""Run many cells at once, one thread each, and keep every result as it comes.

On this machine by default; on a Ray or Dask cluster by joblib's back ends for them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from wordwave.experiments.store import Record, Store

Cell = TypeVar("Cell")
Backend = Literal["local", "ray", "dask"]

_PAUSE = 0.2
"""Seconds between two looks at what Ray's workers have written."""


def run_missing(
    cells: Sequence[Cell],
    run: Callable[[Cell], Record],
    store: Store,
    *,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int = 2,
    backend: Backend = "local",
    address: str | None = None,
    claims: bool = True,
) -> Iterator[Record]:
    """Run the cells that the store lacks, append each record as it comes, and yield it.

    Whatever ends this loop early loses the cells in flight and nothing else. What another process
    has stored meanwhile is not run again. A cell that cannot be run, such as one that diverges,
    does not keep the others from it: `FailedCellsError` at the end tells of it.

    Args:
        backend: who computes; Ray's workers must see the store's file.
        address: of a cluster that is running; by default one is started here, with n_jobs workers.
        claims: leave what another process is at to it, where workers see the file; without them,
            `run` must know how to share its work.
    """
    from joblib import Parallel, delayed

    done = store.done()
    missing = [cell for cell in cells if store.key_of(key(cell)) not in done]
    if not missing:
        return
    # A worker whose memory has grown is replaced, which is nothing to worry about.
    warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
    failed: list[Failure] = []

    def still_missing() -> Iterator[Cell]:
        for cell in missing:
            if store.key_of(key(cell)) not in store.done():
                yield cell

    with _cluster(backend, n_jobs, address):
        if backend == "ray":
            wanted = {store.key_of(key(cell)) for cell in missing}
            for record in _stored_by_workers(missing, run, store, key, n_jobs, failed):
                if store.key_of(record) in wanted:
                    yield record
        else:
            pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
            work = _run_and_store if backend == "local" and claims else _run
            for found in pool(delayed(work)(run, cell, store, key) for cell in still_missing()):
                if isinstance(found, Failure):
                    failed.append(found)
                elif found is not None:
                    store.append(found)  # Dask's workers may not see the file; nothing is doubled
                    yield found
    if failed:
        raise FailedCellsError(
            f"{len(failed)} of {len(missing)} could not be run, the others are kept; the first, "
            f"{failed[0].cell}: {failed[0].why}"
        )


class FailedCellsError(ValueError):
    """Some cells could not be run; all others have their records."""


@dataclass(frozen=True)
class Failure:
    """A cell that cannot be run."""

    cell: str
    why: str


def _stored_by_workers(
    cells: Sequence[Cell],
    run: Callable[[Cell], Record],
    store: Store,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int,
    failed: list[Failure],
) -> Iterator[Record]:
    """All records that are stored from now on, whoever stores them; failures are added to a list.

    Ray's back end gives its results at the end only, so its workers store them as they come.
    """
    from joblib import Parallel, delayed

    problems: list[BaseException] = []

    def wait_for_all() -> None:
        try:
            pool = Parallel(n_jobs=n_jobs, backend="ray", batch_size=1)
            ended = pool(delayed(_run_and_store)(run, cell, store, key) for cell in cells)
            failed.extend(found for found in ended if isinstance(found, Failure))
        except BaseException as problem:
            problems.append(problem)

    seen = len(store.records())
    grid = threading.Thread(target=wait_for_all, daemon=True)
    grid.start()
    is_over = False
    while not is_over:
        grid.join(timeout=_PAUSE)
        is_over = not grid.is_alive()
        fresh = store.records()[seen:]
        seen += len(fresh)
        yield from fresh
    if problems:
        raise problems[0]


def _run_and_store(
    run: Callable[[Cell], Record], cell: Cell, store: Store, key: Callable[[Cell], dict[str, Any]]
) -> Record | Failure | None:
    """In a worker that sees the store's file; `None` where a cell is another process's."""
    with store.claimed(key(cell)) as is_ours:
        if not is_ours:
            return None
        found = _run(run, cell, store, key)
        if not isinstance(found, Failure):
            store.append(found)
        return found


def _run(run: Callable[[Cell], Record], cell: Cell, *_: object) -> Record | Failure:
    # Dask needs a function that can be hashed, and what runs cells may not be.
    try:
        return run(cell)
    except ValueError as problem:
        return Failure(str(cell), str(problem))


@contextmanager
def _cluster(backend: Backend, n_jobs: int, address: str | None) -> Iterator[None]:
    """A cluster to work on, closed at the end."""
    if backend == "local":
        yield
    elif backend == "ray":
        try:
            import ray
            from ray.util.joblib import register_ray
        except ModuleNotFoundError:
            raise ValueError(_missing(backend)) from None
        options = {"address": address} if address else {"num_cpus": n_jobs}
        ray.init(**options, include_dashboard=False, log_to_driver=False)
        register_ray()
        try:
            yield
        finally:
            ray.shutdown()
    else:
        try:
            from distributed import Client, LocalCluster
        except ModuleNotFoundError:
            raise ValueError(_missing(backend)) from None
        from joblib import parallel_config

        with ExitStack() as open_until_the_end:
            enter = open_until_the_end.enter_context
            if not address:
                local = LocalCluster(n_workers=n_jobs, threads_per_worker=1, dashboard_address=None)
                address = enter(local).scheduler_address
            enter(Client(address))
            enter(parallel_config(backend="dask"))
            yield


def _missing(backend: str) -> str:
    return f"backend {backend!r} needs its package: pip install 'wordwave[cluster]'"
