"""A run folder, whatever the task: config.yaml, model.safetensors, result.json, state/."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from wordwave import __version__
from wordwave.files import check_place, write_text, write_whole
from wordwave.plain import dump_yaml, from_plain, to_plain
from wordwave.tasks.kind import run_config
from wordwave.training.journal import read_journal
from wordwave.training.loop import Training
from wordwave.training.run import Watch, train_in
from wordwave.training.settings import TrainingSettings
from wordwave.training.task import Task

if TYPE_CHECKING:
    from accelerate import Accelerator

C = TypeVar("C")
M = TypeVar("M", bound=nn.Module)


class Saved(Protocol):
    """A model of a task, as far as a run folder is concerned."""

    @property
    def model(self) -> nn.Module:
        """What is trained."""

    def save_words(self, folder: Path) -> None:
        """All but the weights: what is known before training."""

    def save_weights(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """The model's weights, or others of the same shapes."""


def save_config(folder: Path, task: str, config: Any) -> None:
    """Write config.yaml."""
    about = {"task": task, "version": __version__, **to_plain(config)}
    write_text(folder / "config.yaml", dump_yaml(about))


def read_config(folder: Path, task: str, kind: type[C]) -> C:
    """The config of a run folder of a task."""
    plain = run_config(folder)
    found = plain.pop("task", None)
    plain.pop("version", None)
    if found != task:
        uses = {"classify": "predict", "translate": "translate", "lm": "generate"}
        hint = f"; wordwave {uses[found]} takes it" if found in uses else ""
        raise ValueError(f"'{folder}' is a run of {found!r}, wanted one of {task!r}{hint}")
    return from_plain(kind, plain, where=f"'{folder / 'config.yaml'}'")


def check_trained(folder: Path) -> None:
    """Refuse a run that has no weights yet."""
    if not (folder / "model.safetensors").exists():
        raise ValueError(f"'{folder}' holds no trained model yet: train it first")


def save_weights(
    folder: Path, task: str, model: nn.Module, weights: dict[str, Tensor] | None = None
) -> None:
    """The model's weights, or others of the same shapes, such as the best so far."""
    weights = model.state_dict() if weights is None else weights
    whole = {name: w.detach().cpu().contiguous() for name, w in weights.items()}
    header = {"format": "pt", "task": task}
    write_whole(folder / "model.safetensors", lambda new: save_file(whole, new, metadata=header))


def load_weights(folder: Path, model: M) -> M:
    """The model with the weights of a run, ready to use."""
    path = folder / "model.safetensors"
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as problem:
        reason = str(problem).splitlines()[-1].strip()[:200]
        raise ValueError(f"'{path}' does not hold this model: {reason}") from None
    return model.eval()


def check_same(folder: Path, task: str, config: Any, *, but: tuple[str, str] | None = None) -> None:
    """Refuse to go on with a run that was begun with other settings.

    Args:
        but: part and name of a setting that may differ.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'{folder}' is a file, not the folder of a run: choose another --out")
    if not (folder / "config.yaml").exists():
        return
    there = to_plain(read_config(folder, task, type(config)))
    for part, settings in to_plain(config).items():
        for name, value in settings.items():
            if there[part][name] != value and (part, name) != but:
                raise ValueError(
                    f"'{folder}' holds a run with {name} {there[part][name]!r}, here it is "
                    f"{value!r}: choose another --out, or remove that folder"
                )


def finished(folder: Path) -> dict[str, Any] | None:
    """The figures of a finished run, `None` for one under way."""
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(
            f"'{path}' is not the result of a run ({problem}); remove it to train anew"
        ) from None
    return result


def train_saved(
    saved: Saved,
    task: Task,
    settings: TrainingSettings,
    folder: Path,
    *,
    examples: str,
    figures: Callable[[Training, list[dict[str, Any]]], dict[str, Any]],
    accelerator: Accelerator | None,
    save_every: float,
    watch: Watch | None,
) -> dict[str, Any]:
    """Train in a run folder, from where it was left; the figures of the finished run, which only
    the main process has.

    Args:
        saved: the model that is trained.
        examples: their fingerprint.
        figures: makes them from the journal, when the best weights are in the model.
        save_every, watch: as in `train_in`.
    """
    options = {} if accelerator is None else {"accelerator": accelerator}
    training = Training(saved.model, task, settings, examples=examples, **options)
    if not training.accelerator.is_main_process:
        train_in(folder, training, save_every=save_every, watch=watch)
        return {}
    with _alone_in(folder):
        if not (folder / "state").exists():
            saved.save_words(folder)
        try:
            train_in(folder, training, save_every=save_every, watch=watch)
        except KeyboardInterrupt:
            if training.best:
                saved.save_weights(folder, training.best)
            raise
        result = figures(training, read_journal(folder / "metrics.jsonl"))
        saved.save_weights(folder)
        write_text(folder / "result.json", json.dumps(result, indent=2) + "\n")
        shutil.rmtree(folder / "state", ignore_errors=True)  # it is not needed any more
        return result


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse to train where another process does: they would write over each other."""
    path = folder / ".training.lock"
    lock = FileLock(path)  # ends with its process, be it by a kill
    check_place(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"another process is training in '{folder}': wait for it, or choose another --out"
        ) from None
    except OSError as problem:
        raise OSError(f"'{folder}' cannot be written: {problem.strerror}") from problem
    try:
        if finished(folder) is not None:
            raise ValueError(f"another process has just finished the run in '{folder}'")
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
