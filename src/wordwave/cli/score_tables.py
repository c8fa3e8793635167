"""Figures of a classifier as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from wordwave.tasks.scores import Scores

MOST_COLUMNS = 12
MOST_CONFUSIONS = 15


def class_table(scores: Scores) -> Table:
    """How good each class is told."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("class")
    for name in ("examples", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    for label, one in zip(scores.labels, scores.classes, strict=True):
        figures = (f"{x:.4f}" for x in (one.precision, one.recall, one.f1))
        table.add_row(Text(label), f"{one.n:,}", *figures)
    return table


def confusion_table(scores: Scores) -> Table:
    """Rows are the true classes, columns the predicted ones; of many classes, the worst pairs."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if len(scores.labels) <= MOST_COLUMNS:
        table = Table(title="true ↓ predicted →", box=box.SIMPLE_HEAD)
        table.add_column("")
        for label in scores.labels:
            table.add_column(Text(label), justify="right")
        for label, row in zip(scores.labels, scores.confusion, strict=True):
            table.add_row(Text(label), *(f"{n:,}" if n else "·" for n in row))
        return table
    table = Table("true", "predicted", title="most frequent confusions", box=box.SIMPLE_HEAD)
    table.add_column("examples", justify="right")
    taken = [
        (n, true, said)
        for i, true in enumerate(scores.labels)
        for j, said in enumerate(scores.labels)
        if i != j and (n := scores.confusion[i][j])
    ]
    for n, true, said in sorted(taken, key=lambda c: -c[0])[:MOST_CONFUSIONS]:
        table.add_row(Text(true), Text(said), f"{n:,}")
    return table
