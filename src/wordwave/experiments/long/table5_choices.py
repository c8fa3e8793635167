"""What might help the waves of a translation model, and what helps every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from wordwave.experiments.long.choices import Choices, changed, named
from wordwave.experiments.long.long_table import LongCell
from wordwave.experiments.long.table5 import Table5
from wordwave.experiments.store import Record
from wordwave.tasks.translate_config import TranslateConfig

STEPS = 800
WAVES, CHOSEN = "complex-order", "complex-order, chosen"
SLOWER: dict[str, Any] = {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.01)}
FULL_RATE: dict[str, Any] = {"frequency_rate": 1.0}
WIDER: dict[str, Any] = {"share": "real", "dim": 96, "feed_forward_dim": 144}
"""Real weights that act on both parts of complex numbers, and so may be more."""
CHOICES: dict[str, dict[str, Any]] = {
    "slow waves": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
    "slower waves": SLOWER,
    "frequencies as they start": {"freeze_frequency": True},
    "frequencies at the full rate": FULL_RATE,
    "slower waves, real weights, wider": SLOWER | WIDER,
    "frequencies at the full rate, real weights, wider": FULL_RATE | WIDER,
    "slower waves at the full rate, real weights, wider": SLOWER | FULL_RATE | WIDER,
}
"""What each changes of the complex-order model or of its training."""


@dataclass(frozen=True)
class Table5Choices(Choices, Table5):
    """As Table 5, with choices for rows; the test part is not even translated."""

    title: ClassVar[str] = "What might help the waves of a translation model"
    figure: ClassVar[str] = "dev_surprise"

    def configs(self) -> dict[str, TranslateConfig]:
        found: dict[str, TranslateConfig] = {}
        for row in self.rows:
            if row == CHOSEN:
                continue  # one of the choices
            config = self.config(row)
            training = replace(config.training, max_steps=self.steps or STEPS)
            found[named(row)] = replace(config, training=training)
        waves = found.get(named(WAVES))
        if waves is not None:
            found |= {named(WAVES, name): changed(waves, c) for name, c in CHOICES.items()}
        return found

    def train(self, cell: LongCell) -> Record:
        from wordwave.tasks.translate_config import load_pairs

        pairs = replace(load_pairs(cell.config.data), test=None)
        record = self.trained(cell, pairs)
        return {**record, "dev_surprise": -record["dev_likelihood"]}

    def notes(self, records: Sequence[Record]) -> list[str]:
        return [
            f"{records[0]['steps']:,} steps each on {self.data}, mean −log-probability of a piece "
            "of dev. Each choice changes its row as it was at first."
        ]
