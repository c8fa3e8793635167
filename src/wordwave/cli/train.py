"""`wordwave train TASK`: flags and recipes, a run folder, a progress bar, the result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from wordwave.cli.console import Console, UseThreads, parsed
from wordwave.cli.progress import COUNT, progress
from wordwave.config_io import from_dict, read_settings
from wordwave.errors import WordwaveError
from wordwave.recipes import C, read_recipe
from wordwave.tasks.config import (
    ClassificationConfig,
    LanguageModelConfig,
    MatchingConfig,
    SentenceEmbeddingConfig,
    TranslationConfig,
)

if TYPE_CHECKING:
    from wordwave.tasks.run import Job
    from wordwave.training.loop import Epoch, Step
    from wordwave.training.run import Watch


@dataclass(frozen=True)
class RunOptions(UseThreads):
    """Where a run is saved and what it may use."""

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or the name of
    a recipe. Flags take precedence."""
    out: Path | None = None
    """The run folder; by default one in runs/, named after data and model."""
    save_every: Annotated[float, (0, inf)] = 60.0
    """Seconds between two checkpoints; one is always saved at Ctrl-C."""


@dataclass(frozen=True)
class ClassifyOptions(RunOptions, ClassificationConfig):
    """Train a text classifier: embedding → encoder → read-out → classes.

    Stop it with Ctrl-C or kill it; run the same command again to resume. On several processes or
    machines: accelerate launch -m wordwave train classify …

    Recipes for --config: fasttext, cnn, lstm, transformer.
    """


@dataclass(frozen=True)
class MatchOptions(RunOptions, MatchingConfig):
    """Train a matcher of sentence pairs: paraphrase or not, any classes, or a similarity.

    Each sentence becomes a vector, by default three sums of waves, at the price of a bag of words;
    two vectors are compared by a small network. Validation pairs share no sentence with training
    pairs. Stop it with Ctrl-C or kill it; run the same command again to resume.

    wordwave train match --data pairs.tsv --text-a question --text-b other --label duplicate
    """


@dataclass(frozen=True)
class EmbedOptions(RunOptions, SentenceEmbeddingConfig):
    """Train a sentence encoder: vectors that encode word order, at the speed of a bag of words.

    It imitates the vectors of a teacher, or without one learns from the sentences alone, and it
    learns to tell a sentence from other orders of its words. Stop it with Ctrl-C or kill it; run
    the same command again to resume.

    wordwave train embed --data sentences.txt --teacher vectors.npy
    """


@dataclass(frozen=True)
class TranslateOptions(RunOptions, TranslationConfig):
    """Train a translation model: subwords → encoder → decoder → subwords.

    Without options: English to German on built-in user-interface sentences, nothing is downloaded.
    Stop it with Ctrl-C or kill it; run the same command again to resume. On several processes or
    machines: accelerate launch -m wordwave train translate …

    Recipes for --config: translate-tiny-real, -tiny-complex, -tiny-complex-chosen, -tiny-aed,
    -paper-real, -paper-complex.
    """


@dataclass(frozen=True)
class LmOptions(RunOptions, LanguageModelConfig):
    """Train a character-level language model: Transformer-XL, real or with waves.

    Without options: on the help texts of Python, some minutes on one core, nothing is downloaded.
    Stop it with Ctrl-C or kill it; run the same command again to resume. On several processes or
    machines: accelerate launch -m wordwave train lm …

    Recipes for --config: lm-small-complex, lm-small-real, lm-paper, lm-paper-complex.
    """


def _train(kind: type[RunOptions], args: list[str], prog: str) -> None:
    """Train in a run folder, resuming if it was stopped, and show the result."""
    config_class: Any = kind.__bases__[1]
    options, config = options_from(args, prog, kind, config_class)
    from wordwave.tasks.run import job_class
    from wordwave.tasks.run_folder import clean_up
    from wordwave.training.devices import launched_processes
    from wordwave.training.run import TrainingStopped

    options.set_threads()
    processes = launched_processes()
    console = Console(quiet=not processes.is_main_process)
    job = job_class(config.task)(config)
    folder = options.out or Path("runs") / job.run_name
    job.check_config(folder)
    result = job.finished(folder)
    if result is not None:
        _check_same_data(job, result, folder)
        console.print(f"{folder} is finished already.")
        if processes.is_main_process:
            clean_up(folder)
    else:
        job.prepare(job.load_data())
        for note in job.notes:
            console.print(note)
        if (folder / "state").exists():
            console.print(f"Resuming in {folder}.")
        try:
            with training_bar(job, console) as watch:
                result = job.train(
                    folder, processes=processes, save_every=options.save_every, watch=watch
                )
        except TrainingStopped:
            raise TrainingStopped(
                f"stopped and saved in '{folder}'; run the same command again to resume"
            ) from None
    if result:
        next_command = job.next_command.format(run=folder)
        lines = [*job.summary(result), f"Written: {folder}", f"Next: {next_command}"]
        console.print("\n".join(lines))


classify, match, embed, translate, lm = (
    partial(_train, kind)
    for kind in (ClassifyOptions, MatchOptions, EmbedOptions, TranslateOptions, LmOptions)
)


def _check_same_data(job: Job[Any, Any], result: dict[str, Any], folder: Path) -> None:
    """Raise if the data of a finished run has changed since; it may be gone."""
    try:
        found = job.load_data().fingerprint()
    except (OSError, WordwaveError):
        return
    if result.get("examples") not in (None, found):
        raise WordwaveError(
            f"'{folder}' holds a finished run on other examples than its data has now: choose "
            "another --out, or remove that folder"
        )


@contextmanager
def training_bar(job: Job[Any, Any], console: Console) -> Iterator[Watch]:
    """A progress bar over the steps of a training, and a line for each evaluation."""
    from wordwave.training.loop import Step

    unit = "epoch {task.fields[epoch]}" if job.counts_epochs else "step " + COUNT
    columns = "{task.fields[loss]}  {task.fields[speed]:,.0f} " + f"{job.unit}/s"
    with progress(unit, console, columns, transient=True) as bar:
        task = bar.add_task("", total=1, epoch="1", loss="", speed=0.0)
        began, n_words, epoch = time.monotonic(), 0, 1

        def watch(report: Step | Epoch | str) -> None:
            nonlocal began, n_words, epoch
            if isinstance(report, str):
                console.print(report)
                return
            if isinstance(report, Step):
                n_words += report.n_words
            speed = n_words / max(time.monotonic() - began, 1e-9)
            if isinstance(report, Step):
                bar.update(
                    task,
                    total=report.n_steps,
                    completed=report.step,
                    epoch=f"{min(epoch, report.n_epochs)}/{report.n_epochs}",
                    loss=job.show_loss(report.loss),
                    speed=speed,
                )
                return
            at = f"epoch {report.epoch:>3}" if job.counts_epochs else f"step {report.step:>6}"
            best = "  best" if report.is_best else ""
            console.print(f"{at}  {job.show_scores(report)}  {speed:,.0f} {job.unit}/s{best}")
            began, n_words, epoch = time.monotonic(), 0, report.epoch + 1

        yield watch


O = TypeVar("O")  # noqa: E741


def options_from(args: Sequence[str], prog: str, options: type[O], config: type[C]) -> tuple[O, C]:
    """The options and the config in them: flags, then --config, then defaults."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # if the value is missing, tyro explains it
    file = parser.parse_known_args(args)[0].config
    names = [field.name for field in fields(config)]  # type: ignore[arg-type]
    settings: dict[str, Any] = {}
    if file is not None:
        found = read_config(file, config)
        settings = {"config": file, **{name: getattr(found, name) for name in names}}
    given = parsed(options, args, prog, default=options(**settings))
    return given, config(**{name: getattr(given, name) for name in names})


def read_config(given: str, config: type[C]) -> C:
    """The settings in a YAML file, or in a recipe."""
    path, task = Path(given), config.task
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise WordwaveError(f"there is no config file '{path}'")
        return read_recipe(given, config)
    plain = {k: v for k, v in read_settings(path).items() if k != "version"}
    found = plain.pop("task", task)
    if found != task:
        raise WordwaveError(f"'{path}' is a config of {found!r}, expected one of {task!r}")
    return from_dict(config, plain, where=f"'{path}'")
