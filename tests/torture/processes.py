"""A command as a session of processes that can be watched, killed and starved of disk space."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PAUSE = 0.001
"""Seconds between two looks at a folder: a state is written in about as many."""
TOO_LONG = 300.0
"""Seconds after which a command that takes ten hangs."""
stopping = threading.Event()
"""Set by Ctrl-C: no round waits any longer."""


class Running:
    """`wordwave …` in a session of its own, so that all its processes can be found."""

    def __init__(self, words: tuple[str, ...], folder: Path) -> None:
        self.folder, self.began = folder, time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wordwave", *words, "--out", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)  # orphans would keep it open
        self._told = b""

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began

    def is_running(self) -> bool:
        if stopping.is_set():
            raise KeyboardInterrupt
        if self.seconds > TOO_LONG:
            raise TimeoutError(f"hangs: no end after {TOO_LONG:.0f} s")
        self._told += self._process.stderr.read() or b""  # type: ignore[union-attr]
        return self._process.poll() is None

    def wait(self) -> int:
        """The exit code, once it has ended."""
        while self.is_running():
            time.sleep(0.02)
        return self._process.returncode

    @property
    def told(self) -> list[str]:
        """The lines of stderr."""
        self._told += self._process.stderr.read() or b""  # type: ignore[union-attr]
        return [line for line in self._told.decode().splitlines() if line.strip()]

    def members(self) -> list[int]:
        """The processes that are alive, the first of them first."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    state, _, _, session = (
                        (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                    )
                    if int(session) == self._process.pid and state != "Z":
                        found.append(int(entry.name))
        return sorted(found)

    def close(self) -> None:
        """End whatever is left."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process.stderr.close()  # type: ignore[union-attr]


def files_in(folder: Path) -> set[str]:
    """All files below a folder, hidden ones too, while others write there."""
    return {
        os.path.relpath(os.path.join(root, name), folder)  # noqa: PTH118 - every millisecond
        for root, _, names in os.walk(folder)
        for name in names
    }


def kind_of(name: str) -> str:
    """A file's name without what is different in each run."""
    return re.sub(r"[0-9a-f]{16,}|(?<=tfevents).*|(?<=\.tmp)\w{6}", "*", name)


def size_of(folder: Path) -> int:
    """Bytes on disk, in whole pages."""
    total = 0
    for name in files_in(folder):
        with suppress(OSError):
            total += -(-(folder / name).stat().st_size // 4096) * 4096
    return total


class FullDisk:
    """A disk of its own that can be filled up to a few bytes. Needs root."""

    free_is_of = "disk"

    def __init__(self, place: Path, size: int) -> None:
        self.place, self._ballast = place, place / "ballast"
        place.mkdir(parents=True)
        options = ("-t", "tmpfs", "-o", f"size={size}")
        subprocess.run(["mount", *options, "tmpfs", str(place)], check=True)

    def fill(self, _: Running, free: int) -> None:
        """Leave so many bytes, in pages."""
        with self._ballast.open("wb") as file:
            while (taken := self._room() - free) >= 4096:
                end = self._ballast.stat().st_size
                with suppress(OSError):  # the command wrote in between
                    os.posix_fallocate(file.fileno(), end, taken // 4096 * 4096)

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def _room(self) -> int:
        found = os.statvfs(self.place)
        return found.f_bavail * found.f_frsize


class FileSizeLimit:
    """Without root: no file may grow beyond a few bytes, which fails as a full disk does."""

    free_is_of = "file"

    def __init__(self, place: Path, _: int) -> None:
        self.place = place
        place.mkdir(parents=True)

    def fill(self, running: Running, free: int) -> None:
        for pid in running.members():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (free, free))

    def make_room(self) -> None:
        """The limit ended with the processes."""

    def close(self) -> None:
        pass
