"""Hyperparameter search: the same number of trials for every row, on fold 0's validation set.

A validation set of some hundred examples cannot distinguish all trials. So each row uses, among its
trials within one standard error of its best, the settings with the best mean over the paper's five
embeddings: rows then seldom differ by the luck of a search.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.cells import TrainingCell
from experiments.protocol import (
    SEARCH_EPOCHS,
    SEARCH_SUFFIXES,
    Protocol,
    SearchConfig,
    SearchKey,
    load_cell_splits,
)
from experiments.records import provenance
from wordwave.config_io import with_settings
from wordwave.embedding.config import PAPER_EMBEDDINGS
from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.grid import Record, Store
    from wordwave.search.trials import SearchPlan


def search_cells(cells: Iterable[TrainingCell], search: SearchConfig) -> list[TrainingCell]:
    """One cell for each search that the cells need; variants use that of their embedding."""
    keys = (
        search.key(replace(cell, embedding=embedding))
        for cell in cells
        if not cell.is_anchor
        for embedding in (*PAPER_EMBEDDINGS, cell.embedding)
    )
    return [TrainingCell(*key) for key in dict.fromkeys(keys)]


def search_key(protocol: Protocol, cell: TrainingCell) -> Record:
    """What identifies the record of a search: the recipe it starts from, and its extent."""
    recipe = protocol.without_search().key(cell, kind="search")
    return {**recipe, "search": protocol.common_key()["search"]}


def with_best_settings(protocol: Protocol, store: Store) -> Protocol:
    """The protocol with the results of all searches that are finished."""
    if protocol.search is None:
        return protocol
    records = {store.key_of(r): r for r in store.records() if r.get("kind") == "search"}

    def search(cell: TrainingCell, embedding: str) -> Record | None:
        key = search_key(protocol, replace(cell, embedding=embedding))
        return records.get(store.key_of(key))

    found: dict[SearchKey, Record] = {}
    for r in records.values():
        cell = TrainingCell(r["dataset"], r["encoder"], r["embedding"])
        if not protocol.without_search().covers(cell):
            continue
        own = search(cell, cell.embedding)
        rows = [search(cell, embedding) for embedding in PAPER_EMBEDDINGS]
        if own is not None and None not in rows:
            key = (cell.dataset, cell.encoder, cell.embedding)
            found[key] = select_settings(own, [row for row in rows if row is not None])
    return replace(protocol, best_settings=found)


def select_settings(own: Record, rows: list[Record]) -> Record:
    """Among a row's trials within one standard error of its best, the best on average of all."""
    best = max(trial["dev_accuracy"] for trial in own["trials"])
    error = sqrt(best * (1 - best) / own["n_dev"])
    near = [trial for trial in own["trials"] if trial["dev_accuracy"] >= best - error]

    def quality(trial: Record) -> tuple[float, float]:
        same = [t for row in rows for t in row["trials"] if t["settings"] == trial["settings"]]
        tried_by_all = len(same) == len(rows)
        mean = fmean(t["dev_accuracy"] for t in same) if tried_by_all else 0.0
        return mean, trial["dev_accuracy"]

    settings: Record = max(near, key=quality)["settings"]
    return settings


@dataclass(frozen=True)
class SearchRun:
    """Runs the whole search of a cell in a worker process, and returns its record."""

    protocol: Protocol
    folder: Path

    def key(self, cell: TrainingCell) -> Record:
        return search_key(self.protocol, cell)

    def __call__(self, cell: TrainingCell) -> Record:
        import torch

        torch.set_num_threads(1)
        plan = self._plan(cell)
        for _ in plan.grid.run_missing(1):
            pass
        return self._record(cell, plan)

    def _plan(self, cell: TrainingCell) -> SearchPlan:
        """The search of a cell; it has no test set."""
        from wordwave.search.trials import SearchPlan

        assert self.protocol.search is not None
        trials, space = self.protocol.search.trials, self.protocol.search.space
        quick = "-quick" if self.protocol.budget == "quick" else ""
        # A search with more trials continues the one that is there.
        suffix = SEARCH_SUFFIXES[self.protocol.version]
        name = f"{cell.dataset}-{cell.encoder}-{cell.embedding}{quick}-{space}{suffix}"
        config = self.protocol.without_search().config(cell)
        if space == "table" and config.training.epochs:
            epochs = max(round(SEARCH_EPOCHS * config.training.epochs), 2)
            config = with_settings(config, epochs=epochs)
        splits = replace(load_cell_splits(cell.dataset), test=None)
        return SearchPlan(config, space, splits, self.folder / name, trials)

    def _record(self, cell: TrainingCell, plan: SearchPlan) -> Record:
        """The trials of a finished search; the folder may hold more than this protocol has."""
        from wordwave.config_io import nested
        from wordwave.search.trials import dev_score
        from wordwave.tasks.config import ClassificationConfig

        trials = [
            {"settings": nested(ClassificationConfig, r["params"]), "dev_accuracy": dev_score(r)}
            for r in plan.results()
            if r["trial"] <= plan.total and not r["stopped"]
        ]
        if not trials:
            raise WordwaveError(f"no trial of the search in '{plan.folder}' was completed")
        assert plan.parts.dev is not None
        return {
            **self.key(cell),
            "trials": trials,
            "n_dev": len(plan.parts.dev),
            **provenance(),
        }
