"""User mistakes: the exception, suggestions for misspelled names, and missing extras."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class WordwaveError(ValueError):
    """A user mistake, described in one line. Any other exception is a bug."""


def suggestion(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The end of a message: the closest known name, or nothing."""
    near = get_close_matches(str(name), list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(what: str, name: object, known: Iterable[str]) -> WordwaveError:
    """The error to raise for a name that is not one of those known."""
    known = list(known)
    hint = suggestion(name, known)
    return WordwaveError(f"{what} must be one of {', '.join(known)}, got {name!r}{hint}")


_DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml", "fasttext": "fasttext-numpy2"}
"""Modules whose distribution has another name."""


def missing_extra(error: ModuleNotFoundError, prefer: str = "") -> str | None:
    """One line that names the extra to install; `None` if the missing module is in no extra.

    Args:
        error: names the missing module.
        prefer: the extra to name if it has the module; otherwise the smallest that does.
    """
    from importlib.metadata import PackageNotFoundError, requires

    if "pip install" in str(error):
        return str(error)
    module = (error.name or "").partition(".")[0]
    distribution = _DISTRIBUTIONS.get(module, module).lower().replace("_", "-")
    extras: dict[str, list[str]] = {}
    try:
        for line in requires("wordwave") or ():
            if found := re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)", line):
                extras.setdefault(found[2], []).append(found[1].lower().replace("_", "-"))
    except PackageNotFoundError:
        return None
    holding = [extra for extra in extras if distribution in extras[extra]]
    if not holding:
        return None
    extra = min(holding, key=lambda extra: (extra != prefer, len(extras[extra])))
    return f"the package {distribution!r} is not installed: pip install 'wordwave[{extra}]'"
