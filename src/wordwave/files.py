"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file, then put it in the place of `path` in one move.

    A kill, a full disk or an error at any moment leaves the old file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write(new)
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.chmod(0o666 & ~_umask())  # some writers make their files private
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole."""
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8", newline="\n"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
