"""The state of a training in one file, without pickle: tensors, and progress in the header."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as clipped
from types import FrameType
from typing import Any, TypedDict

import torch

from wordwave.config_io import MOST_JSON, conform, parse_json
from wordwave.errors import WordwaveError
from wordwave.files import naming, read_text, write_text
from wordwave.tensor_files import TensorFile, write_tensors
from wordwave.training.distributed import OneProcess
from wordwave.training.loop import Training
from wordwave.training.task import Epoch, Note, Step


def save_state(training: Training, path: Path) -> None:
    """Write all that is needed to resume; a kill at any moment leaves the state before."""
    tensors, progress = training.state()
    write_tensors(path, tensors, progress=json.dumps(progress))


def load_state(training: Training, path: Path) -> None:
    """Resume from a file of `save_state`; one that does not fit leaves the training as it was."""
    try:
        file = TensorFile(path)
        progress = parse_json(file.note.get("progress", ""))
        training.check_state(file.outlines, progress)
        training.load_state(file.load(), progress)
    except ValueError as problem:
        raise WordwaveError(
            f"'{path}' is not a state of this training ({problem}); remove it to start anew"
        ) from None


FIGURES = ("seconds", "words_per_second")
"""What every record of a training has besides its step."""


class MetricsLog:
    """Appends a record for every epoch; of a resumed run, it drops what will be repeated.

    Args:
        folder: gets `metrics.jsonl`, and `tensorboard/` where that package is installed.
        step: the step from which the run resumes.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.path = folder / "metrics.jsonl"
        found = read_metrics(self.path, FIGURES)
        self.records = [r for r in found if r["step"] <= step]
        self._write_all()
        self.board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with naming(folder / "tensorboard"):
            self.board = SummaryWriter(
                str(folder / "tensorboard"), purge_step=step + 1 if step else None
            )

    def write(self, step: int, **figures: float | bool | None) -> None:
        """Add one record."""
        record = {"step": step, **figures}
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.records.append(record)
        if self.board is not None:
            with naming(self.path.with_name("tensorboard")):
                for name, value in figures.items():
                    if value is not None:
                        self.board.add_scalar(name, value, step)
                self.board.flush()

    def close(self) -> None:
        self._write_all()  # someone may have removed the file in the meantime
        if self.board is not None:
            self.board.close()

    def _write_all(self) -> None:
        write_text(self.path, "".join(json.dumps(r) + "\n" for r in self.records))


def read_metrics(path: Path, figures: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The records of a journal; a last line cut short by a kill is left out.

    Args:
        figures: names of numbers that every record must have.
    """
    if not path.exists():
        return []
    try:
        *lines, _ = read_text(path, most=MOST_JSON).split("\n")
        return [_record(line, i, figures) for i, line in enumerate(lines, start=1)]
    except ValueError as problem:
        raise WordwaveError(
            f"'{path}' does not hold the figures of a training ({problem}); remove it to resume "
            "without the figures so far"
        ) from None


class _Record(TypedDict):
    step: int


def _record(line: str, number: int, figures: Iterable[str]) -> dict[str, Any]:
    where = f"line {number}"
    try:
        record: dict[str, Any] = parse_json(line)
    except ValueError as problem:
        raise WordwaveError(f"{where}: {problem}") from None
    conform(record, _Record, where=where)
    for name in figures:
        conform(record.get(name), float, where=f"{where}: {name}")
    for name, value in record.items():
        conform(value, float | bool | None, where=f"{where}: {clipped(name)}")
    return record


WORTH_SAVING = 10.0
"""Seconds of training that are not to be done again when scoring is stopped."""
Watch = Callable[[Step | Epoch | Note], None]


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and its state is saved."""


def train_in_folder(
    folder: Path, training: Training, *, save_every: float = 60.0, watch: Watch | None = None
) -> list[dict[str, Any]]:
    """Train to the end in a run folder, from where it was left; the journal's records, which only
    the main process has.

    Args:
        folder: holds `state/` while the training is under way, and the journal.
        save_every: seconds between two saved states; a stop always saves one, and so does the end
            of a long training, which is scored next.
        watch: told of every step and epoch.
    """
    state = folder / "state" / "state.safetensors"
    is_main = training.processes.is_main_process
    if state.exists():
        load_state(training, state)
    _check_all_at_one_step(training)
    journal = None
    if is_main:
        # A look at the dev part that the state does not know of comes again.
        last_look = training.progress.step - (training.progress.since_eval > 0)
        journal = MetricsLog(folder, last_look)
    saved = began = time.monotonic()
    before, words = training.progress.seconds, training.progress.n_words
    with _asked_to_stop() as asked:
        for report in training.run():
            now = time.monotonic()
            if isinstance(report, Epoch) and journal is not None:
                seconds = max(now - began, 1e-9)  # some clocks stand still for a while
                journal.write(
                    report.step,
                    epoch=report.epoch,
                    loss=report.loss,
                    **{f"dev_{name}": value for name, value in report.scores.items()},
                    seconds=round(before + seconds, 3),
                    words_per_second=round((training.progress.n_words - words) / seconds),
                )
                began, before, words = now, 0.0, training.progress.n_words
            unwatched = watch is not None and not is_seen(report, watch)
            stopping = _any_process(asked() or unwatched, training)
            if is_main and (stopping or now - saved >= save_every):
                training.progress.seconds = before + now - began
                save_state(training, state)
                saved = time.monotonic()
            if stopping:
                training.processes.wait_for_everyone()
                raise Stopped
    if journal is not None:
        if time.monotonic() - saved > WORTH_SAVING:
            save_state(training, state)  # scoring comes next, and may be stopped
        journal.close()
    return [] if journal is None else journal.records


def is_seen(report: Step | Epoch | Note, watch: Watch) -> bool:
    """Whether someone still reads what is told; a closed pipe is as good as Ctrl-C."""
    try:
        watch(report)
    except (BrokenPipeError, SystemExit):  # rich makes the one of the other
        return False
    return True


def _check_all_at_one_step(training: Training) -> None:
    """Processes on several machines must see the same run folder."""
    steps = _gathered(training.progress.step, training)
    if len(set(steps)) > 1:
        raise WordwaveError(
            f"the processes go on from different steps, {steps}: they must share the run folder"
        )


def _any_process(flag: bool, training: Training) -> bool:
    return any(_gathered(int(flag), training))


def _gathered(number: int, training: Training) -> list[int]:
    """The number of each process."""
    processes = training.processes
    if isinstance(processes, OneProcess):
        return [number]
    gathered: list[int] = processes.gather(torch.tensor([number], device=processes.device)).tolist()
    return gathered


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C (or SIGTERM) asks to stop between two steps; a second one ends at once."""
    asked = False

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = {number: signal.signal(number, ask) for number in numbers}
    except ValueError:  # not in the main thread, where signals do not arrive
        before = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
