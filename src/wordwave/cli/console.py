"""What all commands share: the terminal, and parsing of flags."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import rich.console
import tyro
from rich.segment import Segment

from wordwave.config_io import task_of
from wordwave.embedding.config import EmbeddingConfig, EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.limits import THREADS, Limited
from wordwave.migrate import upgrade_flags

# The flag is --embedding, not --kind. It is named here, as the core does not depend on tyro.
EmbeddingConfig.__annotations__["kind"] = Annotated[EmbeddingKind, tyro.conf.arg(name="embedding")]

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help="The folder of a run.")]
Threads = Annotated[
    int,
    THREADS,
    tyro.conf.arg(help="Number of CPU threads; more than one is faster for large models only."),
]
CONTROL = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
"""All control characters but tabs and line ends."""


@dataclass(frozen=True)
class UseThreads(Limited):
    """What a command may use."""

    threads: Threads = 1

    def set_threads(self) -> None:
        import torch

        torch.set_num_threads(self.threads)


@dataclass(frozen=True)
class UseRun(UseThreads):
    """A run and what a command may use."""

    run: RunFolder = field(kw_only=True)

    def load(self, *tasks: str) -> Any:
        """The model of the run, which must be one of these tasks."""
        from wordwave.tasks.run import job_class

        self.set_threads()
        task = task_of(self.run)
        return job_class(task if task in tasks else tasks[0]).model_class.load(self.run)


class Console(rich.console.Console):
    """Prints text unchanged.

    Paths, labels and words belong to the user: they are not interpreted as markup or emoji codes,
    not highlighted, and lines are not wrapped, so that a path can be copied. Use `rich.text.Text`
    for styles, or `markup=True` for text without user input. Control characters are left out.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else text.translate(CONTROL), style, control)

    def print(self, *objects: Any, **options: Any) -> None:
        # Tables are fitted to the terminal, text is not.
        options.setdefault("soft_wrap", all(isinstance(o, str) for o in objects))
        super().print(*objects, **options)


T = TypeVar("T")
VALUES = {str: "STR", int: "INT", float: "FLOAT", Path: "PATH"}


@cache
def _show_optional(kind: Any) -> None:
    """Show a setting that may be None by its values, as --out PATH and not --out {None}|PATH, in
    the help on an options class and its parts: the text explains what the default is."""
    for base in kind.__mro__:
        hints = get_type_hints(base, include_extras=True)
        for name in vars(base).get("__annotations__", {}):
            hint = hints[name]
            plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            if is_dataclass(plain):
                _show_optional(cast("Hashable", plain))
            elif {*get_args(plain)} == {bool, NoneType}:  # --name, --no-name
                about = tyro.conf.arg(help_behavior_hint=_default)
                base.__annotations__[name] = Annotated[hint, tyro.conf.DisallowNone, about]
            elif NoneType in get_args(plain) and (shown := _values(plain)):
                about = tyro.conf.arg(metavar=shown, help_behavior_hint=_default)
                base.__annotations__[name] = Annotated[hint, about]


def _values(hint: Any) -> str:
    """What a user gives for a type, or None; "" if it is one of some words."""
    kind, *others = (part for part in get_args(hint) if part is not NoneType)
    if others:
        return ""
    several = get_args(kind) if get_origin(kind) is tuple else ()
    if several and several[-1] is Ellipsis:
        return f"[{VALUES.get(several[0], '')} ...]"
    return " ".join(VALUES.get(part, "") for part in several or (kind,))


def _default(label: str) -> str:
    return "" if label == "None" else f"(default: {label})"


def parsed(kind: type[T], args: Sequence[str], prog: str, **more: Any) -> T:
    """The options that the flags give.

    tyro explains mistakes in a box, but a `WordwaveError` of the options themselves (a value out of
    range, settings that do not combine) is raised, for one line like everywhere else.
    """
    _show_optional(cast("Hashable", kind))
    args = upgrade_flags(args, lambda line: print(f"wordwave: {line}", file=sys.stderr))
    explained = StringIO()
    try:
        with redirect_stderr(explained):
            return tyro.cli(kind, prog=prog, args=args, config=(tyro.conf.OmitArgPrefixes,), **more)
    except SystemExit as end:
        problem = end.__context__
        while problem is not None:
            if isinstance(problem, WordwaveError):
                raise problem from None
            problem = problem.__context__
        sys.stderr.write(explained.getvalue())
        raise
