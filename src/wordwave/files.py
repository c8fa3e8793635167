"""Atomic writes, and reads of regular files of bounded size. Needs no torch."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from wordwave.errors import WordwaveError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
"""Raised while reading a truncated or invalid compressed file."""

_UMASK = os.umask(0)
os.umask(_UMASK)  # it can only be read by setting it, for all threads: once is enough
# Libraries written in Rust report system errors as text.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Left by a killed `write_whole`: its temporary file, and the one that safetensors writes before.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.new|\.tmp[A-Za-z0-9]{6}")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then rename it to `path`.

    A kill, a full disk or an error at any moment leaves the old file as it was. A symbolic link
    stays one; a device or a pipe is written to directly.
    """
    is_device = path.exists() and not (path.is_file() or path.is_dir())
    named, path = path, path if is_device else _resolved(path)
    new = path.with_name(f".{path.name}.{uuid4().hex}.new")
    try:
        if is_device:
            write(path)
            return
        check_writable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(new)
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        # Some libraries create private files; an existing file keeps its mode.
        new.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_UMASK)
        new.replace(path)
    except BrokenPipeError:
        raise
    except Exception as problem:
        refused = _system_error(problem, (new, path, *path.parents))
        if refused is None:
            raise
        raise _unwritable(named, refused) from problem
    finally:
        with suppress(OSError):
            new.unlink()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8", newline="\n"))


def read_text(path: Path, *, most: int) -> str:
    """The UTF-8 text of a regular file of at most so many bytes."""
    check_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise WordwaveError(f"'{path}' is larger than the limit of {most:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise WordwaveError(str(problem)) from None


def open_binary(path: Path) -> IO[bytes]:
    """A file's bytes, decompressed if its name ends in .gz or .xz."""
    return _OPENERS.get(path.suffix.lower(), open)(path, "rb")


def sha256_of(chunks: Iterable[bytes]) -> str:
    """The SHA-256 of content that comes in chunks, in hexadecimal."""
    digest = sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def check_regular(path: Path) -> None:
    """Raise for a folder, a pipe or a device, which might never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise WordwaveError(f"'{path}' is not a regular file")


def check_inside(folder: Path, names: Iterable[str]) -> None:
    """Raise for links and pipes that would redirect the files of a folder elsewhere."""
    for name in names:
        path = folder / name
        if path.exists() and not path.is_dir():
            check_regular(path)
        if path.is_symlink() and folder.resolve() not in _resolved(path).parents:
            raise WordwaveError(
                f"'{path}' is a link to another folder, which is not written to: replace the link "
                "by its target"
            )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Around writes to an open file: an `OSError` names the file and the remedy."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:  # it does so already
            raise
        raise _unwritable(path, problem) from problem


@contextmanager
def naming_temporary() -> Iterator[None]:
    """Around writes to a temporary file, which has no name: an `OSError` names its folder and the
    remedy."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        folder = tempfile.tempdir or "TMPDIR"  # there is none if no folder can be written to
        raise OSError(
            f"a temporary file in '{folder}' cannot be written: {problem.strerror or problem}; "
            "free some disk space there, or let TMPDIR name a folder on another disk, and run the "
            "same command again"
        ) from problem


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files of killed writers; nobody else may be writing to the folder."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _UNFINISHED.fullmatch(path.name):
                path.unlink()


@contextmanager
def locked(path: Path, *, timeout: float = -1) -> Iterator[None]:
    """Hold a lock file, which is released when its process ends, even by a kill.

    Args:
        timeout: seconds to wait for another process before `filelock.Timeout` is raised; −1 to
            wait for ever.
    """
    from filelock import FileLock

    with FileLock(path, timeout=timeout):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove an open file
                path.unlink()


def check_writable(path: Path) -> None:
    """Raise if a file of this path cannot exist."""
    if path.is_dir():
        raise OSError("it is a folder")
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir():
        raise OSError(f"'{nearest}' is a file, not a folder")


def _system_error(problem: Exception, own: tuple[Path, ...]) -> OSError | None:
    """The error of the system; `None` for any other error or another file."""
    if isinstance(problem, OSError):
        is_other = problem.filename is not None and Path(problem.filename) not in own
        return None if is_other else problem
    number = _OS_ERROR.search(str(problem))
    return None if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def _unwritable(path: Path, problem: OSError) -> OSError:
    remedy = ""
    if problem.errno is not None:
        first = "free some disk space" if problem.errno in _FULL else "correct this"
        remedy = f"; {first} and run the same command again"
    return OSError(f"'{path}' cannot be written: {problem.strerror or problem}{remedy}")


def _resolved(path: Path) -> Path:
    with suppress(OSError, RuntimeError):  # of a cycle of links
        found = path.resolve()
        if not found.is_symlink():  # as Python 3.13 returns a cycle
            return found
    raise OSError(f"'{path}' cannot be written: it is a link to itself")
