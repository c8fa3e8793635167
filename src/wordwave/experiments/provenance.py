"""What made a record: versions of what computes, and the commit of the source."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("wordwave", "torch", "numpy", "scikit-learn", "accelerate", "fasttext-numpy2")


@cache
def versions() -> dict[str, str]:
    """Python's version and those of the packages that results rest on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """The commit that the source is at, with a + if it was changed since; `None` for a package."""
    here = str(Path(__file__).parent)
    try:
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", here)
    except (OSError, subprocess.SubprocessError):
        return None
    return head + "+" if changed else head


def _git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    return done.stdout.strip()
