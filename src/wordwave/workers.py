"""Processes of one thread each that run tasks, and what becomes of a task whose process dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

TRIES = 2
"""How often a task is begun before a process that dies of it is its fault."""


@dataclass(frozen=True)
class Failure:
    """A task that cannot be run."""

    task: str
    why: str
    is_lost: bool = False
    """Its process died, each time."""


def lost(task: object) -> Failure:
    """A task whose process died each time."""
    why = f"its process was killed {TRIES} times (is memory short?)"
    return Failure(str(task), why, is_lost=True)


def attempt(run: Callable[[Task], Result], task: Task) -> Result | Failure:
    """What a task gives, or why it cannot be run."""
    try:
        return run(task)
    except ValueError as problem:
        return Failure(str(task), str(problem))


class Here(Generic[Task, Result]):
    """Runs one task at a time in this process, when it is waited for."""

    def __init__(self, run: Callable[[Task], Result]) -> None:
        self._run, self._tasks = run, list[Task]()

    @property
    def n_running(self) -> int:
        return len(self._tasks)

    @property
    def has_room(self) -> bool:
        return not self._tasks

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        tasks, self._tasks = self._tasks, []
        return [(task, attempt(self._run, task)) for task in tasks]

    def __enter__(self) -> Here[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Workers(Generic[Task, Result]):
    """Runs up to n tasks at once, each in a process that is used again for the next one.

    The processes end with this block, and with this process, however that ends. A task whose
    process dies, as by the system when memory is short, is begun again once; the others go on.
    """

    def __init__(self, run: Callable[[Task], Result], n: int) -> None:
        self._run, self._n = run, n
        self._context = multiprocessing.get_context("spawn")
        # Nothing is ever sent: the end of this process, or of the block, closes the pipe.
        self._lifeline, self._open = self._context.Pipe(duplex=False)
        self._idle: list[ProcessPoolExecutor] = []
        self._running: dict[Future[Any], tuple[ProcessPoolExecutor, Task, int]] = {}

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._n

    def submit(self, task: Task) -> None:
        self._begin(task, 1)

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        """The tasks that have ended since, once there are any or the time is over."""
        ended = []
        for future in wait(self._running, seconds, FIRST_COMPLETED).done:
            process, task, tries = self._running.pop(future)
            try:
                ended.append((task, future.result()))
                self._idle.append(process)
            except BrokenProcessPool:
                process.shutdown()
                if tries < TRIES:
                    self._begin(task, tries + 1)
                else:
                    ended.append((task, lost(task)))
        return ended

    def _begin(self, task: Task, tries: int) -> None:
        process = self._idle.pop() if self._idle else self._new_process()
        # Ctrl-C reaches all processes, but this one decides: the others start with it blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = process.submit(attempt, self._run, task)
            self._running[future] = (process, task, tries)
        except BrokenProcessPool:  # it died while it had nothing to do
            process.shutdown()
            self._begin(task, tries)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _new_process(self) -> ProcessPoolExecutor:
        # A pool gives up all its tasks when a process of it dies, so each has just one.
        return ProcessPoolExecutor(
            1, self._context, initializer=_end_with, initargs=(self._lifeline,)
        )

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for process in (*self._idle, *(process for process, _, _ in self._running.values())):
            process.shutdown(cancel_futures=True)
        self._lifeline.close()


def _end_with(lifeline: Any) -> None:
    """In a worker: end as soon as the other side of the pipe is closed."""

    def watch() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
