"""Run tasks in parallel, in processes of this machine.

All workers have one interface: `submit` tasks while there `has_room`, and `wait` for their results.
A task whose worker process dies is started once more, then reported as a `Failure`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wordwave.progress import TRAINING, Silence, listen, listening

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_TRIES = 2
"""How often a task is started before the death of its worker process counts as its failure."""


@dataclass(frozen=True)
class Failure:
    """A task that could not be run."""

    task: str
    reason: str


def attempt(run: Callable[[Task], Result], task: Task) -> Result | Failure:
    """The result of a task; a `ValueError` is a failure of this task alone, not of the program."""
    try:
        return run(task)
    except ValueError as error:
        return Failure(str(task), str(error))


def start_workers(run: Callable[[Task], Result], n: int) -> Workers[Task, Result]:
    """Workers for n tasks at once; a single one runs its tasks in this process."""
    return InProcess(run, 1) if n == 1 else ProcessWorkers(run, n)


class ShareOfTraining(Silence):
    """Keeps how far the current training is, in a number that processes may share."""

    def __init__(self, share: Any) -> None:
        self._share = share

    def stage(self, what: str, share: float) -> None:
        if what == TRAINING:
            self._share.value = share


class Workers(ABC, Generic[Task, Result]):
    """Up to n tasks at once, until the end of a `with` block."""

    def __init__(self, run: Callable[[Task], Result], n: int) -> None:
        self._run, self._n = run, n
        self._running: dict[Future[Any], tuple[Task, int]] = {}

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._n

    def share_done(self) -> float:
        """How much of the running tasks is done, in tasks."""
        return 0.0

    def submit(self, task: Task, *, tries: int = 1) -> None:
        self._running[self._start(task)] = task, tries

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        """The tasks that have ended, as soon as there are any or the time is over."""
        ended: list[tuple[Task, Result | Failure]] = []
        for future in wait(self._running, seconds, FIRST_COMPLETED).done:
            task, tries = self._running.pop(future)
            if not self._is_death(future.exception()):
                ended.append((task, future.result()))
            elif tries < MAX_TRIES:
                self.submit(task, tries=tries + 1)
            else:
                reason = f"its process was killed {MAX_TRIES} times (out of memory?)"
                ended.append((task, Failure(str(task), reason)))
        return ended

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""

    @abstractmethod
    def _start(self, task: Task) -> Future[Any]:
        """Start a task."""

    def _is_death(self, error: BaseException | None) -> bool:
        """Whether this is what a task raises whose worker process died."""
        return isinstance(error, BrokenExecutor)


class InProcess(Workers[Task, Result]):
    """Runs a task in this process, when it is submitted."""

    value = 0.0
    """How much of it is done."""

    def share_done(self) -> float:
        return self.value

    def _start(self, task: Task) -> Future[Any]:
        future: Future[Any] = Future()
        with listening(ShareOfTraining(self)):
            future.set_result(attempt(self._run, task))
        self.value = 0.0
        return future


class ProcessWorkers(Workers[Task, Result]):
    """Processes that are reused, and end with the block or with this process, however it ends."""

    def __init__(self, run: Callable[[Task], Result], n: int) -> None:
        super().__init__(run, n)
        self._context = multiprocessing.get_context("spawn")
        # Nothing is ever sent: the end of this process, or of the block, closes the pipe.
        self._lifeline, self._open_end = self._context.Pipe(duplex=False)
        # A pool gives up all its tasks when one of its processes dies, so each has just one.
        self._last: dict[ProcessPoolExecutor, Future[Any]] = {}
        self._shares: dict[ProcessPoolExecutor, Any] = {}

    def share_done(self) -> float:
        shares = list(self._shares.items())  # another thread may start processes
        return sum(
            share.value
            for process, share in shares
            if process in self._last and not self._last[process].done()
        )

    def _start(self, task: Task) -> Future[Any]:
        idle = (process for process, last in self._last.items() if last.done())
        process = next(idle, None)
        if process is None:
            share = self._context.RawValue("d", 0.0)
            process = ProcessPoolExecutor(1, self._context, _begin, (self._lifeline, share))
            self._shares[process] = share
        self._shares[process].value = 0.0
        # Ctrl-C reaches all processes, but this one decides: the others start with it blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._last[process] = process.submit(attempt, self._run, task)
        except BrokenExecutor:  # it has died
            self._last.pop(process)
            process.shutdown()
            return self._start(task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._last[process]

    def __exit__(self, *_: object) -> None:
        self._open_end.close()
        for process in self._last:
            process.shutdown(cancel_futures=True)
        self._lifeline.close()


def _begin(lifeline: Any, share: Any) -> None:
    """In a worker: report how far its task is, and exit as soon as the other end of the pipe is
    closed."""
    listen(ShareOfTraining(share))

    def watch() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
