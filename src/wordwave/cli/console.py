"""What all commands share: the terminal, and parsing of flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

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


def parsed(kind: type[T], args: Sequence[str], prog: str, **more: Any) -> T:
    """The options that the flags give.

    tyro explains mistakes in a box, but a `WordwaveError` of the options themselves (a value out of
    range, settings that do not combine) is raised, for one line like everywhere else.
    """
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
