"""What the paper leaves open of Transformer-XL with waves, and the learning rate of every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from wordwave.experiments.long.choices import Choices, changed, named
from wordwave.experiments.long.long_table import LongCell
from wordwave.experiments.long.table6 import Table6
from wordwave.experiments.store import Record
from wordwave.tasks.lm_config import LmConfig

STEPS = 1000
WAVES = "complex-order"
SCORED = 100_000
"""Characters of the valid part that a choice is judged by."""
RATES = (0.000625, 0.0025)
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
class Table6Choices(Choices, Table6):
    """As Table 6, with choices for rows."""

    title: ClassVar[str] = "What the paper leaves open of Transformer-XL"
    figure: ClassVar[str] = "valid_bpc"

    def configs(self) -> dict[str, LmConfig]:
        found: dict[str, LmConfig] = {}
        for row, config in super().configs().items():
            own = found[named(row)] = replace(
                config,
                data=replace(config.data, score_on=SCORED),
                model=replace(config.model, evaluation_memory=config.model.memory_length),
                training=replace(config.training, max_steps=self.steps or STEPS),
            )
            for rate in RATES:
                found[named(row, f"rate {rate}")] = changed(own, {"learning_rate": rate})
        waves = found[named(WAVES)]
        return found | {named(WAVES, name): changed(waves, c) for name, c in CHOICES.items()}

    def train(self, cell: LongCell) -> Record:
        record = super().train(cell)
        return {name: value for name, value in record.items() if not name.startswith("test_")}

    def notes(self, records: Sequence[Record]) -> list[str]:
        steps, n = records[0]["steps"], records[0]["valid_characters"]
        return [
            f"{steps:,} steps each on {self.data}, bits per character on {n:,} characters of the "
            "valid part, with the memory of training. Each choice changes one thing of a row as it "
            "is shipped."
        ]
