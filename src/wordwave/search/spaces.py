"""Search spaces: the hyperparameters that trials draw, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from wordwave.config_io import fits, flatten
from wordwave.tasks.config import ClassificationConfig

SpaceName = Literal["paper", "narrow", "wide", "table"]


@dataclass(frozen=True)
class Range:
    """Any number from low to high, drawn uniformly, or log-uniformly with `log`."""

    low: float
    high: float
    log: bool = False

    def __contains__(self, value: object) -> bool:
        return fits(value, float) and self.low <= value <= self.high  # type: ignore[operator]


def _encoder(*kinds: str) -> Callable[[ClassificationConfig], bool]:
    return lambda config: config.model.encoder in kinds


def _is_complex(config: ClassificationConfig) -> bool:
    return config.model.embedding.field == "complex"


def _has_complex_scores(config: ClassificationConfig) -> bool:
    return _is_complex(config) and config.model.encoder == "transformer"


def _learns_frequencies(config: ClassificationConfig) -> bool:
    return (
        config.model.embedding.kind == "complex-order"
        and not config.model.embedding.freeze_frequency
    )


def _has_waves(config: ClassificationConfig) -> bool:
    return config.model.embedding.kind == "complex-order"


def _adds_positions(config: ClassificationConfig) -> bool:
    return config.model.embedding.kind in ("pe", "tpe")


def _has_no_vectors(config: ClassificationConfig) -> bool:
    return config.text.vectors is None


def _has_vectors(config: ClassificationConfig) -> bool:
    return config.text.vectors is not None


@dataclass(frozen=True)
class Setting:
    """A hyperparameter: the name of its flag, its values, and which configs use it."""

    name: str
    values: tuple[Any, ...] | Range
    is_used: Callable[[ClassificationConfig], bool] = lambda config: True


SPACES: dict[SpaceName, tuple[Setting, ...]] = {
    # The paper's L2 is a term of the loss; weight_decay is decoupled from it, as in AdamW.
    "paper": (
        Setting("batch_size", (32, 64, 128)),
        Setting("learning_rate", (1e-3, 1e-4, 1e-5)),
        Setting("weight_decay", (0.0, 1e-3, 1e-4)),
        Setting("hidden_dim", (120, 128)),
        Setting("n_filters", (64, 128), _encoder("cnn")),
    ),
    "narrow": (
        Setting("learning_rate", (3e-4, 5e-4, 1e-3, 2e-3)),
        Setting("word_dropout", (0.0, 0.1)),
        Setting("dropout", (0.1, 0.3, 0.5)),
    ),
    "wide": (
        Setting("batch_size", (32, 64, 128)),
        Setting("learning_rate", Range(1e-4, 1e-2, log=True)),
        Setting("weight_decay", (0.0, 1e-4, 1e-3, 1e-2)),
        Setting("word_dropout", Range(0.0, 0.3)),
        Setting("frequency_lr_scale", Range(1e-2, 1.0, log=True), _learns_frequencies),
        Setting("dropout", Range(0.0, 0.6)),
        Setting("hidden_dim", (0, 64, 128, 256)),
        Setting("pooling", ("sum", "mean"), _encoder("fasttext", "transformer")),
        Setting("n_filters", (64, 128, 256), _encoder("cnn")),
        Setting("n_layers", (1, 2), _encoder("lstm", "transformer")),
        Setting("feed_forward_dim", (64, 128, 256), _encoder("transformer")),
        Setting("readout", ("concat", "magnitude"), _is_complex),
        Setting("score", ("real", "magnitude"), _has_complex_scores),
        Setting("vector_scale", Range(0.1, 10.0, log=True), _has_vectors),
    ),
    # Each row of the paper's tables with what only it has, counted in the same number of trials.
    "table": (
        Setting("learning_rate", (3e-4, 5e-4, 1e-3, 2e-3)),
        Setting("dropout", (0.1, 0.3, 0.5)),
        Setting("embedding_dropout", (None, 0.0)),
        Setting("word_dropout", (0.0, 0.1)),
        Setting("pooling", ("mean", "max"), _encoder("fasttext", "lstm", "transformer")),
        Setting("vector_lr_scale", (1.0, 0.3), _has_vectors),
        Setting("word_scale", (0.1, 0.3, 1.0), _has_no_vectors),
        Setting("position_scale", (1.0, 0.3), _adds_positions),
        Setting("readout", ("concat", "magnitude"), _is_complex),
        Setting("share", ("none", "real"), _is_complex),
        Setting("score", ("real", "magnitude"), _has_complex_scores),
        Setting("phase", (False, True), _has_waves),
        Setting("frequency_scale", (1.0, 0.1), _has_waves),
        Setting("frequency_lr_scale", (0.1, 1.0), _learns_frequencies),
    ),
}
"""`paper` and `narrow` are the same for every embedding; `wide` and `table` have some that only a
few use."""


def varied(space: SpaceName, config: ClassificationConfig) -> tuple[Setting, ...]:
    """The settings of a search space that a config's encoder, embedding and vectors use."""
    return tuple(setting for setting in SPACES[space] if setting.is_used(config))


def given(settings: Sequence[Setting], config: ClassificationConfig) -> dict[str, Any] | None:
    """The values that a config has, `None` if one of them is not in the search space."""
    known = flatten(config)
    values = {setting.name: known[setting.name] for setting in settings}
    return values if holds(settings, values) else None


def holds(settings: Sequence[Setting], values: Mapping[str, Any]) -> bool:
    """Whether values are those of a trial with these settings."""
    names = {setting.name for setting in settings}
    return names == values.keys() and all(values[s.name] in s.values for s in settings)


def n_combinations(settings: Sequence[Setting]) -> int | None:
    """The number of different trials, `None` if there are infinitely many."""
    choices = [s.values for s in settings if isinstance(s.values, tuple)]
    return prod(map(len, choices)) if len(choices) == len(settings) else None


def distributions_of(settings: Sequence[Setting]) -> dict[str, Any]:
    """The search space in the terms of optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        s.name: FloatDistribution(s.values.low, s.values.high, log=s.values.log)
        if isinstance(s.values, Range)
        else CategoricalDistribution(s.values)
        for s in settings
    }
