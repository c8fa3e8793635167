"""The terminal that all commands print to."""

from __future__ import annotations

from typing import Any

import rich.console


class Console(rich.console.Console):
    """Prints text as it is.

    Paths, labels and words are the user's: none of them is read as markup, as an emoji code or as
    something to highlight, and no line of text is broken, so that a path can be copied. Styles are
    given by `rich.text.Text`, or by `markup=True` for text that is all ours.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        # Tables are fitted to the terminal; text is left to it.
        options.setdefault("soft_wrap", all(isinstance(o, str) for o in objects))
        super().print(*objects, **options)
