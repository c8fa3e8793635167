"""Which run folders were made by this user. Needs no torch.

The config of a run names the files and data sets of the hub that it was trained on, and a run
folder may come from a stranger. So a training leaves a mark beside its config: a hash of these
names by a key that is in the user's state folder and nowhere else. Without it the names are
followed only if the user asks for it. A run keeps its mark wherever it is moved; another user or
machine does not accept it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from wordwave.errors import WordwaveError
from wordwave.files import read_text, write_text

MARK, KEY = "made-here", "runs.key"
KEY_SIZE = 32


def mark(folder: Path, names: Sequence[str]) -> None:
    """Leave the mark of this user in a run folder; without a place for the key there is none."""
    with suppress(OSError):
        write_text(folder / MARK, _hash(_key(make=True), names) + "\n")


def is_made_here(folder: Path, names: Sequence[str]) -> bool:
    """Whether a run folder has the mark of this user for these names."""
    try:
        found = read_text(folder / MARK, most=1000).strip()
        return hmac.compare_digest(found.encode(), _hash(_key(make=False), names).encode())
    except (OSError, ValueError):
        return False


def check_made_here(folder: Path, names: Sequence[str], *, trusted: bool = False) -> None:
    """Refuse to open what the config of a run names, unless it was made here or is trusted."""
    if names and not trusted and not is_made_here(folder, names):
        shown = ", ".join(repr(name[:200]) for name in names)
        raise WordwaveError(
            f"'{folder}' was not trained here, and its config.yaml names {shown}: nothing is "
            "opened; say what to score on (evaluate --help), or --trust-data to open that"
        )


def _hash(key: bytes, names: Sequence[str]) -> str:
    return hmac.new(key, json.dumps(list(names)).encode(), "sha256").hexdigest()


def _key(*, make: bool) -> bytes:
    """The key of this user, which is made once."""
    from platformdirs import user_state_path

    path = user_state_path("wordwave") / KEY
    if make and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{KEY}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_SIZE))
        with suppress(FileExistsError):  # another process was first
            os.link(new, path)
        new.unlink()
    key = path.read_bytes()
    if len(key) != KEY_SIZE:
        raise OSError(f"'{path}' is no key")
    return key
