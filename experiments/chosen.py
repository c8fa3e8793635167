"""The same number of search trials for every row, on fold 0's dev part, and what they choose.

A dev part of some hundred examples cannot tell every two trials apart. So a row takes, of its
trials within a standard error of its best, the settings that suit the paper's five embeddings best
on average: what differs between rows is then seldom the luck of a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.cells import Cell
from experiments.protocol import Protocol, SearchTerms, commit, parts_of, versions
from wordwave.errors import WordwaveError
from wordwave.models.config import PAPER_EMBEDDINGS

if TYPE_CHECKING:
    from wordwave.grid import Record, Store
    from wordwave.search.space import Setting
    from wordwave.search.trials import Search


Place = tuple[str, str, str]
"""Data set, encoder and embedding."""


def searched_cells(cells: Iterable[Cell], terms: SearchTerms) -> list[Cell]:
    """One for each search that the cells need; variants go by the settings of their embedding."""
    needed = (own for cell in cells if not cell.is_anchor for own in _needed(cell))
    return [Cell(*place) for place in dict.fromkeys(map(terms.place, needed))]


def _needed(cell: Cell) -> Iterator[Cell]:
    yield from (replace(cell, embedding=kind) for kind in PAPER_EMBEDDINGS)
    yield cell


def search_key(protocol: Protocol, cell: Cell) -> Record:
    """What identifies the record of a search: the recipe it starts from, and its terms."""
    return {**protocol.unsearched().key(cell, kind="search"), "search": protocol.terms()["search"]}


def chosen_in(store: Store, protocol: Protocol, cells: Iterable[Cell]) -> dict[Place, Record]:
    """What finished searches choose for each cell, where all that its choice needs are finished."""
    records = {store.key_of(r): r for r in store.records() if r.get("kind") == "search"}

    def search(cell: Cell) -> Record | None:
        return records.get(store.key_of(search_key(protocol, cell)))

    chosen = {}
    for cell in cells:
        own = search(cell)
        rows = [search(replace(cell, embedding=kind)) for kind in PAPER_EMBEDDINGS]
        if own is not None and None not in rows:
            place = (cell.dataset, cell.encoder, cell.embedding)
            chosen[place] = choice(own, [row for row in rows if row is not None])
    return chosen


def with_choices(protocol: Protocol, store: Store) -> Protocol:
    """The protocol with all that its finished searches choose."""
    if protocol.search is None:
        return protocol
    searches = [r for r in store.records() if r.get("kind") == "search"]
    cells = [Cell(r["dataset"], r["encoder"], r["embedding"]) for r in searches]
    known = [cell for cell in cells if protocol.unsearched().knows(cell)]
    return replace(protocol, chosen=chosen_in(store, protocol, known))


def choice(own: Record, rows: list[Record]) -> Record:
    """Of the trials that a row's dev part cannot tell from its best, the best of all rows."""
    best = max(trial["dev_accuracy"] for trial in own["trials"])
    error = sqrt(best * (1 - best) / own["n_dev"])
    near = [trial for trial in own["trials"] if trial["dev_accuracy"] >= best - error]

    def suits(trial: Record) -> tuple[float, float]:
        same = [t for row in rows for t in row["trials"] if t["settings"] == trial["settings"]]
        tried_by_all = len(same) == len(rows)
        mean = fmean(t["dev_accuracy"] for t in same) if tried_by_all else 0.0
        return mean, trial["dev_accuracy"]

    settings: Record = max(near, key=suits)["settings"]
    return settings


@dataclass(frozen=True)
class SearchRun:
    """What a worker is given: makes the whole search for any cell, and its record."""

    protocol: Protocol
    folder: Path

    def key(self, cell: Cell) -> Record:
        return search_key(self.protocol, cell)

    def __call__(self, cell: Cell) -> Record:
        import torch

        from wordwave.search.trials import work

        torch.set_num_threads(1)
        search = search_of(self.protocol, cell, self.folder)
        work(search)
        return search_record(self.protocol, cell, search)


def search_of(protocol: Protocol, cell: Cell, folder: Path) -> Search:
    """The search for a cell's settings; it is given no test part."""
    from wordwave.search.trials import Search

    assert protocol.search is not None
    parts = replace(parts_of(cell.dataset), test=None)
    config = protocol.unsearched().config(cell)
    name = f"{cell.dataset}-{cell.encoder}-{cell.embedding}"
    if protocol.budget == "quick":
        name += "-quick"
    place = folder / f"{name}-{protocol.search.pool}"  # more trials add to those that are there
    return Search(config, protocol.search.pool, parts, place, protocol.search.trials)


def search_record(protocol: Protocol, cell: Cell, search: Search) -> Record:
    """The trials of a finished search; the folder may hold more than were asked for."""
    asked_for = [t for t in search.open().finished() if t.user_attrs["slot"] < search.total]
    trials = [
        {"settings": by_part(search.varied, trial.params), "dev_accuracy": trial.value}
        for trial in asked_for
        if trial.state.name == "COMPLETE"
    ]
    if not trials:
        raise WordwaveError(f"no trial of the search in '{search.folder}' came to an end")
    assert search.parts.dev is not None
    return {
        **search_key(protocol, cell),
        "trials": trials,
        "n_dev": len(search.parts.dev),
        "versions": versions(),
        "commit": commit(),
    }


def by_part(varied: Iterable[Setting], values: Mapping[str, object]) -> Record:
    """Settings as a config has them."""
    settings: Record = {}
    for setting in varied:
        settings.setdefault(setting.part, {})[setting.name] = values[setting.name]
    return settings
