"""A training in a run folder, whatever the task: it goes on where it was, alone, to its figures."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import Timeout

from wordwave.files import (
    check_inside,
    check_place,
    locked,
    naming,
    remove_unfinished,
    write_text,
)
from wordwave.tasks.made_here import MARK, mark
from wordwave.tasks.trained import Trained
from wordwave.training.loop import Training
from wordwave.training.processes import Processes, launched_processes
from wordwave.training.run import Watch, is_seen, train_in
from wordwave.training.task import Note, Task

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
        save_every, watch: as in `train_in`.
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
        train_in(folder, training, save_every=save_every, watch=watch)
        return {}
    with _alone_in(folder):
        if not (folder / "state").exists():
            trained.save_all_but_weights(folder)
            mark(folder, trained.config.data.files)
        try:
            journal = train_in(folder, training, save_every=save_every, watch=watch)
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
            raise ValueError(
                f"another process is training in '{folder}': wait for it, or choose another --out"
            ) from None
        if (folder / "result.json").exists():
            raise ValueError(f"another process has just finished the run in '{folder}'")
        remove_unfinished(folder)
        remove_unfinished(folder / "state")
        yield
