"""Run many cells at once, one thread each, and keep every result as it comes.

On this machine by default, or on a Ray or Dask cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias, TypeVar

from wordwave.experiments.clusters import Dask, Ray
from wordwave.experiments.store import Key, Record, Store
from wordwave.experiments.workers import Failure, Here, Workers

Cell = TypeVar("Cell")
Backend = Literal["local", "ray", "dask"]
Runner: TypeAlias = (
    Here[Cell, Record] | Workers[Cell, Record] | Ray[Cell, Record] | Dask[Cell, Record]
)

MOST_CELLS = 100_000
"""Of one command: more would take longer to list than anybody waits."""
MOST_JOBS = 1024

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
        backend: who computes.
        address: of a cluster that is running; by default one is started here, with n_jobs workers.
        claims: leave what another process is at to it; without them, `run` must know how to share
            its work.
        on_wait: is told how many cells are left when all of them are other processes'.
    """
    store.clean()
    done = store.done()
    missing = {k: cell for cell in cells if (k := store.key_of(key(cell))) not in done}
    if not missing:
        return
    left, claimed, has_told = dict(missing), dict[Key, ExitStack](), False
    failed: list[Failure] = []
    runner = _runner(backend, run, n_jobs, address)
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


def _runner(
    backend: Backend, run: Callable[[Cell], Record], n: int, address: str | None
) -> Runner[Cell]:
    if backend == "ray":
        return Ray(run, n, address)
    if backend == "dask":
        return Dask(run, n, address)
    return Here(run) if n == 1 else Workers(run, n)
