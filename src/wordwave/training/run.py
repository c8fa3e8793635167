"""A training in a run folder: checkpoints, resuming, metrics.jsonl, stopping by a signal."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as clipped
from types import FrameType
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.config_io import MOST_JSON, conform, from_dict, parse_json
from wordwave.errors import WordwaveError
from wordwave.files import naming, read_text, write_text
from wordwave.migrate import upgrade_progress, upgrade_weights
from wordwave.tensor_files import TensorFile, check_finite, check_like, write_tensors
from wordwave.training.devices import OneProcess
from wordwave.training.loop import Epoch, Progress, StatefulTask, Step, Training
from wordwave.training.optim import RowAdam

CHECKPOINT = "state/state.safetensors"
"""The checkpoint in a run folder, until training ends."""
MIN_SECONDS_TO_SAVE = 10.0
"""Training time since the last checkpoint that is worth another one before final scoring."""
Watch = Callable[[Step | Epoch | str], None]
"""Called with each report, and with lines for the user."""


class TrainingStopped(KeyboardInterrupt):
    """Training was interrupted and a checkpoint was saved."""


def train_in_folder(
    folder: Path, training: Training, *, save_every: float = 60.0, watch: Watch | None = None
) -> list[dict[str, Any]]:
    """Train to the end, resuming from the checkpoint in the folder if there is one.

    Args:
        folder: gets the checkpoint and `metrics.jsonl`.
        save_every: seconds between two checkpoints. One is also saved when training is stopped,
            and at the end of a long training, before it is scored.
        watch: called with every report.

    Returns:
        The records of metrics.jsonl; empty but in the main process.
    """
    path = folder / CHECKPOINT
    is_main = training.processes.is_main_process
    if path.exists():
        load_checkpoint(training, path)
    steps = _gathered(training.progress.step, training)
    if len(set(steps)) > 1:
        raise WordwaveError(
            f"the processes resume from different steps, {steps}: they must share the run folder"
        )
    metrics = None
    if is_main:
        # An evaluation after the checkpoint was saved is repeated.
        last_eval = training.progress.step - (training.progress.since_eval > 0)
        metrics = MetricsLog(folder, last_eval)
    saved = began = time.monotonic()
    before, words = training.progress.seconds, training.progress.n_words
    with _stop_signals() as stop_requested:
        for report in training.run():
            now = time.monotonic()
            if isinstance(report, Epoch) and metrics is not None:
                seconds = max(now - began, 1e-9)  # the clock may not have advanced
                metrics.write(
                    report.step,
                    epoch=report.epoch,
                    loss=report.loss,
                    **{f"dev_{name}": value for name, value in report.scores.items()},
                    seconds=round(before + seconds, 3),
                    words_per_second=round((training.progress.n_words - words) / seconds),
                )
                began, before, words = now, 0.0, training.progress.n_words
            unwatched = watch is not None and not is_seen(report, watch)
            stopping = any(_gathered(int(stop_requested() or unwatched), training))
            if is_main and (stopping or now - saved >= save_every):
                training.progress.seconds = before + now - began
                save_checkpoint(training, path)
                saved = time.monotonic()
            if stopping:
                training.processes.wait_for_everyone()
                raise TrainingStopped
    if metrics is None:
        return []
    if time.monotonic() - saved > MIN_SECONDS_TO_SAVE:
        save_checkpoint(training, path)
    metrics.close()
    return metrics.records


def is_seen(report: Step | Epoch | str, watch: Watch) -> bool:
    """Call `watch`; false if its output is a closed pipe, which stops a training like Ctrl-C."""
    try:
        watch(report)
    except (BrokenPipeError, SystemExit):  # rich turns the former into the latter
        return False
    return True


def _gathered(number: int, training: Training) -> list[int]:
    """The number of each process."""
    processes = training.processes
    if isinstance(processes, OneProcess):
        return [number]
    gathered: list[int] = processes.gather(torch.tensor([number], device=processes.device)).tolist()
    return gathered


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C (or SIGTERM) requests a stop between two steps; a second one interrupts."""
    requested = False

    def request(number: int, _: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    try:
        before = {n: signal.signal(n, request) for n in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, which alone receives signals
        before = {}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def save_checkpoint(training: Training, path: Path) -> None:
    """Write all that is needed to resume, without pickle: tensors, and progress in the header."""
    tensors, progress = state_of(training)
    write_tensors(path, tensors, progress=json.dumps(progress))


def load_checkpoint(training: Training, path: Path) -> None:
    """Resume from a checkpoint; one that does not fit leaves the training unchanged."""
    try:
        file = TensorFile(path)
        progress = upgrade_progress(parse_json(file.metadata.get("progress", "")))
        check_state(training, upgrade_weights(file.meta), progress)
        load_state(training, upgrade_weights(file.load()), progress)
    except WordwaveError as problem:
        raise WordwaveError(
            f"'{path}' is not a checkpoint of this training ({problem}); remove it to start over"
        ) from None


def checkpoint_data(path: Path) -> str | None:
    """The fingerprint of the data that a checkpoint was trained on, `None` if it is damaged."""
    try:
        progress = parse_json(TensorFile(path).metadata.get("progress", ""))
        return str(progress["examples"])
    except (WordwaveError, OSError, TypeError, KeyError):
        return None


def state_of(training: Training) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All that is needed to resume: named tensors, and progress as JSON values."""
    tensors = {f"model.{k}": v for k, v in training.model.state_dict().items()}
    tensors |= {f"best.{k}": v for k, v in training.best.items()}
    for name, parameter in training.model.named_parameters():
        for optimizer in training.optimizers:
            moments = optimizer.state.get(parameter, {})
            tensors |= {f"optimizer.{key}.{name}": v for key, v in moments.items()}
    if isinstance(training.task, StatefulTask):
        tensors |= {f"task.{k}": v for k, v in training.task.state().items()}
    return tensors, asdict(training.progress)


def check_state(training: Training, tensors: Mapping[str, Tensor], progress: Any) -> Progress:
    """Raise if this is no state of such a training; values in the tensors are not looked at."""
    there, here = _progress(progress), training.progress
    if there.examples != here.examples:
        raise WordwaveError("it was trained on other examples")
    if there.n_processes != here.n_processes:
        raise WordwaveError(f"it needs {there.n_processes} processes, got {here.n_processes}")
    if there.step > training.n_steps:
        raise WordwaveError(f"progress: step must be at most {training.n_steps}, got {there.step}")
    n_batches = len(training.batches(there.epoch))
    if there.batch >= n_batches:
        raise WordwaveError(f"progress: batch must be below {n_batches}, got {there.batch}")
    of_task = _under("task.", tensors)
    if isinstance(training.task, StatefulTask):
        training.task.check_state(of_task, training.model)
    elif of_task:
        raise WordwaveError("the task has no state")
    weights = training.model.state_dict()
    wanted = {f"model.{name}": tensor for name, tensor in weights.items()}
    if there.best_scores:
        wanted |= {f"best.{name}": tensor for name, tensor in weights.items()}
    for _, _, moments in _moments(training):
        if moments.keys() & tensors.keys():  # a parameter without a gradient has none
            wanted |= moments
    check_like({k: v for k, v in tensors.items() if not k.startswith("task.")}, wanted)
    return there


def load_state(training: Training, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    """Resume from what `state_of` returned; anything else leaves the training unchanged."""
    there = check_state(training, tensors, progress)
    check_finite(tensors)
    for _, _, moments in _moments(training):
        for name in moments.keys() & tensors.keys():
            if name.split(".")[1] not in ("exp_avg", "mean") and (tensors[name] < 0).any():
                raise WordwaveError(f"the tensor {name!r} has a negative value")
    on_device = {name: tensor.to(training.processes.device) for name, tensor in tensors.items()}
    training.model.load_state_dict(_under("model.", on_device))
    training.best = _under("best.", on_device)
    for optimizer, parameter, moments in _moments(training):
        for name in moments.keys() & tensors.keys():
            optimizer.state[parameter][name.split(".")[1]] = on_device[name]
    if isinstance(training.task, StatefulTask):
        training.task.load_state(_under("task.", on_device))
    training.progress = there


def _moments(
    training: Training,
) -> Iterator[tuple[Optimizer, nn.Parameter, dict[str, Tensor]]]:
    """Each trained parameter with its optimizer, and tensors like those in its state."""
    names = {parameter: name for name, parameter in training.model.named_parameters()}
    for optimizer in training.optimizers:
        is_sparse = isinstance(optimizer, RowAdam)
        mean, square = ("mean", "square") if is_sparse else ("exp_avg", "exp_avg_sq")
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            like = {"step": torch.zeros(()), mean: parameter, square: parameter}
            kept = {f"optimizer.{key}.{names[parameter]}": t for key, t in like.items()}
            yield optimizer, parameter, kept


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


_AT_MOST = {"best_epoch": "epoch"} | dict.fromkeys(
    ("epoch", "since_eval", "since_best", "best_step"), "step"
)


def _progress(plain: Any) -> Progress:
    """Progress from the header of a checkpoint, with values that a training can reach."""
    progress = from_dict(Progress, plain, where="progress")
    for name, value in asdict(progress).items():
        if name not in plain:
            raise WordwaveError(f"progress has no {name!r}")
        if name == "loss" and not math.isfinite(value):
            raise WordwaveError(f"progress: loss must be finite, got {value}")
        if name != "loss" and isinstance(value, (int, float)) and not 0 <= value < 2**53:
            raise WordwaveError(f"progress: {name} must be at least 0 and finite, got {value}")
    if math.inf in progress.best_scores:
        raise WordwaveError("progress: best_scores must be below infinity")
    for name, most in _AT_MOST.items():
        value, limit = getattr(progress, name), getattr(progress, most)
        if value > limit:
            raise WordwaveError(f"progress: {name} must be at most {most}, {limit}, got {value}")
    return progress


class MetricsLog:
    """Appends a record for each evaluation; of a resumed run, drops those that will be repeated.

    Args:
        folder: gets `metrics.jsonl`, and `tensorboard/` if that package is installed.
        step: the step from which the run resumes.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.path = folder / "metrics.jsonl"
        found = read_metrics(self.path, ("seconds", "words_per_second"))
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

    def write(self, step: int, **values: float | bool | None) -> None:
        """Append one record."""
        values = {name: _finite(value) for name, value in values.items()}
        record = {"step": step, **values}
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.records.append(record)
        if self.board is not None:
            with naming(self.path.with_name("tensorboard")):
                for name, value in values.items():
                    if value is not None:
                        self.board.add_scalar(name, value, step)
                self.board.flush()

    def close(self) -> None:
        self._write_all()  # in case the file was removed in the meantime
        if self.board is not None:
            self.board.close()

    def _write_all(self) -> None:
        write_text(self.path, "".join(json.dumps(r) + "\n" for r in self.records))


def _finite(value: float | bool | None) -> float | bool | None:
    """JSON has no NaN and no infinity."""
    return value if value is None or math.isfinite(value) else None


def read_metrics(path: Path, required: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl, without a last line that a kill cut short.

    Args:
        required: names of numbers that every record must have.
    """
    if not path.exists():
        return []
    try:
        *lines, _ = read_text(path, most=MOST_JSON).split("\n")
        return [_record(line, f"line {i}", required) for i, line in enumerate(lines, start=1)]
    except WordwaveError as problem:
        raise WordwaveError(
            f"'{path}' does not hold the metrics of a training ({problem}); remove it to resume "
            "without them"
        ) from None


class _Record(TypedDict):
    step: int


def _record(line: str, where: str, required: Iterable[str]) -> dict[str, Any]:
    try:
        record: dict[str, Any] = parse_json(line)
    except WordwaveError as problem:
        raise WordwaveError(f"{where}: {problem}") from None
    conform(record, _Record, where=where)
    for name in required:
        conform(record.get(name), float, where=f"{where}: {name}")
    return {
        name: conform(value, float | bool | None, where=f"{where}: {clipped(name)}")
        for name, value in record.items()
    }
