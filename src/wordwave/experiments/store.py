"""Results of runs: one JSON record a line, only ever appended to.

Many processes may write to one file: a record goes out in one write under a lock, so a kill leaves
whole lines and at most one broken one at the end, which readers skip and writers mend.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from wordwave.files import naming

Record = dict[str, Any]


class Store:
    """Records under a key: the named fields that say which run a record is of."""

    def __init__(self, path: Path, key: Iterable[str]) -> None:
        self.path, self.key = path, tuple(key)

    def append(self, record: Record) -> None:
        """Add a record, durably, unless one with the same key is there already."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record, ensure_ascii=False) + "\n"
        with naming(self.path), self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            if self.key_of(record) in {self.key_of(r) for r in _parse(content)}:
                return
            mended = b"" if not content or content.endswith(b"\n") else b"\n"
            file.write(mended + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[Record]:
        return _parse(self.path.read_bytes()) if self.path.exists() else []

    def done(self) -> set[tuple[Any, ...]]:
        """The keys of all records."""
        return {self.key_of(record) for record in self.records()}

    @contextmanager
    def claimed(self, record: Mapping[str, Any]) -> Iterator[bool]:
        """Whether the record with this key is ours to make, until this ends, be it by a kill.

        It is not if it is there, or if another process that sees the file is making it.
        """
        name = sha256("\n".join(self.key_of(record)).encode()).hexdigest()[:16]
        folder = self.path.with_suffix(".claims")
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield self.key_of(record) not in self.done()
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    def key_of(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(json.dumps(record.get(name), sort_keys=True) for name in self.key)


def _parse(content: bytes) -> list[Record]:
    records = []
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # a line cut short by a kill; its run is simply not done
        if isinstance(record, dict):
            records.append(record)
    return records
