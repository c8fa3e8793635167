"""A training that survives: it saves its state as it goes, and goes on from there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from wordwave.training.checkpoint import load_state, save_state
from wordwave.training.journal import Journal
from wordwave.training.loop import Training
from wordwave.training.task import Epoch, Step

Watch = Callable[[Step | Epoch], None]


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and its state is saved."""


def train_in(
    folder: Path, training: Training, *, save_every: float = 60.0, watch: Watch | None = None
) -> None:
    """Train to the end in a run folder, from where it was left.

    Args:
        folder: holds `state/` while the training is under way, and the journal.
        save_every: seconds between two saved states; a stop always saves one.
        watch: told of every step and epoch.
    """
    state = folder / "state" / "state.safetensors"
    is_main = training.accelerator.is_main_process
    if state.exists():
        load_state(training, state)
    training.accelerator.wait_for_everyone()
    journal = Journal(folder, training.progress.step) if is_main else None
    saved = epoch_began = time.monotonic()
    words = training.progress.n_words
    with _asked_to_stop() as asked:
        for report in training.run():
            now = time.monotonic()
            if isinstance(report, Epoch) and journal is not None:
                seconds = now - epoch_began
                journal.write(
                    report.step,
                    epoch=report.epoch,
                    loss=report.loss,
                    **{f"dev_{name}": value for name, value in report.scores.items()},
                    seconds=round(seconds, 3),
                    words_per_second=round((training.progress.n_words - words) / seconds),
                )
                epoch_began, words = now, training.progress.n_words
            if watch is not None:
                watch(report)
            if is_main and (asked() or now - saved >= save_every):
                save_state(training, state)
                saved = time.monotonic()
            if asked():
                raise Stopped
    if journal is not None:
        journal.close()


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
