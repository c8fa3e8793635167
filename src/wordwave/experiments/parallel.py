"""Run many cells at once, one thread each, and keep every result as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from wordwave.experiments.store import Record, Store

Cell = TypeVar("Cell")


def run_missing(
    cells: Sequence[Cell],
    run: Callable[[Cell], Record],
    store: Store,
    *,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int = 2,
) -> Iterator[Record]:
    """Run the cells that the store lacks, append each record as it comes, and yield it.

    Whatever ends this loop early loses the cells in flight and nothing else.
    """
    from joblib import Parallel, delayed

    done = store.done()
    missing = [cell for cell in cells if store.key_of(key(cell)) not in done]
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    for record in pool(delayed(run)(cell) for cell in missing):
        store.append(record)
        yield record
