"""`wordwave translate`: sentences in another language, in their order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.limits import THREADS, check_limits

if TYPE_CHECKING:
    from wordwave.tasks.translator import Search, Translation, Translator

BATCH = 256


@dataclass(frozen=True)
class TranslateOptions:
    """Translate sentences, one a line, in their order; any number of them."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    file: Annotated[str | None, tyro.conf.Positional] = None
    """Sentences: a text file with one a line, also .gz; or a sentence itself; by default what is
    piped in, translated as it comes."""
    beam: int = 5
    """Translations followed up at once; 1 takes the likeliest piece each time."""
    length_penalty: float = 1.0
    """0 prefers short translations, more prefers long ones."""
    n_best: int = 1
    """How many translations of each sentence; more than one are told as JSON."""
    json: bool = False
    """Tell a JSON line each: {"text": …, "translations": [{"text": …, "score": …}, …]}."""
    reference: Path | None = None
    """True translations, one a line: says BLEU and chrF with their intervals in the end."""
    picture: Path | None = None
    """Draw which pieces of the first sentence that says something each piece of its translation
    heard: .png, .svg or .pdf."""
    out: Path | None = None
    """Write to this file, whole or not at all, instead of to the terminal."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""

    def __post_init__(self) -> None:
        check_limits(self, {"threads": THREADS})


def translate(args: list[str], prog: str) -> None:
    """`wordwave translate`"""
    options = parsed(TranslateOptions, args, prog)
    import torch

    from wordwave.cli.stream import arriving, batches, is_text, piped, say
    from wordwave.data.tables import read_texts
    from wordwave.files import write_whole
    from wordwave.plotting import check_format
    from wordwave.tasks.translator import Search, Translator

    if options.picture is not None:
        check_format(options.picture)
    torch.set_num_threads(options.threads)
    search = Search(options.beam, options.n_best, options.length_penalty)
    translator = Translator.load(options.run)
    references = None
    if options.reference is not None:
        references = list(read_texts(options.reference, form="txt"))
        _check_length(references, options)
    parts: Iterable[list[str]]
    if options.file is not None and is_text(options.file):
        parts = [[options.file]]
    elif options.file is not None:
        parts = batches(read_texts(options.file, form="txt"), BATCH)
    else:
        parts = arriving(read_texts(piped("sentences, one a line")), BATCH)
    teller = Teller(translator, search, as_json=options.json or options.n_best > 1)
    teller.picture = options.picture
    teller.keep = references is not None
    lines = teller.lines(parts)
    if options.out is not None:
        write_whole(options.out, lambda new: _write(lines, new))
        print(f"Written: {options.out}", file=sys.stderr)
    else:
        say(lines)
    if teller.picture is not None:
        print(f"'{teller.picture}' was not drawn: no sentence says anything", file=sys.stderr)
    if references is not None:
        _score(translator, teller.said, references)


def _check_length(references: list[str], options: TranslateOptions) -> None:
    """Refuse references for other sentences, before these are translated."""
    from wordwave.data.tables import read_texts

    # A pipe can be read only once.
    if options.file is not None and Path(options.file).is_file():
        n = sum(1 for _ in read_texts(options.file, form="txt"))
        if n != len(references):
            raise WordwaveError(
                f"'{options.reference}' must have a line for each of the {n:,} of "
                f"'{options.file}', got {len(references):,}"
            )


class Teller:
    """Translates what comes, part by part, and in the end says what was cut."""

    def __init__(self, translator: Translator, search: Search, *, as_json: bool) -> None:
        self.translator, self.search, self.as_json = translator, search, as_json
        self.picture: Path | None = None
        self.keep = False
        self.said: list[Translation] = []

    def lines(self, parts: Iterable[list[str]]) -> Iterator[str]:
        """What is told of each part of the sentences."""
        n = n_cut = 0
        for texts in parts:
            found, cut = self.translator.translations(texts, self.search)
            self._draw_first(texts, found)
            n, n_cut = n + len(texts), n_cut + cut
            if self.keep:
                self.said += [best[0] for best in found]
            told = zip(texts, found, strict=True)
            yield "".join(self._line(text, translations) for text, translations in told)
        if n_cut:
            longest = self.translator.pieces.max_length
            print(f"{n_cut:,} of {n:,} sentences were cut to {longest} pieces", file=sys.stderr)

    def _line(self, text: str, found: list[Translation]) -> str:
        if not self.as_json:
            return found[0].text + "\n"
        each = [
            {
                "text": t.text,
                "score": round(t.score, 6),
                "log_probability": round(t.log_probability, 6),
            }
            for t in found
        ]
        return json.dumps({"text": text, "translations": each}, ensure_ascii=False) + "\n"

    def _draw_first(self, texts: list[str], found: list[list[Translation]]) -> None:
        """Draw the first sentence that says something, once."""
        from wordwave.plotting import draw_attention, missing_glyphs

        for text, (best, *_) in zip(texts, found, strict=True):
            if self.picture is not None and self.translator.pieces.source.tokenised(text):
                source, target, heard = self.translator.attention(text, best)
                draw_attention(source, target, heard, self.picture)
                if note := missing_glyphs([*source, *target]):
                    print(note, file=sys.stderr)
                print(f"Drawn: {self.picture}", file=sys.stderr)
                self.picture = None


def _score(translator: Translator, said: list[Translation], references: list[str]) -> None:
    from wordwave.cli.train import figure_lines
    from wordwave.tasks.translation import scored

    scores = scored(translator, said, references)
    print("\n".join(figure_lines(scores.plain())), file=sys.stderr)


def _write(lines: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
