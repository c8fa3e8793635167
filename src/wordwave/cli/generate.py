"""`wordwave generate`: a language model writes on."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated

import tyro

from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.limits import LENGTH, LOOK_BACK, check_limits
from wordwave.tasks.config import Sampling


@dataclass(frozen=True)
class GenerateOptions:
    """Write a text on, character by character, to the terminal as they come."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run of train lm."""
    prompt: str | None = None
    """What the text begins with, of any length; - for what is piped in; without one it begins a
    new line."""
    length: int = 500
    """Characters to write; of a byte model, bytes."""
    sampling: Sampling = field(default_factory=Sampling)
    memory: int | None = None
    """Characters that each one looks back to; by default the run's eval_memory_length."""

    def __post_init__(self) -> None:
        check_limits(self, {"length": (0, LENGTH[1]), "memory": LOOK_BACK})


def generate(args: list[str], prog: str) -> None:
    """`wordwave generate`"""
    options = parsed(GenerateOptions, args, prog, config=(tyro.conf.OmitArgPrefixes,))
    import torch

    from wordwave.cli.stream import piped, say
    from wordwave.tasks.language_model import LanguageModel

    torch.set_num_threads(1)
    writer = LanguageModel.load(options.run)
    prompt = options.prompt or ""
    if options.prompt == "-":
        try:
            prompt = piped("a prompt").read().decode("utf-8")
        except UnicodeDecodeError as problem:
            raise WordwaveError(f"the prompt must be UTF-8, got {problem.reason}") from None
    if unknown := writer.unknown_in(prompt):
        shown = ", ".join(map(repr, unknown[:8])) + (", …" if len(unknown) > 8 else "")
        print(f"read as unknown, for training never saw them: {shown}", file=sys.stderr)
    said = writer.write(prompt, options.length, options.sampling, memory_length=options.memory)
    say(chain([prompt], said, ["\n"]))
