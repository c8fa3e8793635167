"""`wordwave search`: hyperparameter search for a classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from wordwave.cli.console import parsed
from wordwave.cli.train import defaults_from
from wordwave.errors import WordwaveError
from wordwave.grid import MAX_JOBS
from wordwave.search.trials import SpaceName
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.cli.console import Console
    from wordwave.data.splits import Splits
    from wordwave.search.study import SharedStudy
    from wordwave.search.trials import SearchPlan

MAX_TRIALS = 100_000


@dataclass(frozen=True)
class SearchOptions(ClassificationConfig):
    """Hyperparameter search: each trial draws settings from a search space, trains a classifier and
    is scored on the validation set.

    No trial uses the test set. Run the same command again to resume, also while it runs, to share
    the work; more --trials are added to those that there are. The first trial has the settings
    below.
    """

    config: str | None = None
    """A YAML file with any of the settings below (such as the config.yaml of a run), or an included
    recipe: fasttext, cnn, lstm, transformer. Flags take precedence."""
    space: SpaceName = "wide"
    """Search space. paper: batch size, learning rate, weight decay, hidden units and filters of the
    paper; narrow: learning rate, dropout and word dropout; wide: more values, also of the read-out
    and of whatever else the encoder and embedding use."""
    trials: int = 20
    """Number of trials of the study, all commands and processes together."""
    jobs: int = 2
    """Trials at once, one process and thread each."""
    out: Path = Path("out/search")
    """Folder for the study, best.yaml and trials.csv."""


def search(args: list[str], prog: str) -> None:
    """`wordwave search`"""
    default = SearchOptions(**defaults_from(args, ClassificationConfig, "classify"))
    options = parsed(
        SearchOptions, args, prog, default=default, config=(tyro.conf.OmitArgPrefixes,)
    )
    for name, most in (("trials", MAX_TRIALS), ("jobs", MAX_JOBS)):
        value = getattr(options, name)
        if not 1 <= value <= most:
            rule = "at least 1" if value < 1 else f"at most {most}"
            raise WordwaveError(f"{name} must be {rule}, got {value}")
    try:
        import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise WordwaveError("search needs optuna: pip install 'wordwave[search]'") from None
    from wordwave.search.trials import SearchPlan

    config = ClassificationConfig(options.data, options.text, options.model, options.training)
    parts = load_without_test(config)
    run_search(SearchPlan(config, options.space, parts, options.out, options.trials), options.jobs)


def load_without_test(config: ClassificationConfig) -> Splits:
    """Training and validation examples; a test file is not even opened."""
    from wordwave.data.registry import names

    is_file = config.data.data not in names("classification")
    data = replace(config.data, test=None) if is_file else config.data
    from wordwave.tasks.classification import load_examples

    return replace(load_examples(data), test=None)


def run_search(plan: SearchPlan, jobs: int) -> None:
    """Run the missing trials with a progress bar, and report."""
    from wordwave.cli.console import Console
    from wordwave.search.trials import best_table, importances, run_workers, write_files

    console, shared = Console(), plan.open()
    n_missing = plan.total - len(shared.finished())
    names = ", ".join(setting.name for setting in plan.varied)
    console.print(f"Search space {plan.space}: {names}")
    if plan.total < plan.n_trials:
        console.print(f"This search space has only {plan.total} combinations.")
    try:
        if n_missing > 0:
            with trials_bar(plan.total, shared, console) as update:
                for _ in run_workers(plan, min(jobs, n_missing)):
                    update()
    except KeyboardInterrupt:
        write_files(plan, shared)
        raise KeyboardInterrupt(
            f"stopped with {len(shared.finished())} of {plan.total} trials in '{plan.folder}'; "
            "run the same command again to resume"
        ) from None
    finished = shared.finished()
    if len(finished) < plan.total:
        at = ", ".join(str(slot + 1) for slot in shared.abandoned())
        raise WordwaveError(
            f"each worker was killed twice{at and f', at last in trial {at}'} (out of memory?); "
            f"{len(finished)} of {plan.total} trials are kept, run the same command again to resume"
        )
    if not shared.ranked():
        raise WordwaveError(f"no trial was completed: {finished[0].user_attrs.get('stopped')}")
    written = write_files(plan, shared)
    console.print(best_table(shared.ranked()[:5]).to_rich())
    if weights := importances(shared):
        console.print("Importance of the settings: " + weights)
    console.print("Written: " + ", ".join(map(str, written)))
    console.print(f"Next: wordwave train classify --config {written[0]}")


@contextmanager
def trials_bar(total: int, shared: SharedStudy, console: Console) -> Iterator[Callable[[], None]]:
    """A progress bar over the trials of a study, and a function that updates it."""
    from wordwave.cli.progress import COUNT, progress

    with progress("trials", console, COUNT, "best dev accuracy {task.fields[best]}") as bar:
        task = bar.add_task("", total=total, completed=len(shared.finished()), best="-")

        def update() -> None:
            best = shared.ranked()[:1]
            shown = f"{best[0].value:.4f}" if best else "-"
            bar.update(task, completed=len(shared.finished()), best=shown)

        yield update
