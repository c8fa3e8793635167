"""Records of runs, gathered by row and data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from wordwave.experiments.answers import Answers, unpacked
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

    def answers(self, row: Row, dataset: str) -> Answers:
        """Which test examples were answered right, of runs that kept it."""
        return {
            (r["fold"], r["seed"]): unpacked(r["right"], r["n_test"])
            for r in self.runs.get((row, dataset), [])
            if "right" in r
        }

    def mean(self, row: Row, dataset: str) -> float | None:
        found = self.scores(row, dataset)
        return fmean(found.values()) if found else None

    def common_means(self, rows: Sequence[Row], dataset: str) -> list[float] | None:
        """The mean of each row over the folds and seeds that all of them have."""
        scores = [self.scores(row, dataset) for row in rows]
        common = set.intersection(*map(set, scores)) if scores else set()
        if not common:
            return None
        return [fmean(own[k] for k in sorted(common)) for own in scores]

    def dev_mean(self, row: Row, dataset: str) -> float:
        """Mean accuracy on dev, to choose by; 0 for a row without runs."""
        found = [r["dev_accuracy"] for r in self.runs.get((row, dataset), [])]
        return fmean(found) if found else 0.0

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
