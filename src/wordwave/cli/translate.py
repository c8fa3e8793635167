"""`wordwave translate`: translate sentences."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.cli.console import UseRun, parsed
from wordwave.cli.stream import answered, input_batches, write_lines
from wordwave.data.tables import read_texts
from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.tasks.translator import Translation, Translator

BATCH = 256
read_lines = partial(read_texts, form="txt")


@dataclass(frozen=True)
class TranslateOptions(UseRun):
    """Translate any number of sentences, one per line, in input order."""

    file: Annotated[str | None, tyro.conf.Positional] = None
    """Sentences: a text file with one per line, also .gz; or a sentence itself; by default standard
    input, translated as they arrive."""
    beam: int = 5
    """Beam size; 1 is greedy decoding."""
    length_penalty: float = 1.0
    """Exponent of the length normalisation of scores; higher values favour longer translations."""
    n_best: int = 1
    """Translations per sentence; more than one are written as JSON."""
    json: bool = False
    """Write one JSON line per sentence: {"text": …, "translations": [{"text": …, "score": …},
    …]}."""
    reference: Path | None = None
    """Reference translations, one per line; BLEU and chrF are printed with their confidence
    intervals at the end."""
    picture: Path | None = None
    """Plot the attention from the translation of the first non-empty sentence to its source:
    .png, .svg or .pdf."""
    out: Path | None = None
    """Write to this file, completely or not at all, instead of to the terminal; also .gz."""


def translate(args: list[str], prog: str) -> None:
    """`wordwave translate`"""
    options = parsed(TranslateOptions, args, prog)
    from wordwave.tasks.translator import BeamConfig

    if options.picture is not None:
        from wordwave.plotting import check_format

        check_format(options.picture)
    search = BeamConfig(options.beam, options.n_best, options.length_penalty)
    translator = options.load("translate")
    references = _references(options)
    sentences = input_batches(options.file, read_lines, size=BATCH, what="sentences")
    note = f"sentences were truncated to {translator.subwords.max_length} subwords"
    batches = answered(sentences, lambda texts: translator.translations(texts, search), note)
    as_json = options.json or options.n_best > 1
    best: list[Translation] = []

    def lines() -> Iterator[str]:
        picture = options.picture
        for translated in batches:
            if picture is not None and _draw_first(translator, translated, picture):
                picture = None
            if references is not None:
                best.extend(found[0] for _, found in translated)
            yield "".join(_line(text, found, as_json=as_json) for text, found in translated)
        if picture is not None:
            print(f"'{picture}' was not drawn: all sentences are empty", file=sys.stderr)

    write_lines(lines(), options.out)
    if references is not None:
        from wordwave.tasks.translation import score, score_lines

        print("\n".join(score_lines(score(translator, best, references))), file=sys.stderr)


def _references(options: TranslateOptions) -> list[str] | None:
    """The reference translations, counted before anything is translated."""
    if options.reference is None:
        return None
    references = list(read_lines(options.reference))
    # A pipe can be read only once.
    if options.file is not None and Path(options.file).is_file():
        n = sum(1 for _ in read_lines(options.file))
        if n != len(references):
            raise WordwaveError(
                f"'{options.reference}' must have a line for each of the {n:,} of "
                f"'{options.file}', got {len(references):,}"
            )
    return references


def _line(text: str, found: list[Translation], *, as_json: bool) -> str:
    if not as_json:
        return found[0].text + "\n"
    translations = [
        {
            "text": t.text,
            "score": round(t.score, 6),
            "log_probability": round(t.log_probability, 6),
        }
        for t in found
    ]
    return json.dumps({"text": text, "translations": translations}, ensure_ascii=False) + "\n"


def _draw_first(
    translator: Translator,
    translated: list[tuple[str, list[Translation]]],
    picture: Path,
) -> bool:
    """Plot the attention of the first sentence that is not empty; returns whether there is one."""
    from wordwave.plotting import draw_attention, missing_glyphs

    for text, (best, *_) in translated:
        if translator.subwords.source.tokenised(text):
            source, target, attention = translator.attention(text, best)
            draw_attention(source, target, attention, picture)
            if note := missing_glyphs([*source, *target]):
                print(note, file=sys.stderr)
            print(f"Written: {picture}", file=sys.stderr)
            return True
    return False
