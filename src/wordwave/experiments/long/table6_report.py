"""What Table 6 found: means over seeds, and learning curves."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from wordwave.experiments.grid import Content, Grid
from wordwave.experiments.long.learning_curves import MINUTES, Panel, draw_curves
from wordwave.experiments.long.table6 import ROWS, Table6
from wordwave.experiments.store import Record

COLOURS = dict(zip(ROWS, ("#555555", "#2f9e66", "#9a6fd0", "#e0662f", "#2a6fdb"), strict=True))
PUBLISHED = {"transformer-xl": 1.29, "complex-vanilla": 1.30, "complex-order": 1.26}
"""The paper's figures: 6 layers of full size, the whole of text8."""
COLUMNS = ("row", "parameters", "steps", "seeds", "memory", "valid", "test", "±")


def table6_grid(table: Table6) -> Grid:
    """The rows at equal updates, and at equal time."""
    records = table.records()
    seconds = table.known_step_seconds()
    rows: list[list[Content]] = []
    for budget in table.budgets:
        rows.append([f"at equal {budget}"])
        steps = table.steps_of(budget)
        for row in ROWS:
            same = [r for r in records if (r["row"], _planned(r)) == (row, steps[row])]
            if same:
                rows.append(_cells(row, same, seconds.get(row)))
    notes = []
    if records:
        valid, test = records[0]["valid_characters"], records[0]["test_characters"]
        notes = [
            f"Bits per character on {table.data}: {valid:,} characters of the valid and {test:,} "
            "of the test part, with the memory that valid preferred; ±: standard deviation over "
            "seeds. Core minutes: steps times the CPU seconds of a step, measured in turns where "
            "rows were timed together.",
            "Of the size small each row has the settings that were best for it of as many short "
            "trainings, by the valid part (--choices); transformer-xl + tpe has those of "
            "transformer-xl, and the positions of complex-order.",
            "The paper's figures are of its full size on the official test part and compare with "
            "ours only in their order.",
        ]
    title = "Table 6. Transformer-XL, real and with waves"
    hidden = frozenset({"seeds", "memory"})
    return Grid("table6", title, [*COLUMNS, MINUTES, "paper"], rows, notes, only_in_files=hidden)


def _planned(record: Record) -> int:
    steps: int = record["config"]["training"]["max_steps"]
    return steps


def _cells(row: str, same: list[Record], step_seconds: float | None) -> list[Content]:
    test = [r["test_bpc"] for r in same]
    return [
        row,
        same[0]["parameters"],
        same[0]["steps"],
        len(same),
        " ".join(map(str, sorted({r["memory"] for r in same}))),
        f"{fmean(r['valid_bpc'] for r in same):.4f}",
        f"{fmean(test):.4f}",
        f"{stdev(test):.4f}" if len(test) > 1 else None,
        None if step_seconds is None else f"{same[0]['steps'] * step_seconds / 60:.1f}",
        f"{PUBLISHED[row]:.2f}" if row in PUBLISHED else None,
    ]


def draw_table6(table: Table6) -> list[Path]:
    """Bits per character on the valid part, over steps and over minutes."""
    label = "bits per character, valid part"
    seconds = table.known_step_seconds()
    panels = [Panel(lambda point: point["bpc"], label, over) for over in (None, seconds)]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table6")
