"""The terminal that all commands print to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import rich.console
import tyro


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


T = TypeVar("T")


def parsed(kind: type[T], args: Sequence[str], prog: str, **more: Any) -> T:
    """The options that the flags say.

    Settings that refuse a value or do not go together are a `ValueError` here as elsewhere, which
    tyro would draw a box around; what else is wrong with the flags, tyro explains.
    """
    explained = StringIO()
    try:
        with redirect_stderr(explained):
            return tyro.cli(kind, prog=prog, args=args, **more)
    except SystemExit as end:
        problem = end.__context__
        while problem is not None:
            if isinstance(problem, ValueError) and _is_refusal(problem):
                raise problem from None
            problem = problem.__context__
        sys.stderr.write(explained.getvalue())
        raise


def say_opened(run: Path, names: Sequence[str]) -> None:
    """Tell what is read although no flag names it."""
    print(f"XLState {', '.join(names)}, which '{run / 'config.yaml'}' names.", flush=True)


def _is_refusal(problem: ValueError) -> bool:
    """Whether it was a check of the settings themselves."""
    frames = [frame.f_code.co_name for frame, _ in walk_tb(problem.__traceback__)]
    return "__post_init__" in frames
