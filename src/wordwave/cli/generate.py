"""`wordwave generate`: generate text with a language model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated

from wordwave.cli.console import UseRun, parsed
from wordwave.cli.stream import standard_input, write_lines
from wordwave.errors import WordwaveError
from wordwave.limits import LENGTH, LOOK_BACK
from wordwave.tasks.config import Sampling


@dataclass(frozen=True)
class GenerateOptions(UseRun):
    """Generate text from a prompt, streamed to the terminal character by character."""

    prompt: str | None = None
    """The prompt, of any length; - reads it from standard input; by default a new line is
    started."""
    length: Annotated[int, (0, LENGTH[1])] = 500
    """Number of characters to generate; of bytes for a byte-level model."""
    sampling: Sampling = field(default_factory=Sampling)
    memory: Annotated[int | None, LOOK_BACK] = None
    """Length of the memory in characters; by default the run's eval_memory_length."""


def generate(args: list[str], prog: str) -> None:
    """`wordwave generate`"""
    options = parsed(GenerateOptions, args, prog)
    language_model = options.load("lm")
    prompt = options.prompt or ""
    if options.prompt == "-":
        try:
            prompt = standard_input("a prompt").read().decode("utf-8")
        except UnicodeDecodeError as problem:
            raise WordwaveError(f"the prompt must be UTF-8, got {problem.reason}") from None
    if unknown := language_model.unknown_in(prompt):
        shown = ", ".join(map(repr, unknown[:8])) + (", …" if len(unknown) > 8 else "")
        print(f"unknown characters, not in the training set: {shown}", file=sys.stderr)
    generated = language_model.stream(
        prompt, options.length, sampling=options.sampling, memory_length=options.memory
    )
    write_lines(chain([prompt], generated, ["\n"]))
