"""`table5 --choices`, `table6 --choices`: short trainings, each with some settings changed.

They decided the hyperparameters of Tables 5 and 6. Only the validation set is evaluated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from experiments.long_table import LongCell, LongTable
from experiments.table5 import CPU, Table5
from experiments.table6 import Table6
from wordwave.config_io import with_settings
from wordwave.errors import WordwaveError
from wordwave.grid import Record
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import LanguageModelConfig, TranslationConfig

BASELINE = "baseline"
Settings = dict[str, Any]


def row_name(row: str, choice: str = BASELINE) -> str:
    """A row of choices: a row of the table, and what is changed."""
    return f"{row}: {choice}"


def baseline_of(row: str) -> str:
    """The same row with nothing changed."""
    return row_name(row.partition(":")[0])


class Choices(LongTable):
    """A table whose rows are choices; its records have no test results."""

    seeds: int
    title: ClassVar[str]
    metric: ClassVar[str]
    """The validation metric in records; lower is better."""

    @abstractmethod
    def notes(self, records: Sequence[Record]) -> list[str]:
        """How to read the table."""

    def cells(self) -> list[LongCell]:
        return [
            LongCell(row, seed, replace(config, training=replace(config.training, seed=seed)))
            for seed in range(self.seeds)
            for row, config in self.configs().items()
        ]

    def timed_as(self) -> Mapping[str, str]:
        return {row: baseline_of(row) for row in self.configs()}


def choices_table(table: Choices) -> ResultTable:
    """The validation metric of each choice, the best first."""
    records = table.records()
    found: dict[str, list[float]] = {}
    for r in records:
        found.setdefault(r["row"], []).append(r[table.metric])
    means = {row: fmean(values) for row, values in found.items()}
    rows: list[list[Content]] = []
    for row, mean in sorted(means.items(), key=lambda item: item[1]):
        baseline = baseline_of(row)
        is_known = baseline in means and row != baseline
        difference = f"{mean - means[baseline]:+.4f}" if is_known else None
        rows.append([row, f"{mean:.4f}", difference, len(found[row])])
    columns = ["choice", "validation", "vs. baseline", "seeds"]
    notes = table.notes(records) if records else []
    return ResultTable("choices", table.title, columns, rows, notes)


TABLE5_STEPS = 800
LEARNING_RATE = CPU["learning_rate"]
LOWER: Settings = {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.01)}
FULL_RATE: Settings = {"frequency_lr_scale": 1.0}
WIDER: Settings = {"share": "real", "dim": 96, "feed_forward_dim": 144}
"""Real weights that act on both parts of complex numbers; at equal parameters there may be more."""
TABLE5_CHOICES: dict[str, Settings] = {
    "low frequencies": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
    "lower frequencies": LOWER,
    "frozen frequencies": {"freeze_frequency": True},
    "full learning rate of frequencies": FULL_RATE,
    "lower frequencies, real weights, wider": LOWER | WIDER,
    "full learning rate of frequencies, real weights, wider": FULL_RATE | WIDER,
    "lower frequencies at full learning rate, real weights, wider": LOWER | FULL_RATE | WIDER,
}
"""The settings that each changes of complex-order."""
TABLE5_RATES: dict[str, Settings] = {
    f"learning rate {rate}": {"learning_rate": rate} for rate in (0.0015, 0.006)
}
"""For all rows."""


@dataclass(frozen=True)
class Table5Choices(Choices, Table5):
    """Choices for complex-order, beside the other rows as they are."""

    title: ClassVar[str] = "Hyperparameter choices for complex-order in translation"
    metric: ClassVar[str] = "dev_loss"

    def configs(self) -> dict[str, TranslationConfig]:
        rows = [row for row in self.rows if row != "complex-order, chosen"]  # is one of the choices
        steps = self.steps or TABLE5_STEPS
        found: dict[str, TranslationConfig] = {}
        for row in rows:
            baseline = with_settings(self.config(row), learning_rate=LEARNING_RATE, max_steps=steps)
            found[row_name(row)] = baseline
            for choice, settings in TABLE5_RATES.items():
                found[row_name(row, choice)] = with_settings(baseline, **settings)
        waves = found.get(row_name("complex-order"))
        if waves is not None:
            for choice, settings in TABLE5_CHOICES.items():
                found[row_name("complex-order", choice)] = with_settings(waves, **settings)
        return found

    def train(self, cell: LongCell) -> Record:
        from wordwave.data.parallel import load_pairs

        splits = replace(load_pairs(cell.config.data), test=None)
        record = self.train_in_folder(cell, splits)
        return {**record, "dev_loss": -record["dev_likelihood"]}

    def notes(self, records: Sequence[Record]) -> list[str]:
        return [
            f"{records[0]['steps']:,} updates each on {self.data}; mean −log-probability of a "
            "subword of the validation set. Each choice changes the baseline of its row."
        ]


TABLE6_STEPS = 1000
TABLE6_CHARACTERS = 100_000
"""Characters of the validation set that choices are compared on."""
TABLE6_BASELINE: Settings = {
    "learning_rate": 0.00125,
    "warmup_fraction": 0.05,
    "beta2": 0.999,
    "max_grad_norm": 0.5,
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
"""The baseline of all rows; frequencies and phases are used in complex-order only."""
COMPLEX: Settings = {
    "share": "none",
    "hidden_units": "complex",
    "dim": 88,
    "feed_forward_dim": 372,
}
TABLE6_SIZES: dict[str, Settings] = {
    "transformer-xl": {"dim": 128, "feed_forward_dim": 512},
    "transformer-xl + rope": {"dim": 128, "feed_forward_dim": 576},
    "complex-vanilla": COMPLEX,
    "complex-order": COMPLEX | {"position": "relative", "wave_positions": "segment"},
}
"""The layers of each row's baseline; all sizes here have the same number of parameters."""
NEAR_ZERO: Settings = {
    "phase": True,
    "frequency_init": "uniform",
    "frequency_range": (-0.003, 0.003),
}
"""Waves that hardly change within a segment: amplitudes and phases encode the character."""
WIDER_XL: Settings = {"share": "real", "dim": 124, "feed_forward_dim": 504}
"""Real weights that act on both parts of complex numbers; at equal parameters there may be more."""
REAL_UNITS: Settings = {
    "share": "real",
    "hidden_units": "real",
    "dim": 104,
    "feed_forward_dim": 364,
}
"""Such weights in attention, and real hidden units in feed-forward layers."""
WORD_POSITIONS: Settings = REAL_UNITS | {"wave_positions": "word", "phase": True}
"""Positions within words, with phases, and the same layers."""
POST_NORM: Settings = {"norm_first": False}
EIGHT_HEADS: Settings = {"n_heads": 8}
UNTIED: Settings = {"tied": False}
LEARNING_RATES: dict[str, Settings] = {
    f"learning rate {rate}": {"learning_rate": rate} for rate in (0.000625, 0.0025)
}
"""For all rows."""
COMMON: dict[str, Settings] = {
    "two heads": {"n_heads": 2},
    "eight heads": EIGHT_HEADS,
    "post-norm": POST_NORM,
    "untied output embeddings": UNTIED,
    "dropout 0.1": {"dropout": 0.1},
    "learning rate 0.0018": {"learning_rate": 0.0018},
    "beta2 0.98": {"beta2": 0.98},
    "warmup fraction 0.1": {"warmup_fraction": 0.1},
    "max_grad_norm 1": {"max_grad_norm": 1.0},
}
REAL_ROWS: dict[str, Settings] = COMMON | {
    "post-norm, eight heads": POST_NORM | EIGHT_HEADS,
    "post-norm, untied output embeddings": POST_NORM | UNTIED,
    "post-norm, eight heads, untied output embeddings": POST_NORM | EIGHT_HEADS | UNTIED,
    "post-norm, learning rate 0.0018": POST_NORM | {"learning_rate": 0.0018},
    "post-norm, learning rate 0.0025": POST_NORM | {"learning_rate": 0.0025},
}
TABLE6_CHOICES: dict[str, dict[str, Settings]] = {
    "transformer-xl": REAL_ROWS,
    "transformer-xl + rope": REAL_ROWS,
    "complex-vanilla": COMMON
    | {
        "real weights, wider": WIDER_XL,
        "real weights and units": REAL_UNITS,
        "real weights and units, post-norm": REAL_UNITS | POST_NORM,
        "real weights and units, post-norm, eight heads": REAL_UNITS | POST_NORM | EIGHT_HEADS,
        "real weights and units, post-norm, eight heads, untied output embeddings": REAL_UNITS
        | POST_NORM
        | EIGHT_HEADS
        | UNTIED,
    },
    "complex-order": {
        "positions in the whole text": {"wave_positions": "running"},
        "magnitude attention scores": {"score": "magnitude"},
        "magnitude read-out": {"readout": "magnitude"},
        "one frequency per dimension": {"share_frequency": "word"},
        "low frequencies": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
        "initial phases": {"phase": True},
        "near-zero frequencies with phases": NEAR_ZERO,
        "near-zero frequencies with phases, magnitude read-out": NEAR_ZERO
        | {"readout": "magnitude"},
        "near-zero frequencies with phases, real weights, wider": NEAR_ZERO | WIDER_XL,
        "no relative attention": {"position": "none"},
        **{
            f"positions within words, phases, real weights and units{name}": WORD_POSITIONS | more
            for name, more in {
                "": {},
                ", post-norm": POST_NORM,
                ", post-norm, eight heads": POST_NORM | EIGHT_HEADS,
                ", post-norm, eight heads, untied output embeddings": POST_NORM
                | EIGHT_HEADS
                | UNTIED,
            }.items()
        },
    },
}
"""The settings that each changes of its row: the same number for every row but transformer-xl +
tpe, which has the hyperparameters of transformer-xl."""


@dataclass(frozen=True)
class Table6Choices(Choices, Table6):
    """Choices for every row."""

    title: ClassVar[str] = "Hyperparameter choices for Transformer-XL that the paper leaves open"
    metric: ClassVar[str] = "valid_bpc"
    evaluated: ClassVar[tuple[str, ...]] = ("valid",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size != "small":
            raise WordwaveError(f"choices are for the size 'small', got {self.size!r}")

    def configs(self) -> dict[str, LanguageModelConfig]:
        found: dict[str, LanguageModelConfig] = {}
        rows = super().configs()
        for row, choices in TABLE6_CHOICES.items():
            baseline = with_settings(
                rows[row],
                **TABLE6_BASELINE,
                **TABLE6_SIZES[row],
                test_chars=TABLE6_CHARACTERS,
                eval_memory_length=rows[row].model.memory_length,
                max_steps=self.steps or TABLE6_STEPS,
            )
            found[row_name(row)] = baseline
            for choice, settings in {**LEARNING_RATES, **choices}.items():
                found[row_name(row, choice)] = with_settings(baseline, **settings)
        return found

    def notes(self, records: Sequence[Record]) -> list[str]:
        steps, n = records[0]["steps"], records[0]["valid_characters"]
        return [
            f"{steps:,} updates each on {self.data}; bits per character on {n:,} characters of the "
            "validation set, with the memory length of training. Each choice changes the baseline "
            "of its row; the best of a row is what it has in Table 6."
        ]
