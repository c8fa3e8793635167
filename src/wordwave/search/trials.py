"""Search for good settings: each trial draws some from a pool, trains, and is judged on dev.

The first trial has the settings that were given, if the pool holds them, so that what a search
chooses is never worse by dev than what it began with.

The test part has no part in it: a search refuses to be given one.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordwave.config_io import dump_yaml, to_dict
from wordwave.data.splits import Splits
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.search.space import (
    Range,
    Setting,
    SpaceName,
    given,
    n_combinations,
    varied,
    with_values,
)
from wordwave.search.study import SharedStudy, alive
from wordwave.tasks.config import ClassificationConfig
from wordwave.workers import Failure, Workers

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial
    from rich.table import Table


_PAUSE = 0.2
"""Seconds between two looks at what others do."""


@dataclass(frozen=True)
class Search:
    """What is searched for, by what, and where it is kept.

    Args:
        config: all settings; of those that the pool varies, where the search begins.
        pool: what is varied.
        parts: examples to learn from and to judge by, none to test on.
        folder: holds the study.
        n_trials: how many trials the study shall have, whoever makes them.
    """

    config: ClassificationConfig
    pool: SpaceName
    parts: Splits
    folder: Path
    n_trials: int = 20

    def __post_init__(self) -> None:
        if self.parts.test is not None or self.parts.dev is None:
            raise WordwaveError("parts must have examples to judge by (dev) and none to test on")
        if self.n_trials < 1:
            raise WordwaveError(f"trials must be at least 1, got {self.n_trials}")

    @property
    def varied(self) -> tuple[Setting, ...]:
        """The settings that trials draw."""
        return varied(self.pool, self.config)

    @property
    def total(self) -> int:
        """How many trials there will be: no combination of settings is tried twice."""
        return min(self.n_trials, n_combinations(self.varied) or self.n_trials)

    @property
    def fixed(self) -> dict[str, Any]:
        """What all trials have in common."""
        drawn = {setting.name for setting in self.varied}
        common = {k: v for k, v in _flat(self.config).items() if k not in drawn}
        return {"pool": self.pool, **common, "examples": self.parts.fingerprint()}

    def config_of(self, trial: Trial | FrozenTrial) -> ClassificationConfig:
        """The complete config of a trial."""
        return with_values(self.config, self.varied, trial.params)

    def open(self) -> SharedStudy:
        """The study, new or as it was left."""
        return SharedStudy(
            self.folder,
            self.fixed,
            drawn=[setting.name for setting in self.varied],
            defaults=_flat(ClassificationConfig()),
            seed=self.config.training.seed,
        )


def _flat(config: ClassificationConfig) -> dict[str, Any]:
    """All settings by name, whatever part they are of."""
    return {k: v for part in to_dict(config).values() for k, v in part.items()}


def dev_accuracy(config: ClassificationConfig, parts: Splits, trial: Trial) -> float:
    """Train, telling the trial of each epoch; the best accuracy on dev."""
    from optuna import TrialPruned

    from wordwave.tasks.classification import prepare
    from wordwave.training.loop import Training
    from wordwave.training.task import Epoch

    prepared = prepare(config, parts)
    training = Training(prepared.classifier.model, prepared.task, config.training)
    try:
        for report in training.run():
            if isinstance(report, Epoch):
                done = ceil(100 * report.step / training.n_steps)  # alike for all batch sizes
                trial.report(report.scores["accuracy"], done)
                if trial.should_prune():
                    raise TrialPruned("below the median of the other trials")
    except ValueError as diverged:  # such settings are hopeless, the search is not
        raise TrialPruned(str(diverged)) from diverged
    return training.progress.best_score


def work(search: Search) -> None:
    """Make trials until the study has all of them."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    shared, space = search.open(), space_of(search.varied)
    first = given(search.varied, search.config)
    with alive(search.folder) as worker:
        while len(shared.finished()) < search.total:
            trial = shared.claim(space, search.total, worker, first)
            if trial is None:  # others are at the last ones; should they die, these are free again
                time.sleep(_PAUSE)
                continue
            try:
                accuracy = dev_accuracy(search.config_of(trial), search.parts, trial)
            except TrialPruned as reason:
                trial.set_user_attr("stopped", str(reason))
                shared.study.tell(trial, state=TrialState.PRUNED)
            else:
                shared.study.tell(trial, accuracy)


def run_workers(search: Search, n: int) -> Iterator[None]:
    """Let n processes work, one thread each, and yield now and then until all is done.

    Whatever ends this loop early ends the workers; they lose the trials in flight, nothing else.
    A worker that is killed is replaced once, and others take up its trial.
    """
    with Workers(_Work(search), n) as workers:
        for worker in range(n):
            workers.submit(worker)
        while workers.n_running:
            yield
            for _, found in workers.wait(_PAUSE):
                if isinstance(found, Failure) and not found.is_lost:
                    raise WordwaveError(found.why)
        yield


@dataclass(frozen=True)
class _Work:
    """What a worker is given."""

    search: Search

    def __call__(self, worker: int) -> None:
        import accelerate  # noqa: F401 - takes seconds that no trial should count
        import torch

        import wordwave.tasks.classification  # noqa: F401

        torch.set_num_threads(1)
        work(self.search)


def space_of(settings: tuple[Setting, ...]) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        s.name: FloatDistribution(s.values.low, s.values.high, log=s.values.log)
        if isinstance(s.values, Range)
        else CategoricalDistribution(s.values)
        for s in settings
    }


def best_table(trials: list[FrozenTrial]) -> Table:
    """The best trials and their settings."""
    from rich.table import Table

    table = Table("trial", "dev accuracy", "epochs", "settings", title="Best trials")
    for trial in trials:
        settings = ", ".join(f"{name} {_short(value)}" for name, value in trial.params.items())
        epochs = len(trial.intermediate_values)
        table.add_row(str(_number(trial)), f"{trial.value:.4f}", str(epochs), settings)
    return table


def importances(shared: SharedStudy) -> str:
    """How much of the differences between trials each setting explains; "" for too few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = {trial.value for trial in shared.ranked()}
    if len(shared.ranked()) < 10 or len(values) < 2:
        return ""
    weights = get_param_importances(shared.study, evaluator=PedAnovaImportanceEvaluator())
    return ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())


def write_files(plan: Search, shared: SharedStudy) -> list[Path]:
    """best.yaml, which `wordwave train classify --config` takes, and trials.csv."""
    ranked, paths = shared.ranked(), [plan.folder / name for name in ("best.yaml", "trials.csv")]
    if not ranked:
        return []
    best = ranked[0]
    about = f"# Trial {_number(best)} of pool {plan.pool}: dev accuracy {best.value:.4f}\n"
    write_text(paths[0], about + dump_yaml(to_dict(plan.config_of(best))))
    write_text(paths[1], trials_csv(shared.finished()))
    return paths


def trials_csv(trials: list[FrozenTrial]) -> str:
    """A line for each trial; `stopped` says why one did not come to its end."""
    text = io.StringIO()
    rows: list[dict[str, Any]] = [
        {
            "trial": _number(trial),
            "dev_accuracy": max(trial.intermediate_values.values(), default=None),
            "percent_trained": max(trial.intermediate_values, default=0),
            "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
            "stopped": trial.user_attrs.get("stopped", ""),
            **trial.params,
        }
        for trial in trials
    ]
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _number(trial: FrozenTrial) -> int:
    return int(trial.user_attrs["slot"]) + 1


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
