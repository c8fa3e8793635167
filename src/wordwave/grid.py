"""A grid of cells (trainings, measurements), each run once and kept as one record.

The paper's tables, the order laboratory and `wordwave compare` are grids: each defines its cells,
their keys and how one is run, and `Grid` does the rest. Records are lines of JSON in a file that is
only ever appended to: a record that turns out to be wrong is marked as withdrawn by a later line,
which says why. Many processes may write to one file: a record goes out in one write under a
lock, so a kill leaves whole lines and at most one broken one at the end, which is skipped by
readers and removed by the next run.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Generic, TypeVar

from filelock import Timeout

from wordwave.config_io import fits as fits
from wordwave.errors import WordwaveError
from wordwave.files import check_regular, locked, naming, write_whole
from wordwave.limits import check_limit
from wordwave.migrate import upgrade_record
from wordwave.workers import Failure, Workers, start_workers

Record = dict[str, Any]
WITHDRAWN = "withdrawn"
"""The kind of a line that marks an earlier record."""
Key = tuple[str, ...]
CellT = TypeVar("CellT")

Count = Annotated[int, lambda n: n >= 1]
Positive = Annotated[float, lambda value: value > 0]
Share = Annotated[float, lambda value: 0 <= value <= 1]


class Store:
    """A file of records, each identified by its key.

    Args:
        key: the fields that identify a record.
        is_record: whether a JSON object is a record of this experiment. Lines that hold anything
            else are skipped, so their cells count as missing.
        upgrade: a record of an earlier version with the names of this one.
    """

    def __init__(
        self,
        path: Path,
        key: Iterable[str],
        is_record: Callable[[Record], bool] = lambda record: True,
        *,
        upgrade: Callable[[Record], Record] = upgrade_record,
    ) -> None:
        self.path, self.key, self.is_record, self.upgrade = path, tuple(key), is_record, upgrade
        # A grid reads its file before and after each cell: each line is parsed once.
        self._lines: dict[bytes, Record | Key | None] = {}

    def append(self, record: Record) -> None:
        """Add a record, durably, unless one with the same key is there already."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming(self.path), _alone_with(self.path) as file:
            content = file.read()
            if self.key_of(record) not in {self.key_of(r) for r in self._parse(content)}:
                _add_line(file, content, record)

    def withdraw(self, record: Record, reason: str) -> None:
        """Mark a record as withdrawn: it stays in the file, its cell counts as missing."""
        key = {name: record.get(name) for name in self.key}
        with naming(self.path), _alone_with(self.path) as file:
            mark = {"kind": WITHDRAWN, "reason": reason, "key": key}
            _add_line(file, file.read(), mark)

    def records(self) -> list[Record]:
        """All records but those that were withdrawn."""
        return self._parse(self._content())

    def done(self) -> set[Key]:
        """The keys of all records."""
        return {self.key_of(record) for record in self.records()}

    def skipped(self) -> str:
        """A note on the lines that are not records, "" if there are none."""
        n = self._sorted(self._content())[1]
        what = "line is not a record" if n == 1 else "lines are not records"
        return f"'{self.path}': {n} {what} of this experiment, skipped" if n else ""

    def clean(self) -> None:
        """Remove what killed processes left behind: broken lines and lock files."""
        if self.path.exists() and _whole_lines(content := self._content()) != content:
            with _alone_with(self.path) as file:
                whole = _whole_lines(file.read())
                write_whole(self.path, lambda new: new.write_bytes(whole))
        for claim in self.path.parent.glob(f".{self.path.name}.*.lock"):
            with suppress(Timeout), locked(claim, timeout=0):
                pass

    @contextmanager
    def claimed(self, record: Mapping[str, Any]) -> Iterator[bool]:
        """Whether this process may make the record with this key, for the length of the block.

        It may not if the record is there, or if another process that shares the file is making it.
        The claim is a lock file, which ends with its process.
        """
        name = sha256("\n".join(self.key_of(record)).encode()).hexdigest()[:16]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            is_ours = False
            with suppress(Timeout):
                claim = self.path.with_name(f".{self.path.name}.{name}.lock")
                held.enter_context(locked(claim, timeout=0))
                is_ours = self.key_of(record) not in self.done()
            yield is_ours

    def key_of(self, record: Mapping[str, Any]) -> Key:
        return key_of(record, self.key)

    def _content(self) -> bytes:
        if not self.path.exists():
            return b""
        check_regular(self.path)
        return self.path.read_bytes()

    def _parse(self, content: bytes) -> list[Record]:
        return self._sorted(content)[0]

    def _sorted(self, content: bytes) -> tuple[list[Record], int]:
        """The records that stand, and the number of lines that are neither records nor marks."""
        records: list[Record] = []
        n_skipped = 0
        for line in content.split(b"\n"):
            match self._parsed(line):
                case dict() as record:
                    records.append(dict(record))
                case tuple() as withdrawn:
                    records = [r for r in records if self.key_of(r) != withdrawn]
                case None:
                    n_skipped += bool(line.strip())
        return records, n_skipped

    def _parsed(self, line: bytes) -> Record | Key | None:
        """A record, the key of one that is withdrawn, or neither; each line is parsed once."""
        if line not in self._lines:
            self._lines[line] = None
            with suppress(WordwaveError):  # `upgrade` refuses a setting under two names
                match _json(line):
                    case {"kind": str(kind), "key": dict(key)} if kind == WITHDRAWN:
                        self._lines[line] = self.key_of(self.upgrade(key))
                    case dict() as found if self.is_record(record := self.upgrade(found)):
                        self._lines[line] = record
        return self._lines[line]


def key_of(record: Mapping[str, Any], fields: Iterable[str]) -> Key:
    """The fields that identify a record, as JSON."""
    return tuple(json.dumps(record.get(name), sort_keys=True) for name in fields)


@contextmanager
def _alone_with(path: Path) -> Iterator[BinaryIO]:
    """A file to read and append to under an exclusive lock."""
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # `clean` replaces the file, and this may be the one that it replaced.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.seek(0)
                yield file
                return


def _add_line(file: BinaryIO, content: bytes, record: Record) -> None:
    """Append a record, durably, to a file with this content."""
    end = b"" if not content or content.endswith(b"\n") else b"\n"
    file.write(end + json.dumps(record, ensure_ascii=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _whole_lines(content: bytes) -> bytes:
    """Without incomplete records, which are what a kill leaves."""
    lines = content.split(b"\n")
    return b"".join(x + b"\n" for x in lines if x and not (x[:1] == b"{" and _json(x) is None))


MAX_CELLS = 100_000
"""Of one command: more would take too long just to list."""
MAX_JOBS = 1024

_PAUSE = 0.5
"""Seconds between two reads of what other processes have stored."""


@dataclass(frozen=True)
class Grid(Generic[CellT]):
    """Cells and what it takes to run each of them once, in any number of sessions and processes.

    Args:
        store: has a record for each cell that was run.
        cells: all cells; those that the store has a record of are not run again.
        key: the fields of a cell's record that identify it.
        run: runs a cell and returns its record. It is sent to worker processes.
        unit: what messages call the cells.
        exclusive: whether each cell is run by one process alone; `False` if the processes that run
            a cell share its work.
    """

    store: Store
    cells: Sequence[CellT]
    key: Callable[[CellT], Record]
    run: Callable[[CellT], Record]
    unit: str = "cells"
    exclusive: bool = True

    def key_of(self, cell: CellT) -> Key:
        """The key of a cell's record in the store."""
        return self.store.key_of(self.key(cell))

    def missing(self) -> dict[Key, CellT]:
        """The cells that have no record, by the keys of their records."""
        done = self.store.done()
        return {key: cell for cell in self.cells if (key := self.key_of(cell)) not in done}

    def records(self) -> list[Record]:
        """The records of the cells, as far as there are any, in the order of the file."""
        wanted = set(map(self.key_of, self.cells))
        return [r for r in self.store.records() if self.store.key_of(r) in wanted]

    def incomplete(self) -> str:
        """A note on the number of cells that have no record, "" if all have one."""
        n, n_missing = len(set(map(self.key_of, self.cells))), len(self.missing())
        return f"Incomplete: {n - n_missing} of {n} {self.unit}." if n_missing else ""

    def run_missing(
        self,
        n_jobs: int = 2,
        *,
        start: Callable[..., Workers[Any, Any]] = start_workers,
        on_wait: Callable[[int], object] = lambda n: None,
    ) -> Iterator[Record]:
        """Run the cells that have no record, append each record as it comes, and yield it.

        Whatever ends this loop early loses the cells that are running and nothing else. Cells that
        another process is running are waited for, so all have their records at the end. A cell that
        fails, such as one that diverges or whose process is killed twice, does not stop the others:
        `FailedCellsError` is raised at the end.

        Args:
            n_jobs: cells at once, in a process each.
            start: starts that many workers for `run`, by default on this machine.
            on_wait: is called with the number of cells left, once they are all run by others.
        """
        store = self.store
        store.clean()
        left = self.missing()
        if not left:
            return
        n_missing, is_waiting = len(left), False
        failures: list[Failure] = []
        claims: dict[Key, ExitStack] = {}
        with ExitStack() as at_exit, start(self.run, n_jobs) as workers:
            while left or workers.n_running:
                for record in store.records():  # by other processes
                    if left.pop(store.key_of(record), None) is not None:
                        yield record
                for key, cell in list(left.items()):
                    if not workers.has_room:
                        break
                    claim = ExitStack()
                    if self.exclusive and not claim.enter_context(store.claimed(self.key(cell))):
                        claim.close()
                        continue
                    claims[key] = at_exit.enter_context(claim)
                    workers.submit(left.pop(key))
                if left and not workers.n_running:
                    if not is_waiting:
                        on_wait(len(left))
                        is_waiting = True
                    time.sleep(_PAUSE)
                for cell, result in workers.wait(_PAUSE if left and workers.has_room else None):
                    with claims.pop(self.key_of(cell)):
                        if isinstance(result, Failure):
                            failures.append(result)
                            continue
                        store.append(result)
                    yield result
        if failures:
            raise FailedCellsError(
                f"{len(failures)} of {n_missing} could not be run, the others are kept; the first, "
                f"{failures[0].task}: {failures[0].reason}"
            )


class FailedCellsError(WordwaveError):
    """Some cells could not be run; all others have their records."""


def check_grid(n_cells_per_seed: int, seeds: int, n_jobs: int) -> None:
    """Refuse a grid that is too large to run, before its cells are listed."""
    check_limit("seeds", seeds, (1, math.inf))
    check_limit("jobs", n_jobs, (1, MAX_JOBS))
    most = max(MAX_CELLS // max(n_cells_per_seed, 1), 1)
    if seeds > most:
        raise WordwaveError(
            f"seeds must be at most {most:,} for {n_cells_per_seed:,} runs each, got {seeds:,}"
        )
