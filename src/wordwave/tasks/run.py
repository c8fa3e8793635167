"""The interface of every task: a model that is used on texts, and the job that trains it."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from wordwave.config_io import REPLACING, conform, flatten, read_json, task_of, with_settings
from wordwave.errors import WordwaveError
from wordwave.files import check_writable, write_text
from wordwave.memory import check_training_fits
from wordwave.migrate import may_be_default
from wordwave.models.utils import count_fitted
from wordwave.tasks.run_folder import (
    RESULT,
    WEIGHTS,
    Precision,
    is_signed,
    locked_folder,
    read_config,
    reading,
    save_config,
    sign,
    stored,
)
from wordwave.tensor_files import write_tensors
from wordwave.training.devices import Processes, launched_processes
from wordwave.training.loop import Epoch, Step, Training
from wordwave.training.run import (
    CHECKPOINT,
    Watch,
    checkpoint_data,
    is_seen,
    train_in_folder,
)

M = TypeVar("M", bound="TextModel")
J = TypeVar("J", bound="Job[Any, Any]")
Config = TypeVar("Config")
Data = TypeVar("Data")
"""Training, validation and test data."""


class TextModel(ABC):
    """A network with all that is needed to use it on texts: a tokenizer or alphabet, a config."""

    task: ClassVar[str]
    """Its name in `wordwave train TASK`."""
    config_class: ClassVar[type]
    model: nn.Module
    config: Any

    def save(self, folder: str | Path, dtype: Precision = "float32") -> None:
        """Write config.yaml, the vocabulary as JSON and the weights as safetensors.

        Args:
            dtype: of the tables of words, bigrams and n-grams in the file; float16 takes half the
                space, but for a table with values that are too large. Loaded weights are float32.
        """
        folder, weights = Path(folder), stored(self.model.state_dict(), dtype)
        check_writable(folder / WEIGHTS)
        # Weights of an earlier model must not be combined with this vocabulary.
        (folder / WEIGHTS).unlink(missing_ok=True)
        self.save_without_weights(folder)
        self.save_weights(folder, weights)

    def save_without_weights(self, folder: Path) -> None:
        """Write what is known before training."""
        save_config(folder, self.task, self.config)
        self.save_vocabulary(folder)

    @abstractmethod
    def save_vocabulary(self, folder: Path) -> None:
        """Write how texts become ids."""

    def save_weights(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """Write the model's weights, or others of the same shapes, such as the best so far."""
        weights = self.model.state_dict() if weights is None else weights
        write_tensors(folder / WEIGHTS, weights, format="pt")

    @classmethod
    def load(cls: type[M], folder: str | Path) -> M:
        """Read what `save` wrote, or a run of `wordwave train`."""
        folder = Path(folder)
        config: Any = read_config(folder, cls.task, cls.config_class)
        if not (folder / WEIGHTS).exists():
            remedy = "run the command that trains it again to resume"
            raise WordwaveError(f"'{folder}' holds no trained model yet: {remedy}")
        return cls.load_parts(folder, config)

    @classmethod
    @abstractmethod
    def load_parts(cls: type[M], folder: Path, config: Any) -> M:
        """Read the vocabulary and the weights."""


class Evaluation(NamedTuple):
    """The scores of a model on some data: as JSON values, and in lines for people."""

    scores: dict[str, Any]
    lines: list[str]


class Job(ABC, Generic[Config, Data]):
    """A task with a config: how its data is loaded, its model made, trained, saved and scored.

    job = ClassificationJob(config)
    job.prepare(job.load_data()).train(folder)

    job = ClassificationJob.from_run(folder)
    job.evaluate(job.test_data(folder))
    """

    model_class: ClassVar[type[TextModel]]
    result_schema: ClassVar[Any]
    """A `TypedDict` of the keys of result.json that `summary` uses."""
    unit: ClassVar[str] = "words"
    """What training counts."""
    counts_epochs: ClassVar[bool] = False
    """Whether progress is shown in epochs, not in steps."""
    next_command: ClassVar[str]
    """An example of what to do with a finished `{run}`."""

    text_model: Any
    """Set by `prepare` and `from_run`."""
    task: Any
    """A `training.loop.Task`, set by `prepare`."""
    fingerprint: str
    """Of the data, set by `prepare`."""

    def __init__(self, config: Config) -> None:
        self.config: Any = config
        self.given: Collection[str] = ()
        """The settings that the user gave, by the names of their flags, even if as by default."""
        self.notes: list[str] = []
        """What the user should know about the data."""

    @classmethod
    def from_run(cls: type[J], folder: Path) -> J:
        """The job of a finished run, ready to evaluate."""
        text_model = cls.model_class.load(folder)
        job = cls(text_model.config)
        job.text_model = text_model
        return job

    @abstractmethod
    def load_data(self) -> Data:
        """Training, validation and test data, as the config says."""

    @abstractmethod
    def prepare(self: J, data: Data) -> J:
        """Make the vocabulary and the model, from the training data only, and encode the data.

        The model depends on the config and the data, not on the global random state.
        """

    def built(self, build: Callable[[], Any], remedy: str) -> Any:
        """A model with initial weights of the seed; `remedy` says how to make it fit in memory."""
        check_training_fits(build, remedy, row_sparse=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.training.seed)
            return build()

    def run(self, training: Training) -> Iterator[Step | Epoch]:
        """Train in memory to the end, with a report after each step, and complete the model."""
        yield from training.run()
        self.complete()

    def complete(self) -> None:
        """What follows a training, whose best weights have been loaded, before it is scored."""

    @property
    def more_trainings(self) -> float:
        """How many trainings `complete` takes as long as, about."""
        return 0.0

    @abstractmethod
    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        """The scores of a finished training, whose best weights have been loaded.

        The test set is scored here and nowhere else.
        """

    def result(
        self, training: Training, metrics: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        """The content of result.json."""
        progress = training.progress
        seconds = [r["seconds"] for r in metrics]
        speeds = [r["words_per_second"] for r in metrics]
        return {
            **self.final_scores(training, folder),
            "examples": self.fingerprint,
            "best_epoch": progress.best_epoch,
            "best_step": progress.best_step,
            "epochs": progress.epoch,
            "steps": progress.step,
            "parameters": count_fitted(self.text_model.model),
            "seconds": round(sum(seconds), 1),
            "epoch_seconds": median(seconds) if metrics else None,
            f"{self.unit}_per_second": median(speeds) if metrics else None,
        }

    @property
    @abstractmethod
    def run_name(self) -> str:
        """The default name of the run folder."""

    def summary(self, result: dict[str, Any]) -> list[str]:
        """A result in lines for people."""
        speed = result[f"{self.unit}_per_second"]
        shown = "" if speed is None else f", {speed:,.0f} {self.unit}/s in training"
        return [*self.describe(result), f"{result['parameters']:,} parameters{shown}"]

    @abstractmethod
    def describe(self, result: dict[str, Any]) -> list[str]:
        """The scores of a result in lines for people."""

    @abstractmethod
    def read_data(self, **files: Any) -> Any:
        """Data to evaluate on, from files."""

    def test_data(self, folder: Path, *, trusted: bool = False) -> Any:
        """Data to evaluate on, as the config of a run names it: its test set.

        Args:
            trusted: open the files that it names even if the run was not trained here.
        """
        self.check_signed(folder, trusted=trusted)
        return self.test_part(self.load_data(), folder)

    def check_test_data(self, folder: Path) -> None:
        """Raise if it is known, before any data is read, that a run has none to evaluate on."""

    @abstractmethod
    def test_part(self, data: Data, folder: Path) -> Any:
        """The part of the data of a run to evaluate on."""

    @abstractmethod
    def evaluate(self, data: Any, **options: Any) -> Evaluation:
        """Score the model on data of `read_data` or `test_data`."""

    @property
    def may_differ(self) -> tuple[str, ...]:
        """Settings that follow from the data, not from the config."""
        return ()

    @property
    def scored_at_end(self) -> str:
        """What `result` will score, if that takes long."""
        return ""

    def show_loss(self, loss: float) -> str:
        """The loss of a step, beside the progress bar."""
        return f"loss {loss:.4f}"

    def show_scores(self, report: Epoch) -> str:
        """An evaluation during training, in one line."""
        scores = ", ".join(f"{name} {value:.4f}" for name, value in report.scores.items())
        return f"loss {report.loss:.4f}" + (f"  validation {scores}" if scores else "")

    def check_config(self, folder: Path) -> None:
        """Raise if a run was started in this folder with other settings."""
        if folder.exists() and not folder.is_dir():
            raise WordwaveError(f"'{folder}' is a file, not a run folder: choose another --out")
        if not (folder / "config.yaml").exists():
            return
        task, kind = self.model_class.task, type(self.config)
        there, here, usual = map(flatten, (read_config(folder, task, kind), self.config, kind()))
        taken = {  # not given: as the run has it
            name: there[name]
            for name in may_be_default(there, task)
            if name not in self.given and here[name] == usual[name]
        }
        config: Any = with_settings(self.config, **taken)
        for name, value in flatten(config).items():
            if there[name] != value and name not in self.may_differ:
                raise WordwaveError(
                    f"'{folder}' holds a run with {name} {there[name]!r}, here it is {value!r}: "
                    "choose another --out, or replace that run with --overwrite"
                )
        self.config = config

    def is_replaced(self, folder: Path) -> bool:
        """Whether `overwrite` replaces what a folder holds: a run that is finished or of other
        settings. Files that are not of a run are refused."""
        if (folder / REPLACING).exists():
            return True
        if not (folder / "config.yaml").exists():
            return False
        if task_of(folder) not in _JOBS:
            raise WordwaveError(f"'{folder / 'config.yaml'}' is not of a run: choose another --out")
        config = self.config
        try:
            self.check_config(folder)
        except WordwaveError:
            return True
        if not (folder / RESULT).exists():
            return False
        self.config = config  # without what was taken over from the run
        return True

    def resumes(self, folder: Path) -> bool:
        """Whether a checkpoint in a folder, if there is one, is of this data."""
        path = folder / CHECKPOINT
        return not path.exists() or checkpoint_data(path) == self.fingerprint

    def finished(self, folder: Path) -> dict[str, Any] | None:
        """The result of a finished run, `None` for one in progress."""
        path = folder / RESULT
        if not path.exists():
            return None
        with reading(path, "is not the result of a run (remove it to train again)"):
            result: dict[str, Any] = conform(read_json(path), self.result_schema, where="it")
        return result

    def check_signed(self, folder: Path, *, trusted: bool = False) -> None:
        """Raise unless the data that the config of a run names may be opened."""
        names = self.config.data.files
        if names and not trusted and not is_signed(folder, names):
            shown = ", ".join(repr(name[:200]) for name in names)
            raise WordwaveError(
                f"'{folder}' was not trained here, and its config.yaml names {shown}: nothing is "
                "opened; name the data to score (evaluate --help), or open that with --trust-data"
            )

    def training(self, processes: Processes | None = None) -> Training:
        """The training loop, before its first step."""
        return Training(
            self.text_model.model,
            self.task,
            self.text_model.config.training,
            examples=self.fingerprint,
            processes=processes or launched_processes(),
        )

    def train(
        self,
        folder: Path,
        *,
        processes: Processes | None = None,
        save_every: float = 60.0,
        watch: Watch | None = None,
        replaces: bool = False,
    ) -> dict[str, Any]:
        """Train in a run folder, resuming if it was stopped; returns the result, which only the
        main process has.

        Args:
            save_every, watch: as in `train_in_folder`.
            replaces: remove the run that the folder holds, instead of resuming it.
        """
        text_model, training = self.text_model, self.training(processes)
        if not training.processes.is_main_process:
            if replaces:
                training.processes.wait_for_everyone()
            train_in_folder(folder, training, save_every=save_every, watch=watch)
            return {}
        with locked_folder(folder, replaces=replaces):
            if not (folder / "state").exists():
                text_model.save_without_weights(folder)
                sign(folder, self.config.data.files)
            (folder / REPLACING).unlink(missing_ok=True)  # what it holds is of the new run
            if replaces:
                training.processes.wait_for_everyone()
            try:
                metrics = train_in_folder(folder, training, save_every=save_every, watch=watch)
                self.complete()
            except KeyboardInterrupt:
                if training.best:
                    text_model.save_weights(folder, training.best)
                raise
            text_model.save_weights(folder)  # scoring may take long, and be interrupted
            if watch is not None and self.scored_at_end:
                is_seen(f"Scoring {self.scored_at_end} …", watch)
            result = self.result(training, metrics, folder)
            text_model.save_without_weights(folder)  # in case a file was removed in the meantime
            sign(folder, self.config.data.files)
            text_model.save_weights(folder)
            write_text(folder / RESULT, json.dumps(result, indent=2) + "\n")
            shutil.rmtree(folder / "state", ignore_errors=True)
            return result


_JOBS = {
    "classify": ("wordwave.tasks.classification_job", "ClassificationJob"),
    "match": ("wordwave.tasks.matching", "MatchingJob"),
    "embed": ("wordwave.tasks.sentence_embedding", "SentenceEmbeddingJob"),
    "translate": ("wordwave.tasks.translation", "TranslationJob"),
    "lm": ("wordwave.tasks.language_modelling", "LanguageModelJob"),
}


def job_class(task: str) -> type[Job[Any, Any]]:
    """The job of `wordwave train TASK`."""
    module, name = _JOBS[task]
    found: type[Job[Any, Any]] = getattr(import_module(module), name)
    return found
