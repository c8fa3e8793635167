"""Run a case in a process of its own, forked after torch was imported, or as a real command.

A fork takes some milliseconds and isolates completely: a crash, a hang or a leak is of this case
alone, and its peak memory is what the system counted.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import Case, build

GB = 10**9
MEMORY = 3 * GB
SECONDS = 30.0
ROOT = Path(__file__).parents[2]
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONWARNINGS": "default",
    "TOKENIZERS_PARALLELISM": "false",
    "WORDWAVE_DATA": "home",
    "WORDWAVE_MIRROR": "http://127.0.0.1:9",
    "no_proxy": "*",
}
"""Nothing is downloaded, and the data home is in the folder of the case."""


@dataclass
class Running:
    """A case under way."""

    number: int
    as_process: bool
    scratch: Path
    pid: int
    started: float
    interrupted: bool = False
    patience: float | None = None
    """Seconds after which it is interrupted, known once the case is built."""


@dataclass
class Ended:
    """What came of a case: what it was, and what a user would have seen."""

    case: Case
    scratch: Path
    code: int
    """The exit code, or minus the number of the signal that ended it."""
    out: bytes
    err: str
    seconds: float
    memory: int
    """Peak resident bytes."""
    as_process: bool = False
    interrupted: bool = False
    hung: bool = False
    made: list[Path] = field(default_factory=list)
    """Files that were not there before."""


def start(base: Path, seed: int, number: int, scratch: Path, *, as_process: bool) -> Running:
    """Fork a process that builds the case and runs it."""
    scratch.mkdir(parents=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Running(number, as_process, scratch, pid, time.monotonic())
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        folder = scratch / "folder"
        folder.mkdir()
        _keep(scratch, Case(number, "not built"), [])
        case = build(base, seed, number, folder)
        before = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        _keep(scratch, case, before)
        os.chdir(folder)
        _connect(scratch, case)
        _limit()
        os.environ.update(SETTINGS)
        if as_process:
            os.environ["PYTHONPATH"] = str(ROOT)  # of the experiments
            os.execv(sys.executable, [sys.executable, "-m", *case.command])
        code = _call(case)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _keep(scratch: Path, case: Case, files: list[str]) -> None:
    (scratch / "case.json").write_text(json.dumps([case.plain(), files]))


def poll(running: Running) -> Ended | None:
    """What came of it, `None` while it runs; one that is over its time is killed."""
    pid, code, usage = os.wait4(running.pid, os.WNOHANG)
    seconds = time.monotonic() - running.started
    hung = False
    if not pid:
        if seconds > SECONDS:
            hung = True
            faults = running.scratch / "faults"
            os.killpg(running.pid, signal.SIGUSR1)  # faulthandler tells where it is
            time.sleep(0.2)
            _kill(running.pid)
            _, code, usage = os.wait4(running.pid, 0)
            if faults.exists():
                with (running.scratch / "stderr").open("ab") as err:
                    err.write(faults.read_bytes())
        else:
            _interrupt(running, seconds)
            return None
    _kill(running.pid)  # what it left behind
    return _ended(running, os.waitstatus_to_exitcode(code), seconds, usage.ru_maxrss * 1024, hung)


def _interrupt(running: Running, seconds: float) -> None:
    """What may take as long as it is asked to is interrupted, as by Ctrl-C."""
    if running.interrupted or seconds < 4:
        return
    if running.patience is None:
        try:
            told, _ = json.loads((running.scratch / "case.json").read_text())
        except (OSError, ValueError):
            return
        start_up = 8.0 if running.as_process else 0.0
        running.patience = start_up + (told["patience"] or 2 * SECONDS)
    if seconds > running.patience:
        running.interrupted = True
        os.killpg(running.pid, signal.SIGINT)


def _ended(running: Running, code: int, seconds: float, memory: int, hung: bool) -> Ended:
    scratch = running.scratch
    told, before = json.loads((scratch / "case.json").read_text())
    folder = scratch / "folder"
    made = [p for p in folder.rglob("*") if str(p.relative_to(folder)) not in set(before)]
    out, err = (
        path.read_bytes() if (path := scratch / name).exists() else b""
        for name in ("stdout", "stderr")
    )
    return Ended(
        case=Case(**told),
        scratch=scratch,
        code=code,
        out=out,
        err=err.decode("utf-8", "replace"),
        seconds=seconds,
        memory=memory,
        as_process=running.as_process,
        interrupted=running.interrupted,
        hung=hung,
        made=made,
    )


def remove(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _connect(scratch: Path, case: Case) -> None:
    """Standard streams are files; who writes into FIFOs is a process beside."""
    (scratch / "stdin").write_bytes(case.stdin.encode("latin-1"))
    for number, name, flags in (
        (0, "stdin", os.O_RDONLY),
        (1, "stdout", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        os.dup2(os.open(scratch / name, flags), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, closefd=False, encoding="utf-8", errors="surrogateescape"),  # noqa: SIM115
        open(1, "w", closefd=False, encoding="utf-8"),  # noqa: SIM115
        open(2, "w", closefd=False, encoding="utf-8", errors="backslashreplace"),  # noqa: SIM115
    )
    faults = (scratch / "faults").open("w")
    faulthandler.register(signal.SIGUSR1, file=faults, all_threads=True)
    faulthandler.enable(file=faults)
    for name, content in case.fifos.items():
        if os.fork() == 0:
            try:
                Path(name).write_bytes(content.encode("latin-1"))
            finally:
                os._exit(0)


def _limit() -> None:
    """Address space for what is mapped now, torch above all, and 3 GB more."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = mapped + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (GB, GB))


def _call(case: Case) -> int:
    """What `python -m wordwave` or, of a case of the API, `python -c` would end with."""
    from experiments.__main__ import run as experiments
    from tests.fuzz.api import evaluate
    from wordwave.cli import main

    sys.argv = case.command
    try:
        if case.source:
            evaluate(case.source)
        elif case.command[0] == "experiments":
            experiments()
        else:
            main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    for thread in threading.enumerate():  # the interpreter would wait for them, too
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    return 0
