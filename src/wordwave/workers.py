"""Run tasks in parallel: in processes of this machine, or on a Ray or Dask cluster.

All workers have one interface: `submit` tasks while there `has_room`, and `wait` for their results.
A task whose worker process dies is started once more, then reported as a `Failure`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from wordwave.errors import WordwaveError

Task = TypeVar("Task")
Result = TypeVar("Result")
Self = TypeVar("Self", bound="Workers[Any, Any]")
Backend = Literal["local", "ray", "dask"]

MAX_TRIES = 2
"""How often a task is started before the death of its worker process counts as its failure."""
LOOPBACK = "127.0.0.1"
_RAY_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""If 0, Ray uses the loopback address, as it does on macOS; otherwise it listens on all interfaces,
whatever address it is given. Read when Ray is imported."""


@dataclass(frozen=True)
class Failure:
    """A task that could not be run."""

    task: str
    reason: str
    worker_died: bool = False


class WorkerDiedError(Exception):
    """The process that ran a task is gone."""


def attempt(run: Callable[[Task], Result], task: Task) -> Result | Failure:
    """The result of a task; a `ValueError` is a failure of this task alone, not of the program."""
    try:
        return run(task)
    except ValueError as error:
        return Failure(str(task), str(error))


def start_workers(
    run: Callable[[Task], Result], n: int, backend: Backend = "local", address: str | None = None
) -> Workers[Task, Result]:
    """Workers for n tasks at once; a single local one runs its tasks in this process.

    Args:
        address: of a running cluster; by default one with n workers is started on this machine.
    """
    if backend == "ray":
        return RayWorkers(run, n, address)
    if backend == "dask":
        return DaskWorkers(run, n, address)
    return InProcess(run, 1) if n == 1 else ProcessWorkers(run, n)


class Workers(ABC, Generic[Task, Result]):
    """Up to n tasks at once, until the end of a `with` block."""

    def __init__(self, run: Callable[[Task], Result], n: int, address: str | None = None) -> None:
        self._run, self._n, self._address = run, n, address
        self._running: dict[Any, tuple[Task, int]] = {}
        self._exit = ExitStack()

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._n

    def submit(self, task: Task, *, tries: int = 1) -> None:
        self._running[self._start(task)] = task, tries

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        """The tasks that have ended, as soon as there are any or the time is over."""
        ended: list[tuple[Task, Result | Failure]] = []
        for future in list(self._done(seconds)) if self._running else []:
            task, tries = self._running.pop(future)
            try:
                ended.append((task, self._result(future)))
            except WorkerDiedError:
                if tries < MAX_TRIES:
                    self.submit(task, tries=tries + 1)
                    continue
                reason = f"its process was killed {MAX_TRIES} times (out of memory?)"
                ended.append((task, Failure(str(task), reason, worker_died=True)))
        return ended

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @abstractmethod
    def _start(self, task: Task) -> Any:
        """Start a task; what stands for it until it has ended."""

    @abstractmethod
    def _done(self, seconds: float | None) -> Iterable[Any]:
        """Those that have ended, after at most some seconds."""

    @abstractmethod
    def _result(self, future: Any) -> Result | Failure:
        """The result of one that has ended; `WorkerDiedError` if its process died."""


class InProcess(Workers[Task, Result]):
    """Runs a task in this process, when it is waited for."""

    def _start(self, task: Task) -> Callable[[], Result | Failure]:
        return lambda: attempt(self._run, task)

    def _done(self, seconds: float | None) -> Iterable[Any]:
        return self._running

    def _result(self, future: Callable[[], Result | Failure]) -> Result | Failure:
        return future()


class ProcessWorkers(Workers[Task, Result]):
    """Processes that are reused, and end with the block or with this process, however it ends."""

    def __init__(self, run: Callable[[Task], Result], n: int) -> None:
        super().__init__(run, n)
        self._context = multiprocessing.get_context("spawn")
        # Nothing is ever sent: the end of this process, or of the block, closes the pipe.
        self._lifeline, self._open_end = self._context.Pipe(duplex=False)
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def _start(self, task: Task) -> Future[Any]:
        # A pool gives up all its tasks when one of its processes dies, so each has just one.
        new = partial(ProcessPoolExecutor, 1, self._context, _exit_with, (self._lifeline,))
        process = self._idle.pop() if self._idle else new()
        # Ctrl-C reaches all processes, but this one decides: the others start with it blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = process.submit(attempt, self._run, task)
        except BrokenProcessPool:  # it died while it was idle
            process.shutdown()
            return self._start(task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._busy[future] = process
        return future

    def _done(self, seconds: float | None) -> Iterable[Any]:
        return wait(self._running, seconds, FIRST_COMPLETED).done

    def _result(self, future: Future[Any]) -> Result | Failure:
        process = self._busy.pop(future)
        if isinstance(future.exception(), BrokenProcessPool):
            process.shutdown()
            raise WorkerDiedError
        self._idle.append(process)
        return future.result()

    def __exit__(self, *_: object) -> None:
        self._open_end.close()
        for process in (*self._idle, *self._busy.values()):
            process.shutdown(cancel_futures=True)
        self._lifeline.close()


def _exit_with(lifeline: Any) -> None:
    """In a worker: exit as soon as the other end of the pipe is closed."""

    def watch() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayWorkers(Workers[Task, Result]):
    """Tasks of a Ray cluster; one that is started here listens on the loopback address alone."""

    def __enter__(self) -> RayWorkers[Task, Result]:
        if not self._address:
            os.environ.setdefault(_RAY_CLUSTER, "0")
        try:
            import ray
            from ray.util import get_node_ip_address
        except ModuleNotFoundError:
            raise _missing_package("ray") from None
        if not self._address and get_node_ip_address() != LOOPBACK:
            raise WordwaveError(
                f"Ray would listen on all interfaces: set {_RAY_CLUSTER}=0, or give the --address "
                "of a running cluster"
            )
        options = {"address": self._address} if self._address else {"num_cpus": self._n}
        ray.init(**options, include_dashboard=False, log_to_driver=False)
        self._exit.callback(ray.shutdown)
        self._remote = ray.remote(max_retries=0)(attempt)
        return self

    def _start(self, task: Task) -> Any:
        return self._remote.remote(self._run, task)

    def _done(self, seconds: float | None) -> Iterable[Any]:
        import ray

        return ray.wait([*self._running], timeout=seconds)[0]

    def _result(self, future: Any) -> Result | Failure:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(future)
        except RayTaskError:  # raised by the task itself
            raise
        except RayError:
            raise WorkerDiedError from None


class DaskWorkers(Workers[Task, Result]):
    """Tasks of a Dask cluster; one that is started here listens on the loopback address alone."""

    def __enter__(self) -> DaskWorkers[Task, Result]:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ModuleNotFoundError:
            raise _missing_package("dask") from None
        enter, address = self._exit.enter_context, self._address
        if not address:
            enter(dask.config.set({"distributed.scheduler.allowed-failures": 0}))
            local = LocalCluster(
                n_workers=self._n,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
            )
            address = enter(local).scheduler_address
        self._client = enter(Client(address))
        return self

    def _start(self, task: Task) -> Any:
        # Not pure: Dask would have to hash the function and the task.
        return self._client.submit(attempt, self._run, task, pure=False)

    def _done(self, seconds: float | None) -> Iterable[Any]:
        from distributed import wait as wait_for

        try:
            return wait_for([*self._running], seconds, return_when="FIRST_COMPLETED").done
        except asyncio.TimeoutError:
            return []

    def _result(self, future: Any) -> Result | Failure:
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            raise WorkerDiedError from None


def _missing_package(backend: str) -> WordwaveError:
    return WordwaveError(f"backend {backend!r} needs a package: pip install 'wordwave[cluster]'")
