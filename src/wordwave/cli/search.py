"""`wordwave search`: hyperparameter search for a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from wordwave.cli.console import Console
from wordwave.cli.progress import completed
from wordwave.cli.train import options_from
from wordwave.data.registry import names
from wordwave.errors import WordwaveError
from wordwave.grid import MAX_JOBS, Record
from wordwave.limits import Limited
from wordwave.search.spaces import SpaceName
from wordwave.search.trials import (
    SearchPlan,
    best_table,
    dev_score,
    importances,
    write_files,
)
from wordwave.tasks.config import ClassificationConfig
from wordwave.workers import ProcessWorkers

if TYPE_CHECKING:
    from wordwave.data.splits import Splits

MAX_TRIALS = 100_000


@dataclass(frozen=True)
class SearchOptions(Limited, ClassificationConfig):
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
    and of whatever else the encoder and embedding use; table: that of the paper's tables, a few
    values each, with what only some embeddings have."""
    trials: Annotated[int, (1, MAX_TRIALS)] = 20
    """Number of trials of the search, all commands and processes together."""
    jobs: Annotated[int, (1, MAX_JOBS)] = 2
    """Trials at once, one process and thread each."""
    out: Path = Path("out/search")
    """Folder for the records, best.yaml and trials.csv."""


def search(args: list[str], prog: str) -> None:
    """`wordwave search`"""
    options, config = options_from(args, prog, SearchOptions, ClassificationConfig)
    try:
        import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise WordwaveError("search needs optuna: pip install 'wordwave[search]'") from None
    parts = load_without_test(config)
    run_search(SearchPlan(config, options.space, parts, options.out, options.trials), options.jobs)


def load_without_test(config: ClassificationConfig) -> Splits:
    """Training and validation examples; a test file is not even opened."""
    from wordwave.search.compare import load_for_selection

    is_file = config.data.data not in names("classification")
    data = replace(config.data, test=None) if is_file else config.data
    return replace(load_for_selection(data), test=None)


def run_search(plan: SearchPlan, jobs: int) -> None:
    """Run the missing trials with a progress bar, and report."""
    console, grid = Console(), plan.grid
    varied = ", ".join(setting.name for setting in plan.varied)
    console.print(f"Search space {plan.space}: {varied}")
    if plan.total < plan.n_trials:
        console.print(f"This search space has only {plan.total} combinations.")

    def best(_: Record) -> str:
        found = [dev_score(result) for result in plan.ranked()[:1]]
        return f"best dev {plan.score} {found[0]:.4f}" if found else ""

    options: dict[str, Any] = {"n_jobs": jobs, "start": ProcessWorkers, "on_record": best}
    try:
        with completed(grid, console, **options) as (results, note):
            if not plan.ranked():
                raise WordwaveError(f"no trial was completed: {results[0]['stopped']}")
            written = write_files(plan)
            console.print(best_table(plan.ranked()[:5], plan.score).to_rich())
            if weights := importances(plan):
                console.print("Importance of the settings: " + weights)
            console.print(note + "Written: " + ", ".join(map(str, written)))
            console.print(f"Next: wordwave train classify --config {written[0]}")
    except KeyboardInterrupt:
        write_files(plan)
        raise KeyboardInterrupt(
            f"stopped with {len(plan.results())} of {plan.total} trials in '{plan.folder}'; "
            "run the same command again to resume"
        ) from None
