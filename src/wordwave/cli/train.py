"""`wordwave train TASK`: flags and recipes, a run folder, a progress bar, the result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from wordwave.cli.console import Console, UseThreads, parsed
from wordwave.cli.progress import Clock, Display
from wordwave.cli.stream import check_files
from wordwave.config_io import flat, from_dict, read_settings
from wordwave.errors import WordwaveError
from wordwave.migrate import upgrade_flags
from wordwave.progress import TRAINING
from wordwave.recipes import FOLDER, C, read_recipe
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


BEST = "  best"
EVALUATIONS_EVERY = 0.05
"""The share of a training after which another evaluation is printed."""
TOLD_EVERY = 0.1
"""The share of a training without an evaluation after which a line tells how far it is."""


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
    overwrite: bool = False
    """Replace the run that the folder holds, finished or of other settings or data. An unfinished
    one of the same settings and data is resumed, so that the same command resumes here as well."""


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
    from wordwave.training.devices import end_process, launched_processes
    from wordwave.training.run import TrainingStopped, is_seen

    options.set_threads()
    processes = launched_processes()
    console = Console(quiet=not processes.is_main_process)
    job = job_class(config.task)(config)
    job.given = given_settings(args, options.config)
    folder = options.out or Path("runs") / job.run_name
    replaces = options.overwrite and job.is_replaced(folder)
    if not replaces:
        job.check_config(folder)
    result = None if replaces else job.finished(folder)
    with Display(console) as display:
        if result is not None:
            _check_same_data(job, result, folder)
            console.print(f"{folder} is finished already; --overwrite trains it again.")
            if processes.is_main_process:
                clean_up(folder)
        else:
            job.prepare(job.load_data())
            if options.overwrite:
                if not replaces and not job.resumes(folder):
                    replaces = True
                    if job.config != config:  # the run's share of the data was held out
                        job.config = config
                        job.prepare(job.load_data())
                processes.wait_for_everyone()  # until all have looked at what is there
            for note in job.notes:
                console.print(note)
            if replaces:
                console.print(f"Replacing the run in {folder}.")
            elif (folder / "state").exists():
                console.print(f"Resuming in {folder}.")
            shown = TrainingDisplay(job, display)
            try:
                result = job.train(
                    folder,
                    processes=processes,
                    save_every=options.save_every,
                    watch=shown.watch,
                    replaces=replaces,
                )
                is_seen("", shown.watch)
            except TrainingStopped:
                raise TrainingStopped(
                    f"stopped and saved in '{folder}'; run the same command again to resume"
                ) from None
    if result:
        next_command = job.next_command.format(run=folder)
        lines = [*job.summary(result), f"Written: {folder}", f"Next: {next_command}"]
        console.print("\n".join(lines))
    end_process(processes)


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
            "another --out, or replace that run with --overwrite"
        )


class TrainingDisplay:
    """A bar over the steps of a training, and at most about 20 lines of its evaluations."""

    def __init__(self, job: Job[Any, Any], display: Display) -> None:
        self.job, self.display = job, display
        self._clock: Clock | None = None
        self._began, self._n_words, self._epoch, self._share = time.monotonic(), 0, 1, 0.0
        self._due, self._line = 0.0, ""
        """The share of the training from which the next evaluation is printed, and the line of the
        best, or else the last, evaluation before."""

    def watch(self, report: Step | Epoch | str) -> None:
        """Show a report; an empty line ends the training."""
        from wordwave.training.loop import Step

        if isinstance(report, str):
            self._print()
            if report:
                self.display.print(report)
        elif isinstance(report, Step):
            self._show_step(report)
        else:
            self._show_evaluation(report)
        if self.display.is_closed:
            raise BrokenPipeError

    @property
    def _of_all(self) -> float:
        """What is done of all trainings, those that follow this one included."""
        return self._share / (1 + self.job.more_trainings)

    @property
    def _speed(self) -> str:
        speed = self._n_words / max(time.monotonic() - self._began, 1e-9)
        return f"{speed:,.0f} {self.job.unit}/s"

    def _show_step(self, step: Step) -> None:
        self._n_words += step.n_words
        self._share = share = step.step / step.n_steps
        clock = self._clock = self._clock or Clock(self._of_all)
        epoch = f"epoch {min(self._epoch, step.n_epochs)}/{step.n_epochs}"
        at = epoch if self.job.counts_epochs else f"step {step.step}/{step.n_steps}"
        shown = f"{self.job.show_loss(step.loss)}  {self._speed}"
        self.display.bar(TRAINING, share, at, shown)
        console = self.display.console
        if (
            not console.is_terminal
            and not self._line
            and clock.is_line_due(self._of_all, TOLD_EVERY)
        ):
            clock.tell(self._of_all)
            self.display.print(f"{at}  {shown}  {clock.left(self._of_all)} left")

    def _show_evaluation(self, report: Epoch) -> None:
        counts_epochs = self.job.counts_epochs
        at = f"epoch {report.epoch:>3}" if counts_epochs else f"step {report.step:>6}"
        if report.is_best or not self._line.endswith(BEST):
            keeps_last = getattr(getattr(self.job, "task", None), "keeps_last", False)
            best = BEST if report.is_best and not keeps_last else ""
            self._line = f"{at}  {self.job.show_scores(report)}  {self._speed}{best}"
        if self._share >= self._due:
            self._print()
        self._began, self._n_words, self._epoch = time.monotonic(), 0, report.epoch + 1

    def _print(self) -> None:
        if not self._line:
            return
        left = ""
        if self._clock is not None:
            self._clock.tell(self._of_all)
            is_shown = self._clock.first < self._of_all < 1 and not self.display.console.is_terminal
            left = f"  {self._clock.left(self._of_all)} left" if is_shown else ""
        self.display.print(self._line + left)
        self._line, self._due = "", self._share + EVALUATIONS_EVERY


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
    check_files(given.data)  # type: ignore[attr-defined]
    return given, config(**{name: getattr(given, name) for name in names})


def given_settings(args: Sequence[str], file: str | None) -> set[str]:
    """The settings that flags and --config give, by the names of the flags; null in a file stands
    for none.

    Args:
        file: of --config, which has been read.
    """
    found = set[str]()
    for word in upgrade_flags(args, lambda _: None):
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("-", "_")
            found |= {name, name.removeprefix("no_")}
    if file is not None:
        path = Path(file) if Path(file).is_file() else FOLDER / f"{file}.yaml"
        found |= {name for name, value in flat(read_settings(path)).items() if value is not None}
    return found


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
