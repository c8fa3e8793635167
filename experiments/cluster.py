"""Workers on a Ray or Dask cluster, for the grids of the paper's tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, Literal

from wordwave.errors import WordwaveError
from wordwave.workers import Result, Task, Workers, attempt, start_workers

Backend = Literal["local", "ray", "dask"]

LOOPBACK = "127.0.0.1"
_RAY_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""If 0, Ray uses the loopback address, as it does on macOS; otherwise it listens on all interfaces,
whatever address it is given. Read when Ray is imported."""


def start_workers_on(
    backend: Backend, address: str | None, run: Callable[[Task], Result], n: int
) -> Workers[Task, Result]:
    """Workers for n tasks at once.

    Args:
        address: of a running cluster; by default one with n workers is started on this machine.
    """
    if backend == "local":
        return start_workers(run, n)
    try:
        return (RayWorkers if backend == "ray" else DaskWorkers)(run, n, address)
    except ModuleNotFoundError:
        raise WordwaveError(
            f"backend {backend!r} needs a package: pip install 'wordwave[cluster]'"
        ) from None


class ClusterWorkers(Workers[Task, Result]):
    """Tasks of a cluster; one that is started here listens on the loopback address alone."""

    def __init__(self, run: Callable[[Task], Result], n: int) -> None:
        super().__init__(run, n)
        self._exit = ExitStack()

    def __exit__(self, *_: object) -> None:
        self._exit.close()


class RayWorkers(ClusterWorkers[Task, Result]):
    """Tasks of a Ray cluster."""

    def __init__(self, run: Callable[[Task], Result], n: int, address: str | None) -> None:
        super().__init__(run, n)
        if not address:
            os.environ.setdefault(_RAY_CLUSTER, "0")
        import ray
        from ray.util import get_node_ip_address

        if not address and get_node_ip_address() != LOOPBACK:
            raise WordwaveError(
                f"Ray would listen on all interfaces: set {_RAY_CLUSTER}=0, or give the --address "
                "of a running cluster"
            )
        options = {"address": address} if address else {"num_cpus": n}
        ray.init(**options, include_dashboard=False, log_to_driver=False)
        self._exit.callback(ray.shutdown)
        self._remote: Any = ray.remote(max_retries=0)(attempt)

    def _start(self, task: Task) -> Future[Any]:
        future: Future[Any] = self._remote.remote(self._run, task).future()
        return future

    def _is_death(self, error: BaseException | None) -> bool:
        from ray.exceptions import RayError, RayTaskError

        # What the task itself raised is a RayTaskError.
        return isinstance(error, RayError) and not isinstance(error, RayTaskError)


class DaskWorkers(ClusterWorkers[Task, Result]):
    """Tasks of a Dask cluster."""

    def __init__(self, run: Callable[[Task], Result], n: int, address: str | None) -> None:
        super().__init__(run, n)
        import dask
        from distributed import Client, LocalCluster

        enter = self._exit.enter_context
        if not address:
            enter(dask.config.set({"distributed.scheduler.allowed-failures": 0}))
            local = LocalCluster(
                n_workers=n,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
            )
            address = enter(local).scheduler_address
        # Not pure: Dask would have to hash the function and the task.
        self._executor = enter(Client(address)).get_executor(pure=False)

    def _start(self, task: Task) -> Future[Any]:
        future: Future[Any] = self._executor.submit(attempt, self._run, task)
        return future

    def _is_death(self, error: BaseException | None) -> bool:
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)
