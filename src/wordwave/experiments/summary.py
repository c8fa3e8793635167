"""Records of runs, gathered by row and data set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from wordwave.experiments.store import Record

Row = tuple[str, str, str]
"""Encoder, embedding and variant."""
Scores = dict[tuple[int, int], float]
"""Test accuracy by fold and seed."""


@dataclass(frozen=True)
class Summary:
    """The runs under one set of terms.

    Of a row that was run with several settings on a data set, as recipes change, only the last
    ones in the store count: accuracies under different settings are never mixed.
    """

    runs: Mapping[tuple[Row, str], list[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record], terms: Record) -> Summary:
        """The records of kind "run" whose budget and search are those of `terms`."""
        runs: dict[tuple[Row, str], list[Record]] = {}
        for record in records:
            if record.get("kind") != "run" or any(record[k] != v for k, v in terms.items()):
                continue
            row = (record["encoder"], record["embedding"], record["variant"])
            runs.setdefault((row, record["dataset"]), []).append(record)
        return cls({place: _of_last_settings(same) for place, same in runs.items()})

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


def _of_last_settings(records: list[Record]) -> list[Record]:
    last = json.dumps(records[-1]["how"], sort_keys=True)
    return [r for r in records if json.dumps(r["how"], sort_keys=True) == last]
