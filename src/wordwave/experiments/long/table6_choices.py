"""What the paper leaves open of Transformer-XL with waves, a choice at a time.

Short trainings of the complex-order row, judged by the valid part alone; figures of the test part
are kept out of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wordwave.experiments.grid import Content, Grid
from wordwave.experiments.long.long_table import LongCell
from wordwave.experiments.long.table6 import Table6
from wordwave.tasks.lm_config import LmConfig

if TYPE_CHECKING:
    from wordwave.experiments.store import Record

STEPS = 1000
CHOICES: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "positions running through the text": {"wave_positions": "running"},
    "scores by magnitude": {"score": "magnitude"},
    "read-out by magnitude": {"readout": "magnitude"},
    "one frequency a dimension": {"share_frequency": "word"},
    "slow waves": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
    "initial phases": {"phase": True},
    "almost still waves with phases": {
        "phase": True,
        "frequency_init": "uniform",
        "frequency_range": (-0.003, 0.003),
    },
    "no relative terms": {"position": "none"},
}
"""What each changes of the model."""


@dataclass(frozen=True)
class Table6Choices(Table6):
    """As Table 6, with choices for rows."""

    def configs(self) -> dict[str, LmConfig]:
        shipped = super().configs()["complex-order"]
        training = replace(shipped.training, max_steps=self.steps or STEPS)
        return {
            name: replace(shipped, model=replace(shipped.model, **changes), training=training)
            for name, changes in CHOICES.items()
        }

    def cells(self) -> list[LongCell]:
        """All trainings, each once."""
        return [
            LongCell(row, seed, replace(config, training=replace(config.training, seed=seed)))
            for seed in range(self.seeds)
            for row, config in self.configs().items()
        ]

    def train(self, cell: LongCell) -> Record:
        record = super().train(cell)
        return {name: value for name, value in record.items() if not name.startswith("test_")}


def choices_grid(table: Table6Choices) -> Grid:
    """Bits per character on the valid part, the best first."""
    records = table.records()
    found: dict[str, list[float]] = {}
    for r in records:
        found.setdefault(r["row"], []).append(r["valid_bpc"])
    means = {row: fmean(values) for row, values in found.items()}
    shipped = means.get("as shipped")
    rows: list[list[Content]] = []
    for row, mean in sorted(means.items(), key=lambda item: item[1]):
        gap = None if shipped is None or row == "as shipped" else f"{mean - shipped:+.4f}"
        rows.append([row, f"{mean:.4f}", gap, len(found[row])])
    notes = []
    if records:
        notes = [
            f"{records[0]['steps']:,} steps each on {table.data}, bits per character on "
            f"{records[0]['valid_characters']:,} characters of the valid part. Each row changes "
            "one thing of the shipped complex-order model."
        ]
    columns = ["choice", "valid", "to as shipped", "seeds"]
    return Grid("choices", "What the paper leaves open of Transformer-XL", columns, rows, notes)
