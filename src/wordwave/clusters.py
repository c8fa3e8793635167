"""Run tasks on a Ray or Dask cluster: the same to the caller as `Workers` of this machine.

A cluster that is started here is open to this machine alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from wordwave.errors import WordwaveError
from wordwave.workers import TRIES, Failure, attempt, lost

Task = TypeVar("Task")
Result = TypeVar("Result")

LOOPBACK = "127.0.0.1"
_RAY_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Off, Ray takes the loopback address for that of this machine, as it does on macOS; otherwise it
listens on all interfaces, whatever address it is given. Read when Ray is imported."""


class Cluster(Generic[Task, Result]):
    """Up to n tasks at once.

    Args:
        address: of a cluster that is running; by default one of n workers is started here.
    """

    def __init__(self, run: Callable[[Task], Result], n: int, address: str | None) -> None:
        self._run, self._n, self._address = run, n, address
        self._running: dict[Any, Task] = {}
        self._until_the_end = ExitStack()

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._n

    def __exit__(self, *_: object) -> None:
        self._until_the_end.close()


class Ray(Cluster[Task, Result]):
    def __enter__(self) -> Ray[Task, Result]:
        if not self._address:
            os.environ.setdefault(_RAY_CLUSTER, "0")
        try:
            import ray
            from ray.util import get_node_ip_address
        except ModuleNotFoundError:
            raise WordwaveError(_missing("ray")) from None
        if not self._address and get_node_ip_address() != LOOPBACK:
            raise WordwaveError(
                f"Ray would listen on all interfaces: set {_RAY_CLUSTER}=0, or give the --address "
                "of a cluster that is running"
            )
        options = {"address": self._address} if self._address else {"num_cpus": self._n}
        ray.init(**options, include_dashboard=False, log_to_driver=False)
        self._until_the_end.callback(ray.shutdown)
        self._remote = ray.remote(max_retries=TRIES - 1)(attempt)
        return self

    def submit(self, task: Task) -> None:
        self._running[self._remote.remote(self._run, task)] = task

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        ended: list[tuple[Task, Result | Failure]] = []
        for future in ray.wait([*self._running], timeout=seconds)[0] if self._running else []:
            task = self._running.pop(future)
            try:
                ended.append((task, ray.get(future)))
            except RayTaskError:  # of the task itself
                raise
            except RayError:
                ended.append((task, lost(task)))
        return ended


class Dask(Cluster[Task, Result]):
    def __enter__(self) -> Dask[Task, Result]:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ModuleNotFoundError:
            raise WordwaveError(_missing("dask")) from None
        enter, address = self._until_the_end.enter_context, self._address
        if not address:
            enter(dask.config.set({"distributed.scheduler.allowed-failures": TRIES - 1}))
            local = LocalCluster(
                n_workers=self._n,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
            )
            address = enter(local).scheduler_address
        self._client = enter(Client(address))
        return self

    def submit(self, task: Task) -> None:
        # Not pure: Dask would want to hash what runs tasks.
        self._running[self._client.submit(attempt, self._run, task, pure=False)] = task

    def wait(self, seconds: float | None = None) -> list[tuple[Task, Result | Failure]]:
        from distributed import KilledWorker
        from distributed import wait as wait_for

        ended: list[tuple[Task, Result | Failure]] = []
        if not self._running:
            return ended
        try:
            done = wait_for([*self._running], seconds, return_when="FIRST_COMPLETED").done
        except asyncio.TimeoutError:
            return ended
        for future in done:
            task = self._running.pop(future)
            try:
                ended.append((task, future.result()))
            except KilledWorker:
                ended.append((task, lost(task)))
        return ended


def _missing(backend: str) -> str:
    return f"backend {backend!r} needs its package: pip install 'wordwave[cluster]'"
