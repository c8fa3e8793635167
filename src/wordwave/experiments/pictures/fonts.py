"""Fonts for what users write: matplotlib's own has no Chinese, Japanese or Korean."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any

OWN = "DejaVu Sans"
MOST_SHOWN = 5


def families_for(texts: Iterable[str]) -> list[str]:
    """Fonts to draw texts with: matplotlib's own, then those for the characters that it lacks."""
    return [OWN, *_found(_characters(texts))[0]]


def missing_glyphs(texts: Iterable[str]) -> str:
    """What the user should know of characters that no font here has; "" if there are none."""
    missing = _found(_characters(texts))[1]
    if not missing:
        return ""
    scripts = sorted({unicodedata.name(c, "UNKNOWN").split()[0].rstrip("-") for c in missing})
    shown = " ".join(sorted(missing)[:MOST_SHOWN]) + (" …" if len(missing) > MOST_SHOWN else "")
    return (
        f"boxes are drawn for {shown} ({', '.join(scripts[:MOST_SHOWN])}): no installed font has "
        "them; install one, such as Noto Sans CJK for Chinese, Japanese and Korean"
    )


def _characters(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(c for text in texts for c in text if c.isprintable() and not c.isspace())


@cache
def _found(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The fewest fonts that have the characters, and the characters that none has."""
    from matplotlib import font_manager

    missing = characters - _glyphs(font_manager.findfont(OWN))
    families: list[str] = []
    # Not fontManager's list, which is kept in a file and knows nothing of fonts installed since.
    paths = sorted(font_manager.findSystemFonts()) if missing else []
    while missing and paths:
        best = max(paths, key=lambda path: len(missing & _glyphs(path)))
        if not missing & _glyphs(best):
            break
        missing -= _glyphs(best)
        font_manager.fontManager.addfont(best)
        families.append(font_manager.FontProperties(fname=best).get_name())
    return tuple(families), frozenset(missing)


@cache
def _glyphs(path: str) -> frozenset[str]:
    from matplotlib import font_manager

    try:
        font: Any = font_manager.get_font(path)
        return frozenset(map(chr, font.get_charmap()))
    except (OSError, RuntimeError, ValueError):  # not a font that matplotlib can draw with
        return frozenset()
