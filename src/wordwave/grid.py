"""Results of runs: one JSON record a line, only ever appended to.

Many processes may write to one file: a record goes out in one write under a lock, so a kill leaves
whole lines and at most one broken one at the end, which readers skip and the next run removes.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from filelock import Timeout

from wordwave.clusters import Dask, Ray
from wordwave.errors import WordwaveError
from wordwave.files import locked, naming, write_whole
from wordwave.workers import Failure, Here, Workers

Record = dict[str, Any]
Key = tuple[str, ...]

Count = Annotated[int, lambda n: n >= 1]
Positive = Annotated[float, lambda value: value > 0]
Share = Annotated[float, lambda value: 0 <= value <= 1]


class Store:
    """Records under a key: the named fields that say which run a record is of.

    Args:
        is_record: whether a line that holds a JSON object is a record of this experiment. Any other
            line is skipped: what it was meant to tell is not done.
    """

    def __init__(
        self,
        path: Path,
        key: Iterable[str],
        is_record: Callable[[Record], bool] = lambda record: True,
    ) -> None:
        self.path, self.key, self.is_record = path, tuple(key), is_record

    def append(self, record: Record) -> None:
        """Add a record, durably, unless one with the same key is there already."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record, ensure_ascii=False) + "\n"
        with naming(self.path), _alone_with(self.path) as file:
            content = file.read()
            if self.key_of(record) in {self.key_of(r) for r in self._parse(content)}:
                return
            end = b"" if not content or content.endswith(b"\n") else b"\n"
            file.write(end + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[Record]:
        return self._parse(self._content())

    def done(self) -> set[Key]:
        """The keys of all records."""
        return {self.key_of(record) for record in self.records()}

    def skipped(self) -> str:
        """What to say of the lines that are no records; "" if there are none."""
        lines = [line for line in self._content().splitlines() if line.strip()]
        n = len(lines) - len(self.records())
        if not n:
            return ""
        what = "line is not a record" if n == 1 else "lines are not records"
        return f"'{self.path}': {n} {what} of this experiment, skipped"

    def clean(self) -> None:
        """Remove what killed processes left behind: broken lines, and claims."""
        if self.path.exists() and _whole_lines(content := self._content()) != content:
            with _alone_with(self.path) as file:
                whole = _whole_lines(file.read())
                write_whole(self.path, lambda new: new.write_bytes(whole))
        for claim in self.path.parent.glob(f".{self.path.name}.*.lock"):
            with suppress(Timeout), locked(claim, timeout=0):
                pass

    @contextmanager
    def claimed(self, record: Mapping[str, Any]) -> Iterator[bool]:
        """Whether the record with this key is ours to make, until this ends, be it by a kill.

        It is not if it is there, or if another process that sees the file is making it.
        """
        name = sha256("\n".join(self.key_of(record)).encode()).hexdigest()[:16]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            try:
                claim = self.path.with_name(f".{self.path.name}.{name}.lock")
                held.enter_context(locked(claim, timeout=0))
            except Timeout:
                is_ours = False
            else:
                is_ours = self.key_of(record) not in self.done()
            yield is_ours

    def key_of(self, record: Mapping[str, Any]) -> Key:
        return tuple(json.dumps(record.get(name), sort_keys=True) for name in self.key)

    def _content(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def _parse(self, content: bytes) -> list[Record]:
        found = (_json(line) for line in content.split(b"\n"))
        return [r for r in found if isinstance(r, dict) and self.is_record(r)]


@contextmanager
def _alone_with(path: Path) -> Iterator[BinaryIO]:
    """A file to read and append to, while all other processes that want to wait."""
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # `clean` puts another file in its place, and this may be the one that was there.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.seek(0)
                yield file
                return


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _whole_lines(content: bytes) -> bytes:
    """Without the beginnings of records, which are what a kill leaves."""
    lines = content.split(b"\n")
    return b"".join(x + b"\n" for x in lines if x and not (x[:1] == b"{" and _json(x) is None))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read from JSON is of a type; all numbers must be finite.

    Args:
        hint: a `TypedDict` (which may have more fields), list, dict, union or plain type, or one
            with a rule, such as `Annotated[int, lambda n: n >= 1]`.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Annotated:
        return fits(value, arguments[0]) and bool(arguments[1](value))
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is list:
        return isinstance(value, list) and all(fits(v, arguments[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(v, arguments[1]) for v in value.values())
    if is_typeddict(hint):
        return isinstance(value, dict) and all(
            fits(value[name], kind) if name in value else name in hint.__optional_keys__
            for name, kind in _fields(hint).items()
        )
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if hint is float:
        return fits(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, NoneType if hint is None else hint)


@cache
def _fields(hint: Any) -> dict[str, Any]:
    return get_type_hints(hint, include_extras=True)


Cell = TypeVar("Cell")
Backend = Literal["local", "ray", "dask"]
Runner: TypeAlias = (
    Here[Cell, Record] | Workers[Cell, Record] | Ray[Cell, Record] | Dask[Cell, Record]
)

MOST_CELLS = 100_000
"""Of one command: more would take longer to list than anybody waits."""
MOST_JOBS = 1024

_PAUSE = 0.5
"""Seconds between two looks at what other processes have stored."""


def run_missing(
    cells: Sequence[Cell],
    run: Callable[[Cell], Record],
    store: Store,
    *,
    key: Callable[[Cell], dict[str, Any]],
    n_jobs: int = 2,
    backend: Backend = "local",
    address: str | None = None,
    claims: bool = True,
    on_wait: Callable[[int], object] = lambda n: None,
) -> Iterator[Record]:
    """Run the cells that the store lacks, append each record as it comes, and yield it.

    Whatever ends this loop early loses the cells in flight and nothing else. What another process
    is at is left to it and waited for, so that all cells have their records at the end, whoever
    made them. A cell that cannot be run, such as one that diverges or whose process is killed
    twice, does not keep the others from it: `FailedCellsError` at the end tells of it.

    Args:
        backend: who computes.
        address: of a cluster that is running; by default one is started here, with n_jobs workers.
        claims: leave what another process is at to it; without them, `run` must know how to share
            its work.
        on_wait: is told how many cells are left when all of them are other processes'.
    """
    store.clean()
    done = store.done()
    missing = {k: cell for cell in cells if (k := store.key_of(key(cell))) not in done}
    if not missing:
        return
    left, claimed, has_told = dict(missing), dict[Key, ExitStack](), False
    failed: list[Failure] = []
    runner = _runner(backend, run, n_jobs, address)
    with _all_closed(claimed), runner:
        while left or runner.n_running:
            yield from _stored(left, store)
            for k, cell in list(left.items()):
                if not runner.has_room:
                    break
                claim = ExitStack()
                if claims and not claim.enter_context(store.claimed(key(cell))):
                    claim.close()
                    continue
                claimed[k] = claim
                runner.submit(left.pop(k))
            if not runner.n_running:
                if left and not has_told:
                    on_wait(len(left))
                    has_told = True
                time.sleep(_PAUSE if left else 0)
            for cell, found in runner.wait(_PAUSE if left and runner.has_room else None):
                if isinstance(found, Failure):
                    failed.append(found)
                else:
                    store.append(found)
                claimed.pop(store.key_of(key(cell))).close()
                if not isinstance(found, Failure):
                    yield found
    if failed:
        raise FailedCellsError(
            f"{len(failed)} of {len(missing)} could not be run, the others are kept; the first, "
            f"{failed[0].task}: {failed[0].why}"
        )


class FailedCellsError(WordwaveError):
    """Some cells could not be run; all others have their records."""


def check_grid(n_cells_a_seed: int, seeds: int, n_jobs: int) -> None:
    """Refuse a grid that nobody could wait for, before its cells are listed."""
    for name, value in (("seeds", seeds), ("jobs", n_jobs)):
        if value < 1:
            raise WordwaveError(f"{name} must be at least 1, got {value}")
    if n_jobs > MOST_JOBS:
        raise WordwaveError(f"jobs must be at most {MOST_JOBS}, got {n_jobs}")
    most = max(MOST_CELLS // max(n_cells_a_seed, 1), 1)
    if seeds > most:
        raise WordwaveError(
            f"seeds must be at most {most:,} for {n_cells_a_seed:,} runs each, got {seeds:,}"
        )


@contextmanager
def _all_closed(claims: Mapping[Key, ExitStack]) -> Iterator[None]:
    """Give up at the end what is still claimed."""
    try:
        yield
    finally:
        for claim in claims.values():
            claim.close()


def _stored(left: dict[Key, Cell], store: Store) -> Iterator[Record]:
    """The records of cells that another process has made; they are left no more."""
    for record in store.records():
        if left.pop(store.key_of(record), None) is not None:
            yield record


def _runner(
    backend: Backend, run: Callable[[Cell], Record], n: int, address: str | None
) -> Runner[Cell]:
    if backend == "ray":
        return Ray(run, n, address)
    if backend == "dask":
        return Dask(run, n, address)
    return Here(run) if n == 1 else Workers(run, n)
