"""Hyperparameter search: each trial draws settings from a search space and trains a classifier.

Trials are ranked by their accuracy on the validation set. The first one has the settings that were
given, if the search space contains them, so that the result of a search scores at least as high on
the validation set as its starting point. A search is never given test examples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wordwave.config_io import dump_yaml, flatten, to_dict, with_settings
from wordwave.data.splits import Splits
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.search.study import SharedStudy, alive
from wordwave.tables import Content, ResultTable, rows_to_csv
from wordwave.tasks.config import ClassificationConfig
from wordwave.workers import Failure, ProcessWorkers

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

SpaceName = Literal["paper", "narrow", "wide"]

_PAUSE = 0.2
"""Seconds between two looks at the study."""


@dataclass(frozen=True)
class Range:
    """Any number from low to high, drawn uniformly, or log-uniformly with `log`."""

    low: float
    high: float
    log: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


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


def _has_vectors(config: ClassificationConfig) -> bool:
    return config.text.vectors is not None


@dataclass(frozen=True)
class Setting:
    """A hyperparameter: its part of the config, its values, and which configs use it."""

    part: Literal["text", "model", "training"]
    name: str
    values: tuple[Any, ...] | Range
    is_used: Callable[[ClassificationConfig], bool] = lambda config: True


SPACES: dict[SpaceName, tuple[Setting, ...]] = {
    # The paper's L2 is a term of the loss; weight_decay is decoupled from it, as in AdamW.
    "paper": (
        Setting("training", "batch_size", (32, 64, 128)),
        Setting("training", "learning_rate", (1e-3, 1e-4, 1e-5)),
        Setting("training", "weight_decay", (0.0, 1e-3, 1e-4)),
        Setting("model", "hidden_dim", (120, 128)),
        Setting("model", "n_filters", (64, 128), _encoder("cnn")),
    ),
    "narrow": (
        Setting("training", "learning_rate", (3e-4, 5e-4, 1e-3, 2e-3)),
        Setting("training", "word_dropout", (0.0, 0.1)),
        Setting("model", "dropout", (0.1, 0.3, 0.5)),
    ),
    "wide": (
        Setting("training", "batch_size", (32, 64, 128)),
        Setting("training", "learning_rate", Range(1e-4, 1e-2, log=True)),
        Setting("training", "weight_decay", (0.0, 1e-4, 1e-3, 1e-2)),
        Setting("training", "word_dropout", Range(0.0, 0.3)),
        Setting("training", "frequency_lr_scale", Range(1e-2, 1.0, log=True), _learns_frequencies),
        Setting("model", "dropout", Range(0.0, 0.6)),
        Setting("model", "hidden_dim", (0, 64, 128, 256)),
        Setting("model", "pooling", ("sum", "mean"), _encoder("fasttext", "transformer")),
        Setting("model", "n_filters", (64, 128, 256), _encoder("cnn")),
        Setting("model", "n_layers", (1, 2), _encoder("lstm", "transformer")),
        Setting("model", "feed_forward_dim", (64, 128, 256), _encoder("transformer")),
        Setting("model", "readout", ("concat", "magnitude"), _is_complex),
        Setting("model", "score", ("real", "magnitude"), _has_complex_scores),
        Setting("text", "vector_scale", Range(0.1, 10.0, log=True), _has_vectors),
    ),
}
"""`paper` and `narrow` are the same for every embedding; `wide` has some that only a few use."""


def varied(space: SpaceName, config: ClassificationConfig) -> tuple[Setting, ...]:
    """The settings of a search space that a config's encoder, embedding and vectors use."""
    return tuple(setting for setting in SPACES[space] if setting.is_used(config))


def given(settings: Sequence[Setting], config: ClassificationConfig) -> dict[str, Any] | None:
    """The values that a config has, `None` if one of them is not in the search space."""
    known = flatten(config)
    values = {setting.name: known[setting.name] for setting in settings}
    return values if all(values[s.name] in s.values for s in settings) else None


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


@dataclass(frozen=True)
class SearchPlan:
    """What to search for, and where to keep the trials.

    Args:
        config: all settings; the search starts from those that the search space varies.
        space: the name of the search space.
        parts: training and validation examples.
        folder: of the study.
        n_trials: number of trials of the study, whichever process runs them.
    """

    config: ClassificationConfig
    space: SpaceName
    parts: Splits
    folder: Path
    n_trials: int = 20

    def __post_init__(self) -> None:
        if self.parts.test is not None or self.parts.dev is None:
            raise WordwaveError("parts must have validation examples (dev) and none to test on")
        if self.n_trials < 1:
            raise WordwaveError(f"trials must be at least 1, got {self.n_trials}")

    @property
    def varied(self) -> tuple[Setting, ...]:
        """The settings that trials draw."""
        return varied(self.space, self.config)

    @property
    def total(self) -> int:
        """The number of trials: no combination of settings is tried twice."""
        return min(self.n_trials, n_combinations(self.varied) or self.n_trials)

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that all trials share."""
        drawn = {setting.name for setting in self.varied}
        common = {k: v for k, v in flatten(self.config).items() if k not in drawn}
        return {"space": self.space, **common, "examples": self.parts.fingerprint()}

    def config_of(self, trial: Trial | FrozenTrial) -> ClassificationConfig:
        return with_settings(self.config, **trial.params)

    def open(self) -> SharedStudy:
        """The study, which is created if it does not exist."""
        return SharedStudy(
            self.folder,
            self.fixed,
            drawn=[setting.name for setting in self.varied],
            defaults=flatten(ClassificationConfig()),
            seed=self.config.training.seed,
        )


def dev_accuracy(config: ClassificationConfig, parts: Splits, trial: Trial) -> float:
    """Train, reporting each epoch to the trial; the best accuracy on the validation set."""
    from optuna import TrialPruned

    from wordwave.tasks.classification import ClassificationJob
    from wordwave.training.loop import Epoch

    training = ClassificationJob(config).prepare(parts).training()
    try:
        for report in training.run():
            if isinstance(report, Epoch):
                done = ceil(100 * report.step / training.n_steps)  # comparable over batch sizes
                trial.report(report.scores["accuracy"], done)
                if trial.should_prune():
                    raise TrialPruned("below the median of the other trials")
    except ValueError as diverged:  # this trial failed, the search did not
        raise TrialPruned(str(diverged)) from diverged
    return training.progress.best_score


def run_trials(plan: SearchPlan) -> None:
    """Run trials until the study has all of them."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    shared, distributions = plan.open(), distributions_of(plan.varied)
    first = given(plan.varied, plan.config)
    with alive(plan.folder) as worker:
        while len(shared.finished()) < plan.total:
            trial = shared.claim(distributions, plan.total, worker, first)
            if trial is None:  # others run the last ones; if they die, these are free again
                time.sleep(_PAUSE)
                continue
            try:
                accuracy = dev_accuracy(plan.config_of(trial), plan.parts, trial)
            except TrialPruned as reason:
                trial.set_user_attr("stopped", str(reason))
                shared.study.tell(trial, state=TrialState.PRUNED)
            else:
                shared.study.tell(trial, accuracy)


def run_workers(plan: SearchPlan, n: int) -> Iterator[None]:
    """Run trials in n processes of one thread each, and yield now and then until all are done.

    Whatever ends this loop early ends the workers; they lose the running trials, nothing else. A
    worker that is killed is replaced once, and its trial is run again.
    """
    with ProcessWorkers(partial(_run_worker, plan), n) as workers:
        for worker in range(n):
            workers.submit(worker)
        while workers.n_running:
            yield
            for _, result in workers.wait(_PAUSE):
                if isinstance(result, Failure) and not result.worker_died:
                    raise WordwaveError(result.reason)
        yield


def _run_worker(plan: SearchPlan, worker: int) -> None:
    import accelerate  # noqa: F401 - takes seconds that should not count as those of a trial
    import torch

    import wordwave.tasks.classification  # noqa: F401

    torch.set_num_threads(1)
    run_trials(plan)


def best_table(trials: list[FrozenTrial]) -> ResultTable:
    """The best trials and their settings."""
    rows: list[list[Content]] = []
    for trial in trials:
        shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in trial.params.items()}
        settings = ", ".join(f"{name} {value}" for name, value in shown.items())
        epochs = len(trial.intermediate_values)
        rows.append([str(_number(trial)), trial.value, epochs, settings])
    columns = ["trial", "dev accuracy", "epochs", "settings"]
    texts = frozenset({"settings"})
    return ResultTable("best", "Best trials", columns, rows, texts=texts, digits=4)


def importances(shared: SharedStudy) -> str:
    """The share of the differences between trials that each setting explains; "" if there are too
    few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = {trial.value for trial in shared.ranked()}
    if len(shared.ranked()) < 10 or len(values) < 2:
        return ""
    weights = get_param_importances(shared.study, evaluator=PedAnovaImportanceEvaluator())
    return ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())


def write_files(plan: SearchPlan, shared: SharedStudy) -> list[Path]:
    """best.yaml, for `wordwave train classify --config`, and trials.csv."""
    ranked, paths = shared.ranked(), [plan.folder / name for name in ("best.yaml", "trials.csv")]
    if not ranked:
        return []
    best = ranked[0]
    about = f"# Trial {_number(best)}, search space {plan.space}: dev accuracy {best.value:.4f}\n"
    write_text(paths[0], about + dump_yaml(to_dict(plan.config_of(best))))
    rows = [
        {
            "trial": _number(trial),
            "dev_accuracy": max(trial.intermediate_values.values(), default=None),
            "percent_trained": max(trial.intermediate_values, default=0),
            "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
            "stopped": trial.user_attrs.get("stopped", ""),
            **trial.params,
        }
        for trial in shared.finished()
    ]
    write_text(paths[1], rows_to_csv(rows))
    return paths


def _number(trial: FrozenTrial) -> int:
    return int(trial.user_attrs["slot"]) + 1
