"""Names that were mistyped, and what they may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WordwaveError(ValueError):
    """A mistake of the user, told in one line; anything else that is raised is a bug."""


def suggestion(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The end of a message: the known name that is nearest, or nothing."""
    near = get_close_matches(str(name), list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(what: str, name: object, known: Iterable[str]) -> WordwaveError:
    """To raise when a name is none of those that are known."""
    known = list(known)
    hint = suggestion(name, known)
    return WordwaveError(f"{what} must be one of {', '.join(known)}, got {name!r}{hint}")
