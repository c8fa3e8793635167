"""The runs of a protocol, as the tables of classifiers use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from experiments.cells import cell_of
from experiments.protocol import Protocol
from experiments.statistics import Correct, unpack_bits
from wordwave.grid import Record

Row = tuple[str, str, str]
"""Encoder, embedding and variant."""


@dataclass(frozen=True)
class Summary:
    """The runs that a protocol describes; records with other settings are left out."""

    runs: Mapping[tuple[Row, str], list[Record]] = field(default_factory=dict)
    """By row and data set."""

    @classmethod
    def of(cls, records: Iterable[Record], protocol: Protocol) -> Summary:
        """The records of kind "run" that belong to the protocol."""
        runs: dict[tuple[Row, str], list[Record]] = {}
        for record in records:
            if record.get("kind") == "run" and belongs_to(protocol, record):
                row = (record["encoder"], record["embedding"], record["variant"])
                runs.setdefault((row, record["dataset"]), []).append(record)
        return cls(runs)

    def accuracies(self, row: Row, dataset: str) -> dict[tuple[int, int], float]:
        """Test accuracy by fold and seed."""
        return {
            (r["fold"], r["seed"]): r["test_accuracy"] for r in self.runs.get((row, dataset), [])
        }

    def correct(self, row: Row, dataset: str) -> Correct:
        """Which test examples were classified correctly, for the runs that recorded it."""
        return {
            (r["fold"], r["seed"]): unpack_bits(r["correct"], r["n_test"])
            for r in self.runs.get((row, dataset), [])
            if "correct" in r
        }

    def mean(self, row: Row, dataset: str) -> float | None:
        """Mean test accuracy."""
        found = self.accuracies(row, dataset)
        return fmean(found.values()) if found else None

    def common_means(self, rows: Sequence[Row], dataset: str) -> list[float] | None:
        """The mean of each row over the folds and seeds that all of them have."""
        accuracies = [self.accuracies(row, dataset) for row in rows]
        common = set.intersection(*map(set, accuracies)) if accuracies else set()
        if not common:
            return None
        return [fmean(own[k] for k in sorted(common)) for own in accuracies]

    def dev_mean(self, row: Row, dataset: str) -> float:
        """Mean accuracy on the validation set, for selection; 0 for a row without runs."""
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


def belongs_to(protocol: Protocol, record: Record) -> bool:
    """Whether the protocol describes exactly this training."""
    cell = cell_of(record)
    return protocol.covers(cell) and all(
        record[name] == value for name, value in protocol.key(cell, record["kind"]).items()
    )


def file_name(table: str, protocol: Protocol) -> str:
    """The name of a table's files, without the ending."""
    quick = "-quick" if protocol.budget == "quick" else ""
    search = ""
    if protocol.search is not None:
        search = f"-search{protocol.search.trials}"
        search += "" if protocol.search.space == "narrow" else f"-{protocol.search.space}"
        search += f"-on-{protocol.search.on}" if protocol.search.on else ""
    return f"{table}{quick}{search}"


def protocol_notes(protocol: Protocol) -> list[str]:
    """Where hyperparameters come from, and whether it is the quick version."""
    if protocol.search is None:
        notes = ["Hyperparameters: the recipes, the same for every embedding; no search."]
    else:
        search = protocol.search
        where = f"on {search.on}, for all data sets" if search.on else "on each data set's fold 0"
        if search.on == "similar":
            where = "on fold 0 of MR (for CR and SST-2 too), SUBJ, MPQA and TREC"
        rule = (
            "among trials within one standard error of the best, the one with the best mean over "
            "the five embeddings"
        )
        if search.space == "table":
            rule = "what only some rows have is searched within the same number of trials"
        notes = [
            f"Hyperparameters: the best of {search.trials} trials for each encoder and embedding, "
            f"search space “{search.space}”, by validation accuracy {where}, fixed for all folds "
            f"and seeds; {rule}. Parameter-matched rows and variants use those of "
            "their embedding; anchors have their own."
        ]
    if protocol.budget == "quick":
        notes.append(
            "QUICK: 1 fold, 1 seed, few epochs, SST-2 trained on whole sentences. It shows that "
            "everything runs, not how good a row is."
        )
    return notes
