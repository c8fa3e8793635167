"""The same number of search trials for every row, on fold 0's dev part; what they chose is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wordwave.experiments.cells import Cell
from wordwave.experiments.protocol import Protocol, SearchTerms, parts_of
from wordwave.experiments.provenance import commit, versions

if TYPE_CHECKING:
    from wordwave.experiments.search import Search
    from wordwave.experiments.store import Record, Store

Place = tuple[str, str, str]
"""Data set, encoder and embedding."""


def searched_cells(cells: Iterable[Cell], terms: SearchTerms) -> list[Cell]:
    """One for each search that the cells need; variants go by the settings of their embedding."""
    needed = (own for cell in cells if not cell.is_anchor for own in _needed(cell))
    return [Cell(*place) for place in dict.fromkeys(map(terms.place, needed))]


def _needed(cell: Cell) -> Iterator[Cell]:
    yield cell
    if cell.variant == "matched":  # it is made as large as this one
        yield replace(cell, embedding="complex-order")


def search_key(protocol: Protocol, cell: Cell) -> Record:
    """What identifies the record of a search: the recipe it starts from, and its terms."""
    return {**protocol.unsearched().key(cell, kind="search"), "search": protocol.terms()["search"]}


def chosen_in(store: Store, protocol: Protocol, cells: Iterable[Cell]) -> dict[Place, Record]:
    """What finished searches chose, for the cells that have one."""
    found = {store.key_of(r): r for r in store.records() if r.get("kind") == "search"}
    chosen = {}
    for cell in cells:
        record = found.get(store.key_of(search_key(protocol, cell)))
        if record is not None:
            chosen[cell.dataset, cell.encoder, cell.embedding] = record["chosen"]
    return chosen


@dataclass(frozen=True)
class SearchRun:
    """What a worker is given: makes the whole search for any cell, and its record."""

    protocol: Protocol
    folder: Path

    def key(self, cell: Cell) -> Record:
        return search_key(self.protocol, cell)

    def __call__(self, cell: Cell) -> Record:
        import torch

        from wordwave.experiments.search import work

        torch.set_num_threads(1)
        search = search_of(self.protocol, cell, self.folder)
        work(search)
        return search_record(self.protocol, cell, search)


def search_of(protocol: Protocol, cell: Cell, folder: Path) -> Search:
    """The search for a cell's settings; it is given no test part."""
    from wordwave.experiments.search import Search

    assert protocol.search is not None
    parts = replace(parts_of(cell.dataset), test=None)
    config = protocol.unsearched().config(cell)
    name = f"{cell.dataset}-{cell.encoder}-{cell.embedding}"
    if protocol.budget == "quick":
        name += "-quick"
    place = folder / f"{name}-{protocol.search.pool}"  # more trials add to those that are there
    return Search(config, protocol.search.pool, parts, place, protocol.search.trials)


def search_record(protocol: Protocol, cell: Cell, search: Search) -> Record:
    """What a finished search chose, as a record."""
    shared = search.open()
    ranked = shared.ranked()
    if not ranked:
        raise ValueError(f"no trial of the search in '{search.folder}' came to an end")
    best = ranked[0]
    chosen: dict[str, Record] = {}
    for setting in search.varied:
        chosen.setdefault(setting.part, {})[setting.name] = best.params[setting.name]
    return {
        **search_key(protocol, cell),
        "chosen": chosen,
        "dev_accuracy": best.value,
        "n_trials": len(shared.finished()),
        "versions": versions(),
        "commit": commit(),
    }
