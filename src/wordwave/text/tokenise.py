"""From a text to its tokens: `plain` words and marks, `kim`'s cleaning, `bpe` pieces of words."""

from __future__ import annotations

import functools
import os
import re
import unicodedata
from itertools import chain, groupby
from typing import Protocol

from wordwave.names import unknown
from wordwave.text.bpe import BpeTokeniser

TOKENISERS = ("plain", "kim", "bpe")

# Written without spaces between words: every character counts as a word.
_UNSPACED = "\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\U00020000-\U0003ffff"
_LONGEST_NORMALISED = 100
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]")


class Tokeniser(Protocol):
    """Cuts a text into tokens, chunk by chunk.

    The law that makes encoding fast: `self(text)` is `self(chunk)` of every chunk of
    `text.split(self.separator)`, one after the other, so a chunk seen before need not be cut again.
    """

    kind: str
    separator: str | None
    """What `str.split` takes; None is any white space."""

    def __call__(self, text: str) -> list[str]: ...


class PlainTokeniser:
    """Lower-case words and punctuation marks of any script; only white space is dropped.

    Accents written as characters of their own belong to the letter before them. Every Chinese or
    Japanese character is a word; Thai, Lao, Khmer and Burmese are better served by `bpe`.
    """

    kind = "plain"
    separator: str | None = None

    def __call__(self, text: str) -> list[str]:
        if text.isascii():
            return _ASCII_TOKEN.findall(text.lower())
        tokens = _any_token().findall(text.lower())
        # One spelling for one word. Accents piled up by the thousand take quadratic time to order.
        return [
            unicodedata.normalize("NFC", word) if len(word) <= _LONGEST_NORMALISED else word
            for word in tokens
        ]


class KimTokeniser:
    """The cleaning customary for the sentence-classification sets since Kim (2014).

    Kept are ASCII letters and digits and ``(),!?'` ``; all else is a space. `( ) , ! ?` are tokens,
    and a token begins before every 's 've n't 're 'd 'll. Lower-casing comes last, so an upper-case
    DON'T stays whole.
    """

    kind = "kim"
    separator: str | None = None
    _token = re.compile(
        r"""[(),!?]
        | [a-zA-Z0-9'`] (?: [a-mo-zA-Z0-9`] | n(?!'t) | '(?!s|ve|re|d|ll) )*""",
        re.VERBOSE,
    )

    def __call__(self, text: str) -> list[str]:
        return [token.lower() for token in self._token.findall(text)]


def build_tokeniser(kind: str, *, file: str | os.PathLike[str] | None = None) -> Tokeniser:
    """A tokeniser by its kind; `bpe` is read from the file it was saved to."""
    if kind not in TOKENISERS:
        raise unknown("kind", kind, TOKENISERS)
    if kind == "bpe":
        if file is None:
            raise ValueError("kind 'bpe' needs the file of a trained tokeniser, got file=None")
        return BpeTokeniser.load(file)
    if file is not None:
        raise ValueError(f"file goes with kind 'bpe', got kind {kind!r} and file '{file}'")
    return PlainTokeniser() if kind == "plain" else KimTokeniser()


@functools.cache
def _any_token() -> re.Pattern[str]:
    """A word with its accents, or one other character with its own."""
    # Where Unicode keeps its combining marks; to look everywhere would take a tenth of a second.
    codes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = [code for code in codes if unicodedata.category(chr(code)).startswith("M")]
    runs = groupby(enumerate(marks), key=lambda pair: pair[1] - pair[0])
    spans = [[code for _, code in run] for _, run in runs]
    accent = "".join(f"{chr(span[0])}-{chr(span[-1])}" for span in spans)
    accent += "\u200c\u200d"  # joiners stand inside words of Persian and Hindi
    letter = rf"[^\W{_UNSPACED}]"
    return re.compile(rf"{letter}+(?:[{accent}]+{letter}*)*|\S[{accent}]*")
