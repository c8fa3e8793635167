"""`wordwave search`: good settings for a classifier, by trial."""

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
from wordwave.grid import MOST_JOBS
from wordwave.search.space import SpaceName
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.cli.console import Console
    from wordwave.data.splits import Splits
    from wordwave.search.study import SharedStudy
    from wordwave.search.trials import Search

MOST_TRIALS = 100_000


@dataclass(frozen=True)
class SearchOptions(ClassificationConfig):
    """Search for good settings: trials draw some from a pool and are judged on dev examples.

    No trial sees the test part. The same command goes on where it stopped, or joins in where it
    runs; more --trials add to those that are there. Of the settings below, those that the pool
    varies are those of the first trial.
    """

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or a recipe
    that comes along: fasttext, cnn, lstm, transformer. Flags count more."""
    pool: SpaceName = "wide"
    """paper: batch size, learning rate, weight decay, hidden units and filters of the paper;
    narrow: learning rate, dropout and word dropout; wide: more values, also of the read-out and
    whatever else the encoder and embedding use."""
    trials: int = 20
    """How many trials the study shall have, all commands and processes together."""
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
    for name, most in (("trials", MOST_TRIALS), ("jobs", MOST_JOBS)):
        value = getattr(options, name)
        if not 1 <= value <= most:
            rule = "at least 1" if value < 1 else f"at most {most}"
            raise WordwaveError(f"{name} must be {rule}, got {value}")
    try:
        import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise WordwaveError("search needs optuna: pip install 'wordwave[search]'") from None
    from wordwave.search.trials import Search

    config = ClassificationConfig(options.data, options.text, options.model, options.training)
    parts = load_without_test(config)
    run_search(Search(config, options.pool, parts, options.out, options.trials), options.jobs)


def load_without_test(config: ClassificationConfig) -> Splits:
    """Training and dev examples; a test file of one's own is not even opened."""
    from wordwave.data.registry import CATALOGUE

    data = config.data if config.data.data in CATALOGUE else replace(config.data, test=None)
    from wordwave.tasks.classification import load_examples

    return replace(load_examples(data), test=None)


def run_search(plan: Search, jobs: int) -> None:
    """Make the trials that are missing, with a bar, and report."""
    from wordwave.cli.console import Console
    from wordwave.search.trials import best_table, importances, run_workers, write_files

    console, shared = Console(), plan.open()
    n_missing = plan.total - len(shared.finished())
    names = ", ".join(setting.name for setting in plan.varied)
    console.print(f"Pool {plan.pool}: {names}", highlight=False)
    if plan.total < plan.n_trials:
        console.print(f"This pool has only {plan.total} combinations.", highlight=False)
    try:
        if n_missing > 0:
            with trials_bar(plan.total, shared, console) as look:
                for _ in run_workers(plan, min(jobs, n_missing)):
                    look()
    except KeyboardInterrupt:
        write_files(plan, shared)
        raise KeyboardInterrupt(
            f"stopped with {len(shared.finished())} of {plan.total} trials in '{plan.folder}'; "
            "the same command goes on"
        ) from None
    finished = shared.finished()
    if len(finished) < plan.total:
        at = ", ".join(str(slot + 1) for slot in shared.abandoned())
        raise WordwaveError(
            f"each worker was killed twice{at and f', at last in trial {at}'} (is memory short?); "
            f"{len(finished)} of {plan.total} trials are kept, run the same command again to resume"
        )
    if not shared.ranked():
        raise WordwaveError(f"no trial came to an end: {finished[0].user_attrs.get('stopped')}")
    written = write_files(plan, shared)
    console.print(best_table(shared.ranked()[:5]))
    if weights := importances(shared):
        console.print("What mattered: " + weights, highlight=False, soft_wrap=True)
    console.print("Written: " + ", ".join(map(str, written)), highlight=False, soft_wrap=True)
    next_step = f"Next: wordwave train classify --config {written[0]}"
    console.print(next_step, highlight=False, soft_wrap=True)


@contextmanager
def trials_bar(total: int, shared: SharedStudy, console: Console) -> Iterator[Callable[[], None]]:
    """A bar over the trials of a study, and what to call for it to look at them."""
    from wordwave.cli.progress import COUNT, progress

    with progress("trials", console, COUNT, "best dev accuracy {task.fields[best]}") as bar:
        task = bar.add_task("", total=total, completed=len(shared.finished()), best="-")

        def look() -> None:
            best = shared.ranked()[:1]
            shown = f"{best[0].value:.4f}" if best else "-"
            bar.update(task, completed=len(shared.finished()), best=shown)

        yield look
