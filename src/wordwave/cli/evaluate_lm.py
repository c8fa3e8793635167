"""`wordwave evaluate` of a language model: bits per character of any file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class EvaluateLmOptions:
    """Score a language model on a text: bits per character, every character after the first.

    Exact: each character is predicted from the same number of characters before it, however the
    text is cut for reading.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run of train lm."""
    data: Path | None = None
    """A text file, also .gz and .xz; by default the run's own test part."""
    characters: int = 0
    """How many are scored, from the start; 0 for all."""
    memory: int | None = None
    """Characters that each one looks back to; by default the run's evaluation_memory."""
    batch_size: int = 16
    """Places of the text that are read in parallel; does not change the figures."""
    trust_data: bool = False
    """Without --data: open what the run's config.yaml names, though it was not trained here."""
    picture: Path | None = None
    """Draw the learnt frequencies of the characters: .png, .svg or .pdf."""
    json: Path | None = None
    """Write the figures here as well."""


def evaluate_lm(args: list[str], prog: str) -> None:
    """`wordwave evaluate` of a run of train lm"""
    options = tyro.cli(EvaluateLmOptions, prog=prog, args=args)
    for name, least in (("characters", 0), ("memory", 0), ("batch_size", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    from wordwave.cli.console import Console
    from wordwave.cli.options import say_opened
    from wordwave.data.characters import UNIT_NAMES
    from wordwave.files import write_text
    from wordwave.tasks.language_model import evaluate_language_model
    from wordwave.tasks.lm_config import LmConfig
    from wordwave.tasks.made_here import check_made_here
    from wordwave.tasks.run_folder import read_config

    console = Console()
    if options.picture is not None:
        from wordwave.experiments.pictures.characters import draw_frequencies
        from wordwave.tasks.writer import Writer

        draw_frequencies(Writer.load(options.run), options.picture)
        console.print(f"Written: {options.picture}")
    if options.data is None:
        data = read_config(options.run, "lm", LmConfig).data
        check_made_here(options.run, data.files, trusted=options.trust_data)
        say_opened(options.run, (data.data,))
    with console.status("reading …"):
        figures = evaluate_language_model(
            options.run,
            options.data,
            memory_length=options.memory,
            characters=options.characters,
            batch_size=options.batch_size,
            trusted=options.trust_data,
        )
    unit = UNIT_NAMES[figures["unit"]]
    console.print(
        f"{figures['text']}: {figures['characters']:,} {unit}s\n"
        f"{figures['bpc']:.4f} bits per {unit}, each looks back to {figures['memory_length']}"
    )
    if figures["unknown"]:
        console.print(
            f"{figures['unknown']:,} of them were never seen in training and count as unknown"
        )
    if options.json is not None:
        write_text(options.json, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")
