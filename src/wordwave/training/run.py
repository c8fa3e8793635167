"""A training that survives: it saves its state as it goes, and goes on from there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from wordwave.training.checkpoint import load_state, save_state
from wordwave.training.journal import Journal
from wordwave.training.loop import Training
from wordwave.training.processes import OneProcess
from wordwave.training.task import Epoch, Note, Step

WORTH_SAVING = 10.0
"""Seconds of training that are not to be done again when scoring is stopped."""
Watch = Callable[[Step | Epoch | Note], None]


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and its state is saved."""


def train_in(
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
        last_look = training.progress.step - (training.progress.since_judged > 0)
        journal = Journal(folder, last_look)
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
        raise ValueError(
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
