"""The numbers of the paper's tables, as printed."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
SENTIMENT_WORDS = (28, 4)
"""Words that Table 7 sets in bold, by hand, among the 50 of greatest and of smallest δ."""


@cache
def accuracies(table: str) -> dict[tuple[str, str, str], float]:
    """Accuracy by model, embedding and data set, of "table2" or "table3"."""
    return {
        (row["model"], row["embedding"], row["dataset"]): float(row["accuracy"])
        for row in _rows("accuracy.csv")
        if row["table"] == table
    }


def accuracy(encoder: str, embedding: str, variant: str, dataset: str) -> float | None:
    """The accuracy of a cell of Table 2; `None` for rows that it does not have."""
    if variant != "paper":
        return None
    return accuracies("table2").get((encoder, embedding, dataset.removesuffix("-sentences")))


@cache
def ablation() -> dict[tuple[str, str], tuple[float, float]]:
    """Table 4: accuracy and millions of parameters by embedding and variant, in its order."""
    return {
        (row["embedding"], row["variant"]): (
            float(row["accuracy"]),
            float(row["parameters_millions"]),
        )
        for row in _rows("ablation.csv")
    }


@cache
def datasets() -> dict[str, dict[str, str]]:
    """Table 1: sizes as printed, by data set."""
    return {row["dataset"]: row for row in _rows("datasets.csv")}


def reported(table: str) -> dict[str, str]:
    """The starred rows of "table5" or "table6", which the paper took from others."""
    return {row["model"]: row["value"] for row in _rows("reported.csv") if row["table"] == table}


def sensitive_words(side: str) -> list[str]:
    """Table 7: the words of "greatest" or "smallest" δ."""
    return [row["word"] for row in _rows("words.csv") if row["delta"] == side]


def _rows(file: str) -> list[dict[str, str]]:
    with (FOLDER / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
