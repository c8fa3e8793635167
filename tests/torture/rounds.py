"""One round: disturb a command, run it again to its end, and compare with an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from typing import Any

from tests.torture.commands import Command
from tests.torture.processes import (
    PAUSE,
    FileSizeLimit,
    FullDisk,
    Running,
    files_in,
    kind_of,
    size_of,
)

ORPHANS_END_IN = 15.0
"""Seconds that workers have to notice that their parent is dead."""
Record = dict[str, Any]


class RoundError(Exception):
    """A promise that was not kept."""


@dataclass(frozen=True)
class Reference:
    """What an undisturbed run did."""

    outcome: Any
    seconds: float
    events: dict[str, int]
    """How often a file of each name appeared."""
    peak: int
    """Most bytes that its folder held."""
    largest: int
    """Bytes of its largest file."""


def reference(command: Command, place: Path) -> Reference:
    """Run a command undisturbed, unless that was done before."""
    about = place / "reference.json"
    if about.exists():
        return Reference(**json.loads(about.read_text()))
    shutil.rmtree(place, ignore_errors=True)
    events: Counter[str] = Counter()
    before: set[str] = set()
    peak = largest = 0
    folder = place / "run"
    with closing(Running(command.words, folder)) as running:
        while running.is_running():
            now = files_in(folder)
            if now != before:
                events.update(kind_of(name) for name in now - before)
                peak = max(peak, size_of(folder))
            before = now
            time.sleep(PAUSE)
        if running.wait() != 0:
            raise RoundError(f"{command.name} fails undisturbed: {running.told[-1:]}")
        seconds = running.seconds
    for path in folder.rglob("*"):
        largest = max(largest, path.stat().st_size)
    found = Reference(command.outcome(folder), seconds, dict(events), peak, largest)
    about.write_text(json.dumps(asdict(found)))
    return reference(command, place)


def kill_round(command: Command, known: Reference, place: Path, rng: random.Random) -> Record:
    """One to three kills, each while the command runs again after the one before."""
    folder, kills = place / "run", []
    _clear(place)
    failure = ""
    try:
        for _ in range(rng.choice((1, 1, 2, 3))):
            with closing(Running(command.words, folder)) as running:
                kill = _kill(running, known, rng)
                if kill is None:
                    break  # it was faster
                kills.append(kill)
                _check_end_after_kill(running)
        _finish(command, known, folder)
    except (RoundError, TimeoutError) as problem:
        failure = str(problem)
    return {"kills": kills, "failure": failure}


def disk_round(
    command: Command,
    known: Reference,
    place: Path,
    rng: random.Random,
    disk_kind: type[FullDisk] | type[FileSizeLimit],
) -> Record:
    """A disk that is full from the start or from some moment on, and has room later."""
    _clear(place)
    disk = disk_kind(place / "disk", 4 * known.peak + 2**20)
    folder = disk.place / "run"
    wanted = known.peak if disk.free_is_of == "disk" else known.largest
    failed, failure, line = False, "", ""
    after = rng.choice((0.0, rng.uniform(0, known.seconds)))
    free = rng.randrange(wanted if after == 0 else wanted // 2)
    try:
        with closing(Running(command.words, folder)) as running:
            while running.seconds < after and running.is_running():
                time.sleep(PAUSE)
            disk.fill(running, free)
            before = _progress(command, folder)
            failed = running.wait() != 0
            if failed:
                line = _check_refusal(running, folder)
                _check_no_orphans(running)
        if (after_it := _progress(command, folder)) < before:
            raise RoundError(f"it had come to {before}, and is back at {after_it}")
        disk.make_room()
        _finish(command, known, folder)
    except (RoundError, TimeoutError) as problem:
        failure = str(problem)
        if folder.exists():
            shutil.copytree(folder, place / "run", dirs_exist_ok=True)
    finally:
        disk.close()
    return {
        "full_disks": int(failed),
        "free": free,
        "after": round(after, 2),
        "limit_of": disk.free_is_of,
        "line": line,
        "failure": failure,
    }


def _kill(running: Running, known: Reference, rng: random.Random) -> Record | None:
    """Kill all processes or one, at a moment or when a file appears; `None` if it ended before."""
    everyone, share, delay = rng.random() < 0.5, rng.random(), rng.uniform(0, 0.005)
    if rng.random() < 0.5:
        at, n = f"{share * known.seconds:.2f} s", 0
        while running.seconds < share * known.seconds and running.is_running():
            time.sleep(PAUSE)
    else:
        kinds = sorted(known.events)
        # Files that appear once are as interesting as checkpoints, but there are many of them.
        (at,) = rng.choices(kinds, [1 + log2(known.events[kind]) for kind in kinds])
        n = left = rng.randint(1, known.events[at])
        before = files_in(running.folder)
        while left > 0 and running.is_running():
            time.sleep(PAUSE)
            now = files_in(running.folder)
            left -= sum(kind_of(name) == at for name in now - before)
            before = now
        time.sleep(delay)
    members = running.members()
    if not running.is_running() or not members:
        return None
    chosen = members if everyone else [rng.choice(members)]
    for pid in chosen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    which = "all" if everyone else "main" if chosen[0] == members[0] else "worker"
    return {"which": which, "at": at, "n": n, "seconds": round(running.seconds, 2)}


def _check_end_after_kill(running: Running) -> None:
    """A killed process ends the others; one that outlives a worker ends well or says why not."""
    code = running.wait()
    if code in (1, 2) and (code == 1 or len(running.told) != 1):
        raise RoundError(f"exit code {code} after a kill: {' | '.join(running.told[-3:])}"[:400])
    _check_no_orphans(running)


def _check_no_orphans(running: Running) -> None:
    end = time.monotonic() + ORPHANS_END_IN
    while left := running.members():
        if time.monotonic() > end:
            raise RoundError(f"{len(left)} processes outlive their parent")
        time.sleep(0.05)


def _check_refusal(running: Running, folder: Path) -> str:
    """The line of a failure that a user can act on."""
    code, told = running.wait(), running.told
    if code != 2 or len(told) != 1:
        raise RoundError(f"exit code {code}, {len(told)} lines: {' | '.join(told[-3:])}"[:400])
    if str(folder) not in told[0] or "same command" not in told[0]:
        raise RoundError(f"it does not say which file and what to do: {told[0]}")
    return told[0]


def _finish(command: Command, known: Reference, folder: Path) -> None:
    """Run the same command to its end, and compare."""
    with closing(Running(command.words, folder)) as running:
        code = running.wait()
        if code != 0:
            raise RoundError(
                f"exit code {code} when run again: {' | '.join(running.told[-3:])}"[:400]
            )
        _check_no_orphans(running)
    try:
        found = json.loads(json.dumps(command.outcome(folder)))
    except Exception as problem:
        raise RoundError(f"a result that cannot be read: {problem!r}") from problem
    wanted = known.outcome
    if found != wanted:
        names = sorted(k for k in {**found, **wanted} if found.get(k) != wanted.get(k))
        raise RoundError(f"another result than undisturbed: {', '.join(names)}")


def _progress(command: Command, folder: Path) -> int:
    """How far a folder has come, which must be readable at any moment."""
    try:
        return command.progress(folder)
    except FileNotFoundError:  # it was finished in between
        return command.progress(folder)
    except Exception as problem:
        raise RoundError(f"a state that cannot be read: {problem!r}") from problem


def _clear(place: Path) -> None:
    """Remove what a round that was itself killed has left."""
    if (place / "disk").is_mount():
        subprocess.run(["umount", "--lazy", str(place / "disk")], check=True)
    shutil.rmtree(place, ignore_errors=True)
