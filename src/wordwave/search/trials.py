"""Hyperparameter search: each trial draws settings from a search space and trains a classifier.

Trials are ranked by the validation score of the complete model: the score that selects the best
epoch, or the accuracy where the last epoch is kept. The first one has the settings that were given,
if the search space contains them, so that the result of a search scores at least as high on the
validation set as its starting point. A search is never given test examples.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from wordwave.config_io import dump_yaml, fits, flatten, to_dict, with_settings
from wordwave.data.splits import DEV_SHARE, Splits
from wordwave.errors import WordwaveError
from wordwave.files import check_regular, locked, write_text, write_whole
from wordwave.grid import Count, Grid, Record, Share, Store
from wordwave.migrate import as_default, upgrade_flat
from wordwave.search.spaces import (
    Setting,
    SpaceName,
    distributions_of,
    given,
    holds,
    n_combinations,
    varied,
)
from wordwave.tables import Content, ResultTable, rows_to_csv
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from optuna.trial import Trial

TRIALS, JOURNAL = "trials.jsonl", "study.journal"
KEY = ("kind", "trial", "search")
"""What identifies a record."""
EPOCHS = "epochs"
"""The attribute of a trial that counts them."""
FIRST_EVALUATED = 33
"""Percent of a training after which a trial may be pruned: good ones may start slowly."""


class _Trial(TypedDict):
    """The fields of every record: the settings that a trial draws, and those of the search."""

    kind: Literal["draw", "result"]
    trial: Count
    params: dict[str, str | float | bool | None]
    search: Mapping[str, Any]


class _Scored(TypedDict, total=False):
    """Fields that records of earlier versions lack."""

    score: float
    """Of the complete model on the validation set, unless the trial was stopped."""
    epochs: Annotated[int, lambda n: n >= 0]
    """Completed ones; with `eval_every`, 0 of a training that ends within the first one."""


class _Result(_Trial, _Scored):
    """The fields of a finished trial."""

    curve: list[tuple[int, Share]]
    """Percent of the training, and accuracy on the validation set."""
    stopped: str
    """Why it was stopped, "" if it was not."""
    seconds: float


def is_record(record: Record) -> bool:
    """Whether a record has all fields of its kind, with the right types."""
    if record.get("kind") != "result":
        return fits(record, _Trial)
    return fits(record, _Result) and bool(record["curve"] or record["stopped"])


def dev_score(result: Record) -> float | None:
    """The score of a trial on the validation set; without one, as in a trial that was stopped, its
    best accuracy, if it was ever evaluated."""
    best = max((accuracy for _, accuracy in result["curve"]), default=None)
    score: float | None = result.get("score", best)
    return score


class _Trials(Store):
    """The records of a search. As long as it has none, they are those of the journal that an
    earlier version wrote, which are converted when the first one is added: reading writes nothing.
    """

    @property
    def _is_converted(self) -> bool:
        return self.path.exists() or not self.path.with_name(JOURNAL).exists()

    @cached_property
    def _former(self) -> bytes:
        """The records of the journal as lines, the first one of each trial."""
        records = read_journal(self.path.with_name(JOURNAL))
        kept = {record["trial"]: record for record in reversed(records)}
        lines = (json.dumps(kept[number], ensure_ascii=False) for number in sorted(kept))
        return "".join(f"{line}\n" for line in lines).encode()

    def _content(self) -> bytes:
        return super()._content() if self._is_converted else self._former

    def append(self, record: Record) -> None:
        if not self._is_converted:
            with locked(self.path.with_name(f".{self.path.name}.convert.lock")):
                if not self.path.exists():
                    write_whole(self.path, lambda new: new.write_bytes(self._former))
        super().append(record)


@dataclass(frozen=True)
class SearchPlan:
    """What to search for, and where to keep the trials.

    A trial has a number, 1 … n, and two records: its settings when they are drawn, and its result.
    What is drawn depends on the seed, the number and the trials so far. A trial whose process is
    killed is run again with the settings that were drawn for it.

    Args:
        config: all settings; the search starts from those that the search space varies.
        space: the name of the search space.
        parts: training and validation examples.
        folder: of the records.
        n_trials: number of trials of the search, whichever process runs them.
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
    def score(self) -> str:
        """What trials are ranked by."""
        return "accuracy" if self.config.select == "last" else self.config.select

    @property
    def varied(self) -> tuple[Setting, ...]:
        """The settings that trials draw."""
        return varied(self.space, self.config)

    @property
    def total(self) -> int:
        """The number of trials: no combination of settings is tried twice."""
        return min(self.n_trials, n_combinations(self.varied) or self.n_trials)

    @cached_property
    def fixed(self) -> dict[str, Any]:
        """The settings that all trials share."""
        drawn = {setting.name for setting in self.varied}
        common = {k: v for k, v in flatten(self.config).items() if k not in drawn}
        common = as_default(common)
        return {"space": self.space, **common, "examples": self.parts.fingerprint()}

    @cached_property
    def store(self) -> Store:
        """The records of the folder."""
        return _Trials(self.folder / TRIALS, KEY, is_record, upgrade=self._upgraded)

    @property
    def grid(self) -> Grid[int]:
        """The trials, by number."""
        self.results()  # refuses those of another search
        return Grid(self.store, range(1, self.total + 1), self._key, self.run, "trials")

    def _key(self, number: int, kind: str = "result") -> Record:
        return {"kind": kind, "trial": number, "search": self.fixed}

    def _upgraded(self, record: Record) -> Record:
        """With the names of this version; settings that are newer than a record have defaults."""
        search = record.get("search")
        if not isinstance(search, dict):
            return record
        if search.keys() == self.fixed.keys():
            return {**record, "search": as_default(search)}
        there = {**flatten(ClassificationConfig()), **upgrade_flat(search)}
        return {**record, "search": {name: there.get(name) for name in self.fixed}}

    def results(self) -> list[Record]:
        """The finished trials in the order of their numbers; those of another search are refused,
        but not what was only drawn for it."""
        found = [r for r in self.store.records() if r["kind"] == "result"]
        for result in found:
            there, problem = result["search"], ""
            for name, here in self.fixed.items():
                if there[name] != here:
                    problem = f"a search with {name} {there[name]!r}, here it is {here!r}"
                    break
            if not problem and not holds(self.varied, result["params"]):
                problem = f"trial {result['trial']} with settings outside the search space"
            if not problem and self.score != "accuracy" and not _has_score(result):
                problem = f"trials of an earlier version, ranked by accuracy, not by {self.score}"
            if problem:
                raise WordwaveError(f"'{self.folder}' holds {problem}: choose another --out")
        return sorted(found, key=lambda result: result["trial"])

    def ranked(self) -> list[Record]:
        """The complete trials, best first."""
        complete = [result for result in self.results() if not result["stopped"]]
        return sorted(complete, key=lambda result: -(dev_score(result) or 0.0))

    def study(self, seed: int = 0) -> Any:
        """The trials so far as a study of optuna, in memory; those without a result are running."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(
            direction="maximize",
            # The constant liar keeps workers from trying the same promising values at once.
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            pruner=optuna.pruners.MedianPruner(n_warmup_steps=FIRST_EVALUATED),
        )
        results, state = {r["trial"]: r for r in self.results()}, optuna.trial.TrialState
        space = distributions_of(self.varied)
        for number, params in sorted(self._drawn().items()):
            result = results.get(number, {"curve": [], "stopped": ""})
            ended = state.PRUNED if result["stopped"] else state.COMPLETE
            study.add_trial(
                optuna.create_trial(
                    state=ended if number in results else state.RUNNING,
                    value=dev_score(result),
                    params=params,
                    distributions=space,
                    intermediate_values=dict(result["curve"]),
                )
            )
        return study

    def draw(self, number: int) -> dict[str, Any]:
        """The settings of a trial, drawn once for all processes that may run it."""
        from numpy.random import SeedSequence

        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / f".{TRIALS}.draw.lock"):
            drawn, first = self._drawn(), given(self.varied, self.config)
            if number in drawn:
                return drawn[number]
            if number == 1 and first is not None:
                params = first
            else:
                sequence = SeedSequence((self.config.training.seed, number - 1))
                params = self._ask(int(sequence.generate_state(1)[0]), [first, *drawn.values()])
            self.store.append({**self._key(number, "draw"), "params": params})
            return params

    def _drawn(self) -> dict[int, dict[str, Any]]:
        """The settings of all trials that have been drawn, by number."""
        records = [r for r in self.store.records() if r["search"] == self.fixed]
        return {r["trial"]: r["params"] for r in records if holds(self.varied, r["params"])}

    def _ask(self, seed: int, tried: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
        """Settings that differ from all others, as long as there are any."""
        params: dict[str, Any] = self.study(seed).ask(distributions_of(self.varied)).params
        if params in tried and n_combinations(self.varied):
            values = product(*(s.values for s in self.varied if isinstance(s.values, tuple)))
            combinations = [dict(zip(params, each, strict=True)) for each in values]
            if untried := [each for each in combinations if each not in tried]:
                return random.Random(seed).choice(untried)
        return params

    def run(self, number: int) -> Record:
        """Train with the settings of a trial, on one thread; a hopeless training is stopped."""
        import accelerate  # noqa: F401 - takes seconds that should not count as those of a trial
        import torch
        from optuna import TrialPruned

        import wordwave.tasks.classification_job  # noqa: F401

        torch.set_num_threads(1)
        params, study, stopped = self.draw(number), self.study(), ""
        study.enqueue_trial(params)
        trial, began = study.ask(distributions_of(self.varied)), time.monotonic()
        scored: Record = {}
        try:
            config = with_settings(self.config, **params)
            scored = {"score": train_trial(config, self.parts, trial)}
        except TrialPruned as reason:
            stopped = str(reason)
        seen = study.trials[trial.number]
        if EPOCHS in seen.user_attrs:  # not if the first epoch broke off
            scored[EPOCHS] = seen.user_attrs[EPOCHS]
        return {
            **self._key(number),
            "params": params,
            "curve": [*seen.intermediate_values.items()],
            **scored,
            "stopped": stopped,
            "seconds": round(time.monotonic() - began, 1),
        }


def _has_score(result: Record) -> bool:
    return bool(result["stopped"]) or "score" in result


def train_trial(config: ClassificationConfig, parts: Splits, trial: Trial) -> float:
    """Train, reporting the accuracy on the validation set to the trial: of each evaluation, or of
    the last one in each percent of the training.

    Returns:
        The score of the complete model on the validation set.
    """
    from optuna import TrialPruned

    from wordwave.tasks.classification_job import ClassificationJob
    from wordwave.training.loop import Epoch

    job = ClassificationJob(config).prepare(parts)
    training, settings = job.training(), config.training
    per_epoch = ceil(len(training.batches(0)) / settings.grad_accumulation)
    between = settings.eval_every or per_epoch

    def percent(steps: float) -> int:  # comparable over batch sizes
        return min(ceil(100 * steps / training.n_steps), 100)

    reported, last = 0, None
    try:
        for report in job.run(training):
            if not isinstance(report, Epoch):
                continue
            last, now = report, percent(report.step)
            trial.set_user_attr(EPOCHS, report.epoch)
            is_last = report.step == training.n_steps
            # A trial takes one value for each percentage.
            if is_last or percent(report.step + between) > now:
                trial.report(report.scores["accuracy"], now)
                reported = now
                if trial.should_prune():
                    raise TrialPruned("below the median of the other trials")
        if last is not None and percent(last.step) > reported:  # it stopped early
            trial.report(last.scores["accuracy"], percent(last.step))
    except ValueError as diverged:  # this trial failed, the search did not
        raise TrialPruned(str(diverged)) from diverged
    return job.best_scores(training)[job.task.first_score]


def read_journal(path: Path) -> list[Record]:
    """The finished trials in a study.journal of optuna, which earlier versions wrote."""
    from optuna import load_study
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    check_regular(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        study = load_study(study_name="search", storage=storage)
        trials = [t for t in study.trials if t.state.name in ("COMPLETE", "PRUNED")]
        records: list[Record] = [
            {
                "kind": "result",
                "trial": t.user_attrs["slot"] + 1,
                "params": t.params,
                "search": study.user_attrs["settings"],
                "curve": [list(at) for at in t.intermediate_values.items()],
                "stopped": t.user_attrs.get("stopped", "" if t.state.name == "COMPLETE" else "?"),
                "seconds": t.duration.total_seconds() if t.duration else 0.0,
            }
            for t in trials
        ]
        if not all(map(is_record, records)):
            raise WordwaveError("its trials are not those of a search")
    except OSError:
        raise
    except Exception as problem:  # optuna may fail in any way on the file of a stranger
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
        raise WordwaveError(
            f"'{path}' is not a journal of optuna for this search ({reason}): choose another --out"
        ) from problem
    return records


def best_table(results: Sequence[Record], score: str = "accuracy") -> ResultTable:
    """The best trials and their settings. Args: score: what they are ranked by."""
    rows: list[list[Content]] = []
    for result in results:
        shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in result["params"].items()}
        settings = ", ".join(f"{name} {value}" for name, value in shown.items())
        epochs = result.get("epochs", len(result["curve"]))  # records of earlier versions lack it
        rows.append([str(result["trial"]), dev_score(result), epochs, settings])
    columns = ["trial", f"dev {score}", "epochs", "settings"]
    texts = frozenset({"settings"})
    return ResultTable("best", "Best trials", columns, rows, texts=texts, digits=4)


def importances(plan: SearchPlan) -> str:
    """The share of the differences between trials that each setting explains; "" if there are too
    few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = [dev_score(result) for result in plan.ranked()]
    if len(values) < 10 or len({*values}) < 2:
        return ""
    weights = get_param_importances(plan.study(), evaluator=PedAnovaImportanceEvaluator())
    return ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())


def write_files(plan: SearchPlan) -> list[Path]:
    """best.yaml, for `wordwave train classify --config`, and trials.csv."""
    ranked, paths = plan.ranked(), [plan.folder / name for name in ("best.yaml", "trials.csv")]
    if not ranked:
        return []
    best = ranked[0]
    about = f"# Trial {best['trial']}, search space {plan.space}: "
    about += f"dev {plan.score} {dev_score(best):.4f}\n"
    data = plan.config.data
    if data.dev_share is None and plan.parts.dev_is_cut:  # what the trials were scored on
        data = replace(data, dev_share=DEV_SHARE)
    config = with_settings(replace(plan.config, data=data), **best["params"])
    write_text(paths[0], about + dump_yaml(to_dict(config)))
    rows = [
        {
            "trial": result["trial"],
            f"dev_{plan.score.replace('-', '_')}": (
                dev_score(result) if plan.score == "accuracy" else result.get("score")
            ),
            "percent_trained": max((percent for percent, _ in result["curve"]), default=0),
            "seconds": round(result["seconds"], 1),
            "stopped": result["stopped"],
            **result["params"],
        }
        for result in plan.results()
    ]
    write_text(paths[1], rows_to_csv(rows))
    return paths
