"""Records of runs, gathered by row and data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from wordwave.experiments.cells import Cell
from wordwave.experiments.protocol import Protocol
from wordwave.experiments.store import Record

Row = tuple[str, str, str]
"""Encoder, embedding and variant."""
Scores = dict[tuple[int, int], float]
"""Test accuracy by fold and seed."""


@dataclass(frozen=True)
class Summary:
    """The runs that a protocol would make: none with other settings, whatever the store holds."""

    runs: Mapping[tuple[Row, str], list[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record], protocol: Protocol) -> Summary:
        """The records of kind "run" that were made under the protocol."""
        runs: dict[tuple[Row, str], list[Record]] = {}
        for record in records:
            if record.get("kind") == "run" and made_under(protocol, record):
                row = (record["encoder"], record["embedding"], record["variant"])
                runs.setdefault((row, record["dataset"]), []).append(record)
        return cls(runs)

    def scores(self, row: Row, dataset: str) -> Scores:
        return {
            (r["fold"], r["seed"]): r["test_accuracy"] for r in self.runs.get((row, dataset), [])
        }

    def mean(self, row: Row, dataset: str) -> float | None:
        found = self.scores(row, dataset)
        return fmean(found.values()) if found else None

    def common_means(self, one: Row, other: Row, dataset: str) -> tuple[float, float] | None:
        """The means of two rows over the folds and seeds that both have."""
        ours, theirs = self.scores(one, dataset), self.scores(other, dataset)
        both = ours.keys() & theirs.keys()
        if not both:
            return None
        return fmean(ours[k] for k in both), fmean(theirs[k] for k in both)

    def parameters(self, row: Row, dataset: str) -> float | None:
        """Mean over folds, whose vocabularies differ a little."""
        counts = [r["parameters"] for r in self.runs.get((row, dataset), []) if "parameters" in r]
        return fmean(counts) if counts else None

    @property
    def rows(self) -> list[Row]:
        return list(dict.fromkeys(row for row, _ in self.runs))

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(dataset for _, dataset in self.runs))


def made_under(protocol: Protocol, record: Record) -> bool:
    """Whether the protocol would make this very training."""
    cell = cell_of(record)
    return protocol.knows(cell) and all(
        record[name] == value for name, value in protocol.key(cell, record["kind"]).items()
    )


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    names = ("dataset", "encoder", "embedding", "variant", "fold", "seed")
    return Cell(*(record[name] for name in names))
