"""A run folder, whatever the task: config.yaml, model.safetensors, result.json, state/."""

from __future__ import annotations

import json
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from filelock import Timeout
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from wordwave import __version__
from wordwave.config_io import conform, dump_yaml, from_dict, read_json, to_dict
from wordwave.errors import WordwaveError
from wordwave.files import (
    check_inside,
    check_place,
    locked,
    naming,
    remove_unfinished,
    write_text,
)
from wordwave.tasks.config import run_config
from wordwave.tasks.made_here import MARK, mark
from wordwave.tensor_files import TensorFile, check_like, write_tensors
from wordwave.training.distributed import Processes, launched_processes
from wordwave.training.loop import Training
from wordwave.training.run import Watch, is_seen, train_in_folder
from wordwave.training.task import Note, Task

C = TypeVar("C")
M = TypeVar("M", bound=nn.Module)

WEIGHTS = "model.safetensors"


def save_config(folder: Path, task: str, config: Any) -> None:
    """Write config.yaml."""
    about = {"task": task, "version": __version__, **to_dict(config)}
    write_text(folder / "config.yaml", dump_yaml(about))


def read_config(folder: Path, task: str, kind: type[C]) -> C:
    """The config of a run folder of a task."""
    plain = run_config(folder)
    found = plain.pop("task")
    plain.pop("version", None)
    if found != task:
        uses = {"classify": "predict", "translate": "translate", "lm": "generate"}
        hint = f"; wordwave {uses[found]} takes it" if found in uses else ""
        raise WordwaveError(f"'{folder}' is a run of {found!r}, wanted one of {task!r}{hint}")
    return from_dict(kind, plain, where=f"'{folder / 'config.yaml'}'")


def check_trained(folder: Path) -> None:
    """Refuse a run that has no weights yet."""
    if not (folder / WEIGHTS).exists():
        raise WordwaveError(
            f"'{folder}' holds no trained model yet: the command that trains it goes on"
        )


def save_weights(
    folder: Path, task: str, model: nn.Module, weights: dict[str, Tensor] | None = None
) -> None:
    """The model's weights, or others of the same shapes, such as the best so far."""
    weights = model.state_dict() if weights is None else weights
    write_tensors(folder / WEIGHTS, weights, format="pt")


def load_model(folder: Path, build: Callable[[], M], *, dim: int) -> M:
    """The model of a run, ready to use.

    Args:
        dim: the width of its embedding.
        build: makes the model that config.yaml describes, with any weights. It is called for the
            second time, and takes memory, only if the weights are those of such a model.
    """
    path = folder / WEIGHTS
    try:
        file = TensorFile(path)
        largest = max((tensor.numel() for tensor in file.outlines.values()), default=0)
        if dim > largest:  # some starting values are computed by Python, number by number
            raise WordwaveError(
                f"size mismatch: dim is {dim}, the largest tensor has {largest:,} numbers"
            )
        check_like(file.outlines, _outlines(build, 2 * len(file.outlines) + 10, largest))
        weights = file.load()
    except ValueError as problem:
        raise WordwaveError(f"'{path}' does not hold this model: {problem}") from None
    model = build()
    model.load_state_dict(weights)
    return model.eval()


def _outlines(build: Callable[[], nn.Module], most: int, largest: int) -> dict[str, Tensor]:
    """The names, dtypes and shapes of a model's weights, without making room for their numbers."""
    try:
        with _no_more_than(most, largest), torch.device("meta"):
            return build().state_dict()
    except (RuntimeError, OverflowError, TypeError) as problem:  # sizes that torch cannot count
        reason = str(problem).splitlines()[0][:200]
        raise WordwaveError(f"config.yaml describes none ({reason})") from None


@contextmanager
def _no_more_than(most: int, largest: int) -> Iterator[None]:
    """Stop building a model at the first parameter that a file of weights cannot have: a million
    layers take long even without numbers."""
    thread, n = threading.get_ident(), 0

    def check(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal n
        if parameter is None or threading.get_ident() != thread:
            return
        n += 1
        if n > most:
            raise WordwaveError(f"size mismatch: config.yaml describes more than {most:,} tensors")
        if parameter.numel() > largest:
            raise WordwaveError(
                f"size mismatch: the largest tensor has {largest:,} numbers, that of the model "
                f"{parameter.numel():,}"
            )

    hook = register_module_parameter_registration_hook(check)
    try:
        yield
    finally:
        hook.remove()


def check_same(folder: Path, task: str, config: Any, *, but: tuple[str, str] | None = None) -> None:
    """Refuse to go on with a run that was begun with other settings.

    Args:
        but: part and name of a setting that may differ.
    """
    if folder.exists() and not folder.is_dir():
        raise WordwaveError(f"'{folder}' is a file, not the folder of a run: choose another --out")
    if not (folder / "config.yaml").exists():
        return
    there = to_dict(read_config(folder, task, type(config)))
    for part, settings in to_dict(config).items():
        for name, value in settings.items():
            if there[part][name] != value and (part, name) != but:
                raise WordwaveError(
                    f"'{folder}' holds a run with {name} {there[part][name]!r}, here it is "
                    f"{value!r}: choose another --out, or remove that folder"
                )


def finished(folder: Path, figures: Any) -> dict[str, Any] | None:
    """The figures of a finished run, `None` for one under way.

    Args:
        figures: the `TypedDict` that result.json must be.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = read_json(path)
        conform(result, figures, where="it")
    except ValueError as problem:
        raise WordwaveError(
            f"'{path}' is not the result of a run ({problem}); remove it to train anew"
        ) from None
    return result


class Trained(ABC):
    """A model and all it takes to use it: how texts become ids, how it was trained.

    A class that derives from it has a `load` that reads what `save` wrote.
    """

    task: ClassVar[str]
    """What `wordwave train` calls it."""
    model: nn.Module
    config: Any

    def save(self, folder: Path) -> None:
        """Write files that other tools can read: config.yaml, words as JSON, weights as
        safetensors."""
        check_place(folder / WEIGHTS)
        # Weights of an earlier model must not be taken for those of these words.
        (folder / WEIGHTS).unlink(missing_ok=True)
        self.save_all_but_weights(folder)
        self.save_weights(folder)

    @abstractmethod
    def save_all_but_weights(self, folder: Path) -> None:
        """What is known before training."""

    def save_weights(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """The model's weights, or others of the same shapes, such as the best so far."""
        save_weights(folder, self.task, self.model, weights)


LOCK = ".training.lock"
WRITTEN = (
    *("config.yaml", "vocab.json", "tokenizer.json", "casing.json", MARK, "metrics.jsonl"),
    *("tensorboard", "state", "state/state.safetensors", "model.safetensors", "test.jsonl"),
    *("result.json", LOCK),
)
"""Names in a run folder that a training may write."""


class Prepared(ABC):
    """All that a training needs, and what the user should know of it."""

    task: Task
    notes: list[str]
    fingerprint: str
    """Of the examples."""

    @property
    @abstractmethod
    def trained(self) -> Trained:
        """What will be trained, and kept."""

    @property
    def to_score(self) -> str:
        """What `result` will score, if that takes its time."""
        return ""

    @abstractmethod
    def result(
        self, training: Training, journal: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        """The figures of a finished training, whose best weights are in the model.

        The test part is scored here, and nowhere else.
        """


def train(
    prepared: Prepared,
    folder: Path,
    *,
    processes: Processes | None = None,
    save_every: float = 60.0,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train in a run folder, from where it was left; the figures of the finished run, which only
    the main process has.

    Args:
        save_every, watch: as in `train_in_folder`.
    """
    trained = prepared.trained
    training = Training(
        trained.model,
        prepared.task,
        trained.config.training,
        examples=prepared.fingerprint,
        processes=processes or launched_processes(),
    )
    if not training.processes.is_main_process:
        train_in_folder(folder, training, save_every=save_every, watch=watch)
        return {}
    with _alone_in(folder):
        if not (folder / "state").exists():
            trained.save_all_but_weights(folder)
            mark(folder, trained.config.data.files)
        try:
            journal = train_in_folder(folder, training, save_every=save_every, watch=watch)
        except KeyboardInterrupt:
            if training.best:
                trained.save_weights(folder, training.best)
            raise
        trained.save_weights(folder)  # scoring may take long, and be stopped
        if watch is not None and prepared.to_score:
            is_seen(Note(f"Scoring {prepared.to_score} …"), watch)
        result = prepared.result(training, journal, folder)
        trained.save_all_but_weights(folder)  # some file may have been removed in the meantime
        mark(folder, trained.config.data.files)
        trained.save_weights(folder)
        write_text(folder / "result.json", json.dumps(result, indent=2) + "\n")
        shutil.rmtree(folder / "state", ignore_errors=True)  # it is not needed any more
        return result


def remove_remains(folder: Path) -> None:
    """Remove what a training that was killed after its last file has left of itself."""
    if (folder / "state").exists() or (folder / LOCK).exists():
        # Another process may be at it, or the folder read-only: nothing depends on this.
        with suppress(OSError), locked(folder / LOCK, timeout=0):
            remove_unfinished(folder)
            shutil.rmtree(folder / "state", ignore_errors=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse to train where another process does: they would write over each other."""
    path = folder / LOCK
    check_place(path)
    check_inside(folder, WRITTEN)
    with ExitStack() as held:
        try:
            with naming(folder):
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(path, timeout=0))
        except Timeout:
            raise WordwaveError(
                f"another process is training in '{folder}': wait for it, or choose another --out"
            ) from None
        if (folder / "result.json").exists():
            raise WordwaveError(f"another process has just finished the run in '{folder}'")
        remove_unfinished(folder)
        remove_unfinished(folder / "state")
        yield
