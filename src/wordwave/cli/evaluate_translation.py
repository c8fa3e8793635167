"""`wordwave evaluate` of a translation model: BLEU and chrF."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from wordwave.data.parallel_text import Pairs
    from wordwave.tasks.translate_config import TranslateConfig


@dataclass(frozen=True)
class EvaluateTranslationOptions:
    """Translate sentences and compare with how people translated them: BLEU and chrF."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run of train translate."""
    source: Path | None = None
    """Sentences, one a line, also .gz; by default the run's own test part."""
    target: Path | None = None
    """Their translations, line by line."""
    trust_data: bool = False
    """Without --source: open what the run's config.yaml names, though it was not trained here."""
    beam: int = 5
    """Translations followed up at once; 1 takes the likeliest piece each time."""
    length_penalty: float = 1.0
    """0 prefers short translations, more prefers long ones."""
    json: Path | None = None
    """Write the figures here as well."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")
        if (self.source is None) != (self.target is None):
            raise ValueError("source and target go together: name both files, or none")


def evaluate_translation(args: list[str], prog: str) -> None:
    """`wordwave evaluate` of a run of train translate"""
    from wordwave.cli.options import parsed

    options = parsed(EvaluateTranslationOptions, args, prog)
    import torch

    from wordwave.cli.console import Console
    from wordwave.cli.train_translate import figure_lines
    from wordwave.files import write_text
    from wordwave.tasks.translate import best_of, scored
    from wordwave.tasks.translate_config import first_release_targets
    from wordwave.tasks.translator import Search, Translator

    torch.set_num_threads(options.threads)
    search = Search(options.beam, length_penalty=options.length_penalty)
    translator = Translator.load(options.run)
    pairs = _pairs(options, translator.config)
    console = Console()
    with console.status("translating …"):
        said, n_cut = best_of(translator, pairs.sources, search)
    scores = scored(translator, said, pairs.targets).plain()
    lines = [f"{pairs.name}:", *figure_lines(scores)]
    if n_cut:
        longest = translator.pieces.max_length
        lines.append(f"{n_cut:,} of {len(pairs):,} sentences were cut to {longest} pieces")
    first = first_release_targets(translator.config.data) if options.source is None else None
    if first is not None:
        scores["first_release"] = scored(translator, said, first).plain()
        lines += ["against the German sentences as they first came out:"]
        lines += figure_lines(scores["first_release"])
    console.print("\n".join(lines))
    if options.json is not None:
        write_text(options.json, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")


def _pairs(options: EvaluateTranslationOptions, config: TranslateConfig) -> Pairs:
    from wordwave.cli.options import say_opened
    from wordwave.data.parallel_text import read_pairs
    from wordwave.tasks.made_here import check_made_here
    from wordwave.tasks.translate_config import load_pairs

    if options.source is not None and options.target is not None:
        return read_pairs(options.source, options.target)
    check_made_here(options.run, config.data.files, trusted=options.trust_data)
    say_opened(options.run, config.data.files or (config.data.data,))
    test = load_pairs(config.data).test
    if test is None:
        raise ValueError(f"'{options.run}' has no test part: name pairs by --source and --target")
    return test
