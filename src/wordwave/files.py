"""Files that are written whole or not at all, and read if they are regular and not too large."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from wordwave.errors import WordwaveError

_UMASK = os.umask(0)
os.umask(_UMASK)  # it can only be read by setting it, for all threads: once is enough
# Writers made in Rust tell of a full disk in words alone.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Of a killed `write_whole`: its own file, and the one that safetensors writes before that.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.new|\.tmp[A-Za-z0-9]{6}")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file, then put it in the place of `path` in one move.

    A kill, a full disk or an error at any moment leaves the old file as it was. A link stays a
    link; a device or a pipe, which has nothing to keep, is written at once.
    """
    is_device = path.exists() and not (path.is_file() or path.is_dir())
    named, path = path, path if is_device else _resolved(path)
    new = path.with_name(f".{path.name}.{uuid4().hex}.new")  # of this writer alone
    try:
        if is_device:
            write(path)
            return
        check_place(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(new)
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        # Some writers make their files private; one that is there keeps its mode.
        new.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_UMASK)
        new.replace(path)
    except BrokenPipeError:  # a pipe's reader has seen enough
        raise
    except Exception as problem:
        refused = _refused(problem, (new, path, *path.parents))
        if refused is None:
            raise
        raise _unwritable(named, refused) from problem
    finally:
        with suppress(OSError):
            new.unlink()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole."""
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8", newline="\n"))


def read_text(path: Path, *, most: int) -> str:
    """The UTF-8 text of a file of at most so many bytes."""
    check_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise WordwaveError(f"'{path}' has more than the {most:,} bytes that are read")
    return content.decode("utf-8")


def check_regular(path: Path) -> None:
    """Refuse a folder, and a pipe or device, which might never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise WordwaveError(f"'{path}' is not a regular file")


def check_inside(folder: Path, names: Iterable[str]) -> None:
    """Refuse links and pipes by which files of a folder would be written elsewhere."""
    for name in names:
        path = folder / name
        if path.exists() and not path.is_dir():
            check_regular(path)
        if path.is_symlink() and folder.resolve() not in _resolved(path).parents:
            raise WordwaveError(
                f"'{path}' is a link to another folder, where nothing is written: replace it by "
                "what it leads to"
            )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Where a file is written piece by piece: an error names it and says what to do."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:  # it does so already
            raise
        raise _unwritable(path, problem) from problem


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left in a folder that nobody else writes to now."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _UNFINISHED.fullmatch(path.name):
                path.unlink()


@contextmanager
def locked(path: Path, *, timeout: float = -1) -> Iterator[None]:
    """Hold a lock file, which ends with its process, be it by a kill.

    Args:
        timeout: seconds to wait for another who holds it, −1 for as long as it takes; after them
            `filelock.Timeout` is raised.
    """
    from filelock import FileLock

    with FileLock(path, timeout=timeout):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows keeps a file that is open
                path.unlink()


def check_place(path: Path) -> None:
    """Refuse a path that cannot become a file."""
    if path.is_dir():
        raise OSError("it is a folder")
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir():
        raise OSError(f"'{nearest}' is a file, not a folder")


def _refused(problem: Exception, own: tuple[Path, ...]) -> OSError | None:
    """What the system refused; `None` for a problem of another kind or with another file."""
    if isinstance(problem, OSError):
        is_other = problem.filename is not None and Path(problem.filename) not in own
        return None if is_other else problem
    number = _OS_ERROR.search(str(problem))
    return None if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def _unwritable(path: Path, problem: OSError) -> OSError:
    what_to_do = ""
    if problem.errno is not None:
        first = "free some disk space" if problem.errno in _FULL else "correct this"
        what_to_do = f"; {first} and run the same command again"
    reason = problem.strerror or problem
    return OSError(f"'{path}' cannot be written: {reason}{what_to_do}")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a link that leads to itself
        raise OSError(f"'{path}' cannot be written: it is a link without an end") from None
