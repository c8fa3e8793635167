"""Run many cells at once, one thread each, and keep every result as it comes.

On this machine by default; on a Ray or Dask cluster by joblib's back ends for them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeVar

from wordwave.experiments.store import Key, Record, Store
from wordwave.experiments.workers import TRIES, Failure, Here, Workers, attempt

Cell = TypeVar("Cell")
Backend = Literal["local", "ray", "dask"]

MOST_CELLS = 100_000
"""Of one command: more would take longer to list than anybody waits."""
MOST_JOBS = 1024
LOOPBACK = "127.0.0.1"

_PAUSE = 0.5
"""Seconds between two looks at what other processes have stored."""


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
    on_wait: Callable[[int], object] = lambda n: None,
) -> Iterator[Record]:
    """Run the cells that the store lacks, append each record as it comes, and yield it.

    Whatever ends this loop early loses the cells in flight and nothing else. What another process
    is at is left to it and waited for, so that all cells have their records at the end, whoever
    made them. A cell that cannot be run, such as one that diverges or whose process is killed
    twice, does not keep the others from it: `FailedCellsError` at the end tells of it.

    Args:
        backend: who computes; Ray's workers must see the store's file.
        address: of a cluster that is running; by default one is started here, with n_jobs workers.
        claims: leave what another process is at to it, where workers see the file; without them,
            `run` must know how to share its work.
        on_wait: is told how many cells are left when all of them are other processes'.
    """
    store.clean()
    done = store.done()
    missing = {k: cell for cell in cells if (k := store.key_of(key(cell))) not in done}
    if not missing:
        return
    failed: list[Failure] = []
    if backend == "local":
        yield from _on_this_machine(missing, run, store, key, n_jobs, claims, failed, on_wait)
    else:
        work = _through_ray if backend == "ray" else _through_dask
        with _cluster(backend, n_jobs, address):
            yield from work(missing, run, store, key, n_jobs, failed, on_wait)
    if failed:
        raise FailedCellsError(
            f"{len(failed)} of {len(missing)} could not be run, the others are kept; the first, "
            f"{failed[0].task}: {failed[0].why}"
        )


class FailedCellsError(ValueError):
    """Some cells could not be run; all others have their records."""


def check_grid(n_cells_a_seed: int, seeds: int, n_jobs: int) -> None:
    """Refuse a grid that nobody could wait for, before its cells are listed."""
    for name, value in (("seeds", seeds), ("jobs", n_jobs)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if n_jobs > MOST_JOBS:
        raise ValueError(f"jobs must be at most {MOST_JOBS}, got {n_jobs}")
    most = max(MOST_CELLS // max(n_cells_a_seed, 1), 1)
    if seeds > most:
        raise ValueError(
            f"seeds must be at most {most:,} for {n_cells_a_seed:,} runs each, got {seeds:,}"
        )


def _on_this_machine(
    missing: Mapping[Key, Cell],
    run: Callable[[Cell], Record],
    store: Store,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int,
    claims: bool,
    failed: list[Failure],
    on_wait: Callable[[int], object],
) -> Iterator[Record]:
    """All records, whoever makes them; failures are added to a list.

    It is this process that claims cells, so that a claim outlives a worker that is killed.
    """
    left, claimed, has_told = dict(missing), dict[Key, ExitStack](), False
    runner = Here(run) if n_jobs == 1 else Workers(run, min(n_jobs, len(missing)))
    with _all_closed(claimed), runner:
        while left or runner.n_running:
            yield from _stored(left, store)
            for k, cell in list(left.items()):
                if not runner.has_room:
                    break
                claim = ExitStack()
                if claims and not claim.enter_context(store.claimed(key(cell))):
                    claim.close()
                    continue
                claimed[k] = claim
                runner.submit(left.pop(k))
            if not runner.n_running:
                if left and not has_told:
                    on_wait(len(left))
                    has_told = True
                time.sleep(_PAUSE if left else 0)
            for cell, found in runner.wait(_PAUSE if left and runner.has_room else None):
                if isinstance(found, Failure):
                    failed.append(found)
                else:
                    store.append(found)
                claimed.pop(store.key_of(key(cell))).close()
                if not isinstance(found, Failure):
                    yield found


@contextmanager
def _all_closed(claims: Mapping[Key, ExitStack]) -> Iterator[None]:
    """Give up at the end what is still claimed."""
    try:
        yield
    finally:
        for claim in claims.values():
            claim.close()


def _stored(left: dict[Key, Cell], store: Store) -> Iterator[Record]:
    """The records of cells that another process has made; they are left no more."""
    for record in store.records():
        if left.pop(store.key_of(record), None) is not None:
            yield record


def _through_dask(
    missing: Mapping[Key, Cell],
    run: Callable[[Cell], Record],
    store: Store,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int,
    failed: list[Failure],
    on_wait: Callable[[int], object],
) -> Iterator[Record]:
    """Dask's workers may not see the file: what they find is stored here."""
    from distributed.scheduler import KilledWorker
    from joblib import Parallel, delayed

    left = dict(missing)

    def still_missing() -> Iterator[Any]:
        for k, cell in missing.items():
            if k not in store.done():
                yield delayed(attempt)(run, cell)

    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    try:
        for found in pool(still_missing()):
            if isinstance(found, Failure):
                failed.append(found)
            else:
                store.append(found)
                yield from _stored(left, store)
    except KilledWorker as lost:
        failed.append(Failure("on the cluster", " ".join(str(lost).split())))
    yield from _stored(left, store)


def _through_ray(
    missing: Mapping[Key, Cell],
    run: Callable[[Cell], Record],
    store: Store,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int,
    failed: list[Failure],
    on_wait: Callable[[int], object],
) -> Iterator[Record]:
    """Ray's back end gives its results at the end only, so its workers store them as they come."""
    from ray.exceptions import RayError

    left, tries = dict(missing), 0
    while left:
        problems: list[BaseException] = []
        grid = threading.Thread(
            target=_run_on_ray,
            args=(list(left.values()), run, store, key, n_jobs, failed, problems),
            daemon=True,
        )
        grid.start()
        while grid.is_alive():
            grid.join(timeout=_PAUSE)
            yield from _stored(left, store)
        yield from _stored(left, store)
        tries += bool(problems)
        if problems and not (isinstance(problems[0], RayError) and tries < TRIES):
            if not isinstance(problems[0], RayError):
                raise problems[0]
            why = f"a process was killed {TRIES} times (is memory short?)"
            failed += [Failure(str(cell), why, is_lost=True) for cell in left.values()]
        given_up = {failure.task for failure in failed}
        left = {k: cell for k, cell in left.items() if str(cell) not in given_up}
        if left and not problems:
            on_wait(len(left))
            while left and not any(_is_free(key(cell), store) for cell in left.values()):
                time.sleep(_PAUSE)
                yield from _stored(left, store)


def _run_on_ray(
    cells: Sequence[Cell],
    run: Callable[[Cell], Record],
    store: Store,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int,
    failed: list[Failure],
    problems: list[BaseException],
) -> None:
    from joblib import Parallel, delayed

    try:
        pool = Parallel(n_jobs=n_jobs, backend="ray", batch_size=1)
        ended = pool(delayed(_run_and_store)(run, cell, store, key) for cell in cells)
        failed.extend(found for found in ended if isinstance(found, Failure))
    except BaseException as problem:
        problems.append(problem)


def _run_and_store(
    run: Callable[[Cell], Record], cell: Cell, store: Store, key: Callable[[Cell], dict[str, Any]]
) -> Failure | None:
    """In a worker that sees the store's file; a cell of another process is left to it."""
    with store.claimed(key(cell)) as is_ours:
        found = attempt(run, cell) if is_ours else None
        if isinstance(found, Failure):
            return found
        if found is not None:
            store.append(found)
    return None


def _is_free(key: Record, store: Store) -> bool:
    with store.claimed(key) as is_ours:
        return is_ours


@contextmanager
def _cluster(backend: Backend, n_jobs: int, address: str | None) -> Iterator[None]:
    """A cluster to work on, closed at the end. One that is started here is open to this machine
    alone."""
    if backend == "ray":
        with _ray(n_jobs, address):
            yield
        return
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError:
        raise ValueError(_missing(backend)) from None
    from joblib import parallel_config

    with ExitStack() as open_until_the_end:
        enter = open_until_the_end.enter_context
        if not address:
            local = LocalCluster(
                n_workers=n_jobs,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
            )
            address = enter(local).scheduler_address
        enter(Client(address))
        enter(parallel_config(backend="dask"))
        yield


_RAY_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Off, Ray takes the loopback address for that of this machine, as it does on macOS; otherwise it
listens on all interfaces, whatever address it is given. Read when Ray is imported."""


@contextmanager
def _ray(n_jobs: int, address: str | None) -> Iterator[None]:
    if not address:
        os.environ.setdefault(_RAY_CLUSTER, "0")
    try:
        import ray
        from ray.util import get_node_ip_address
        from ray.util.joblib import register_ray
    except ModuleNotFoundError:
        raise ValueError(_missing("ray")) from None
    if not address and get_node_ip_address() != LOOPBACK:
        raise ValueError(
            f"Ray would listen on all interfaces: set {_RAY_CLUSTER}=0, or give the --address of a "
            "cluster that is running"
        )
    options = {"address": address} if address else {"num_cpus": n_jobs}
    ray.init(**options, include_dashboard=False, log_to_driver=False)
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _missing(backend: str) -> str:
    return f"backend {backend!r} needs its package: pip install 'wordwave[cluster]'"
