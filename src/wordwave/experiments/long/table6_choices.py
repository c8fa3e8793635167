"""What the paper leaves open of Transformer-XL with waves, a choice at a time; every row's rate.

Short trainings, judged by the valid part alone; figures of the test part are kept out of the
records.
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
WAVES = "complex-order"
SHIPPED = "as shipped"
RATES = (0.004, 0.008)
"""Learning rates that every row tries besides its own."""
CHOICES: dict[str, dict[str, Any]] = {
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
"""What each changes of the complex-order model."""


@dataclass(frozen=True)
class Table6Choices(Table6):
    """As Table 6, with choices for rows."""

    def configs(self) -> dict[str, LmConfig]:
        found: dict[str, LmConfig] = {}
        for row, config in super().configs().items():
            training = replace(config.training, max_steps=self.steps or STEPS)
            own = found[_named(row)] = replace(config, training=training)
            for rate in RATES:
                faster = replace(training, learning_rate=rate)
                found[_named(row, f"rate {rate}")] = replace(own, training=faster)
        waves = found[_named(WAVES)]
        for name, changes in CHOICES.items():
            found[_named(WAVES, name)] = replace(waves, model=replace(waves.model, **changes))
        return found

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


def _named(row: str, change: str = SHIPPED) -> str:
    return f"{row}: {change}"


def choices_grid(table: Table6Choices) -> Grid:
    """Bits per character on the valid part, the best first."""
    records = table.records()
    found: dict[str, list[float]] = {}
    for r in records:
        found.setdefault(r["row"], []).append(r["valid_bpc"])
    means = {row: fmean(values) for row, values in found.items()}
    rows: list[list[Content]] = []
    for row, mean in sorted(means.items(), key=lambda item: item[1]):
        shipped = _named(row.partition(":")[0])
        known = shipped in means and row != shipped
        gap = f"{mean - means[shipped]:+.4f}" if known else None
        rows.append([row, f"{mean:.4f}", gap, len(found[row])])
    notes = []
    if records:
        notes = [
            f"{records[0]['steps']:,} steps each on {table.data}, bits per character on "
            f"{records[0]['valid_characters']:,} characters of the valid part. Each choice changes "
            "one thing of a row as it is shipped."
        ]
    columns = ["choice", "valid", "to as shipped", "seeds"]
    return Grid("choices", "What the paper leaves open of Transformer-XL", columns, rows, notes)
