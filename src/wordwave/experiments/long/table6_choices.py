"""What the paper leaves open of Transformer-XL, searched for each row with as many trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from wordwave.experiments.long.choices import Choices, changed, named
from wordwave.experiments.long.table6 import Table6
from wordwave.experiments.store import Record
from wordwave.tasks.lm_config import LmConfig

STEPS = 1000
SCORED = 100_000
"""Characters of the valid part that a choice is judged by."""
FIRST: dict[str, Any] = {
    "learning_rate": 0.00125,
    "warm_up": 0.05,
    "beta2": 0.999,
    "clip": 0.5,
    "dropout": 0.0,
    "n_heads": 4,
    "norm_first": True,
    "tied": True,
    "phase": False,
    "frequency_init": "sinusoidal",
    "frequency_range": None,
    "share_frequency": None,
    "readout": "concat",
    "score": "real",
}
"""What all rows have at first; waves are idle in all but complex-order."""
COMPLEX: dict[str, Any] = {
    "share": "none",
    "hidden_units": "complex",
    "dim": 88,
    "feed_forward_dim": 372,
}
SIZES: dict[str, dict[str, Any]] = {
    "transformer-xl": {"dim": 128, "feed_forward_dim": 512},
    "transformer-xl + rope": {"dim": 128, "feed_forward_dim": 576},
    "complex-vanilla": COMPLEX,
    "complex-order": COMPLEX | {"position": "relative", "wave_positions": "segment"},
}
"""What the layers of each row are at first; all sizes here have as many parameters."""
STILL: dict[str, Any] = {
    "phase": True,
    "frequency_init": "uniform",
    "frequency_range": (-0.003, 0.003),
}
"""Waves that hardly turn within a segment: what a character says is told by amplitude and phase."""
WIDER: dict[str, Any] = {"share": "real", "dim": 124, "feed_forward_dim": 504}
"""Real weights that act on both parts of complex numbers, and so may be more."""
REAL_UNITS: dict[str, Any] = {
    "share": "real",
    "hidden_units": "real",
    "dim": 104,
    "feed_forward_dim": 364,
}
"""Such weights in attention, and real units in feed-forward layers."""
WORDS: dict[str, Any] = REAL_UNITS | {"wave_positions": "word", "phase": True}
"""Waves that count within words, with phases, over the same layers."""
AFTER: dict[str, Any] = {"norm_first": False}
EIGHT: dict[str, Any] = {"n_heads": 8}
UNTIED: dict[str, Any] = {"tied": False}
RATES: dict[str, dict[str, Any]] = {
    f"rate {rate}": {"learning_rate": rate} for rate in (0.000625, 0.0025)
}
"""Of all rows, besides what they have at first."""
COMMON: dict[str, dict[str, Any]] = {
    "two heads": {"n_heads": 2},
    "eight heads": EIGHT,
    "norm after each sub-layer": AFTER,
    "predictions by vectors of their own": UNTIED,
    "dropout of a tenth": {"dropout": 0.1},
    "rate 0.0018": {"learning_rate": 0.0018},
    "beta2 of 0.98": {"beta2": 0.98},
    "warm-up of a tenth": {"warm_up": 0.1},
    "gradients of length 1": {"clip": 1.0},
}
REAL_ROWS: dict[str, dict[str, Any]] = COMMON | {
    "norm after, eight heads": AFTER | EIGHT,
    "norm after, own vectors": AFTER | UNTIED,
    "norm after, eight heads, own vectors": AFTER | EIGHT | UNTIED,
    "norm after, rate 0.0018": AFTER | {"learning_rate": 0.0018},
    "norm after, rate 0.0025": AFTER | {"learning_rate": 0.0025},
}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "transformer-xl": REAL_ROWS,
    "transformer-xl + rope": REAL_ROWS,
    "complex-vanilla": COMMON
    | {
        "real weights, wider": WIDER,
        "real weights and units": REAL_UNITS,
        "real weights and units, norm after": REAL_UNITS | AFTER,
        "real weights and units, norm after, eight heads": REAL_UNITS | AFTER | EIGHT,
        "real weights and units, norm after, eight heads, own vectors": REAL_UNITS
        | AFTER
        | EIGHT
        | UNTIED,
    },
    "complex-order": {
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
        **{
            f"positions within words, phases, real weights and units{name}": WORDS | changes
            for name, changes in {
                "": {},
                ", norm after": AFTER,
                ", norm after, eight heads": AFTER | EIGHT,
                ", norm after, eight heads, own vectors": AFTER | EIGHT | UNTIED,
            }.items()
        },
    },
}
"""What each changes of its row: as many for every row but transformer-xl + tpe, which shares the
settings of transformer-xl."""


@dataclass(frozen=True)
class Table6Choices(Choices, Table6):
    """As Table 6, with choices for rows."""

    title: ClassVar[str] = "What the paper leaves open of Transformer-XL"
    figure: ClassVar[str] = "valid_bpc"
    scored: ClassVar[tuple[str, ...]] = ("valid",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size != "small":
            raise ValueError(f"choices are for the size 'small', got {self.size!r}")

    def configs(self) -> dict[str, LmConfig]:
        found: dict[str, LmConfig] = {}
        rows = super().configs()
        for row in CHOICES:
            config = changed(rows[row], FIRST | SIZES[row])
            own = replace(
                config,
                data=replace(config.data, score_on=SCORED),
                model=replace(config.model, evaluation_memory=config.model.memory_length),
                training=replace(config.training, max_steps=self.steps or STEPS),
            )
            found[named(row)] = own
            for name, changes in {**RATES, **CHOICES[row]}.items():
                found[named(row, name)] = changed(own, changes)
        return found

    def notes(self, records: Sequence[Record]) -> list[str]:
        steps, n = records[0]["steps"], records[0]["valid_characters"]
        return [
            f"{steps:,} steps each on {self.data}, bits per character on {n:,} characters of the "
            "valid part, with the memory of training. Each choice changes its row as it was at "
            "first; the best of a row is what it has in Table 6."
        ]
