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
COMPLEX_WEIGHTS: dict[str, Any] = {"share": "none", "dim": 88, "feed_forward_dim": 372}
PAPER_WAVES: dict[str, Any] = {
    "phase": False,
    "frequency_init": "sinusoidal",
    "frequency_range": None,
}
"""What the complex rows had at first; waves are idle in all rows but complex-order."""
STILL: dict[str, Any] = {
    "phase": True,
    "frequency_init": "uniform",
    "frequency_range": (-0.003, 0.003),
}
"""Waves that hardly turn within a segment: what a character says is told by amplitude and phase."""
WIDER: dict[str, Any] = {"share": "real", "dim": 124, "feed_forward_dim": 504}
"""Real weights that act on both parts of complex numbers, and so may be more."""
CHOICES: dict[str, dict[str, Any]] = {
    "positions running through the text": {"wave_positions": "running"},
    "scores by magnitude": {"score": "magnitude"},
    "read-out by magnitude": {"readout": "magnitude"},
    "one frequency a dimension": {"share_frequency": "word"},
    "slow waves": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
    "initial phases": {"phase": True},
    "almost still waves with phases": STILL,
    "almost still waves with phases, read out by magnitude": STILL | {"readout": "magnitude"},
    "almost still waves with phases, real weights, wider": STILL | WIDER,
    "no relative terms": {"position": "none"},
}
"""What each changes of the complex-order model."""


@dataclass(frozen=True)
class Table6Choices(Choices, Table6):
    """As Table 6, with choices for rows."""

    title: ClassVar[str] = "What the paper leaves open of Transformer-XL"
    figure: ClassVar[str] = "valid_bpc"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size != "small":
            raise ValueError(f"choices are for the size 'small', got {self.size!r}")

    def configs(self) -> dict[str, LmConfig]:
        found: dict[str, LmConfig] = {}
        for row, config in super().configs().items():
            config = changed(config, PAPER_WAVES)
            if config.model.embedding != "none":
                config = changed(config, COMPLEX_WEIGHTS)
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
            "valid part, with the memory of training. Each choice changes its row as it was at "
            "first; the best one of complex-order is what lm-small-complex has."
        ]
