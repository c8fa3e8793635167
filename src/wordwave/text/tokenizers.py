"""Tokenizers: rule-based words, byte-level BPE subwords, and Moses for translation."""

from __future__ import annotations

import functools
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import chain, groupby, pairwise
from pathlib import Path
from reprlib import repr as clipped
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from wordwave.config_io import conform, read_json
from wordwave.errors import WordwaveError, missing_extra, unknown

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZERS = ("plain", "kim", "bpe")

# Scripts without spaces between words: every character is a token.
_UNSPACED = "\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\U00020000-\U0003ffff"
_MAX_NORMALISED = 100
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]")


class TextTokenizer(Protocol):
    """Splits a text into tokens.

    `self(text)` equals the concatenation of `self(chunk)` for `chunk in
    text.split(self.separator)`, so that the tokens of a chunk can be cached.
    """

    kind: str
    separator: str | None
    """The argument of `str.split`; None is any white space."""

    def __call__(self, text: str) -> list[str]: ...


class PlainTokenizer:
    """Lower-cased words and punctuation marks of any script; only white space is dropped.

    Combining accents belong to the letter before them. Every Chinese or Japanese character is a
    token; for Thai, Lao, Khmer and Burmese use `bpe`.
    """

    kind = "plain"
    separator: str | None = None

    def __call__(self, text: str) -> list[str]:
        if text.isascii():
            return _ASCII_TOKEN.findall(text.lower())
        tokens = _any_token().findall(text.lower())
        # NFC gives a word one spelling. Thousands of stacked accents take quadratic time to sort.
        return [
            unicodedata.normalize("NFC", word) if len(word) <= _MAX_NORMALISED else word
            for word in tokens
        ]

    @property
    def rule(self) -> dict[str, Any]:
        """All that a program without wordwave needs to split texts in the same way."""
        return {
            "lower_case": "text",
            "pattern": _any_token().pattern,
            "normalize": "NFC",
            "max_normalized": _MAX_NORMALISED,
            "unicode": unicodedata.unidata_version,
        }


class KimTokenizer:
    """The usual cleaning of sentence-classification sets, after Kim (2014).

    ASCII letters, digits and ``(),!?'` `` are kept; anything else is a space. `( ) , ! ?` are
    tokens, and a token begins before every 's 've n't 're 'd 'll. Lower-casing comes last, so an
    upper-case DON'T is one token.
    """

    kind = "kim"
    separator: str | None = None
    _token = re.compile(
        r"[(),!?]|[a-zA-Z0-9'`](?:[a-mo-zA-Z0-9`]|n(?!'t)|'(?!s|ve|re|d|ll))*",
    )

    @property
    def rule(self) -> dict[str, Any]:
        """As `PlainTokenizer.rule`."""
        return {"lower_case": "tokens", "pattern": self._token.pattern}

    def __call__(self, text: str) -> list[str]:
        return [token.lower() for token in self._token.findall(text)]


def build_tokenizer(kind: str, *, file: str | os.PathLike[str] | None = None) -> TextTokenizer:
    """A tokenizer by kind; `bpe` is loaded from a file."""
    if kind not in TOKENIZERS:
        raise unknown("kind", kind, TOKENIZERS)
    if kind == "bpe":
        if file is None:
            raise WordwaveError("kind 'bpe' needs the file of a trained tokenizer, got file=None")
        return BPETokenizer.load(file)
    if file is not None:
        raise WordwaveError(f"file goes with kind 'bpe', got kind {kind!r} and file '{file}'")
    return PlainTokenizer() if kind == "plain" else KimTokenizer()


@functools.cache
def _any_token() -> re.Pattern[str]:
    """Matches a word, or one other character, each with its combining accents."""
    # The blocks with combining marks; all of Unicode would take a tenth of a second.
    codes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = [code for code in codes if unicodedata.category(chr(code)).startswith("M")]
    runs = groupby(enumerate(marks), key=lambda pair: pair[1] - pair[0])
    spans = [[code for _, code in run] for _, run in runs]
    accent = "".join(f"{chr(span[0])}-{chr(span[-1])}" for span in spans)
    accent += "\u200c\u200d"  # joiners occur inside words of Persian and Hindi
    letter = rf"[^\W{_UNSPACED}]"
    return re.compile(rf"{letter}+(?:[{accent}]+{letter}*)*|\S[{accent}]*")


def import_extra(module: str) -> Any:
    """An optional dependency; if it is not installed, the error names the extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_extra(error) or str(error), name=error.name) from None


class BPETokenizer:
    """Byte-level BPE. Its vocabulary contains all single bytes, so no token is unknown.

    Made by `train_bpe` or `BPETokenizer.load`. A word is tokenised with the space before it, and
    the first word gets one too, so a word has the same subwords at every position.
    """

    kind = "bpe"
    separator: str | None = " "

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[str]:
        return self._tokenizer.encode(_spaced(text)).tokens

    @property
    def words(self) -> list[str]:
        """All subwords; as `extra_words` of a vocabulary they leave nothing unknown."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of these tokens, exactly as it was."""
        assert self._tokenizer.decoder is not None
        return self._tokenizer.decoder.decode(list(tokens))[1:]

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write `tokenizer.json`, in the format of the library `tokenizers`."""
        self._tokenizer.save(os.fspath(file))

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> BPETokenizer:
        """A tokenizer from the file that `save` wrote."""
        empty, alphabet = _empty_bpe()
        try:
            saved = read_json(Path(file))
            _check_saved(saved, json.loads(empty.to_str()), alphabet)
            return cls(type(empty).from_str(json.dumps(saved, ensure_ascii=False)))
        except Exception as problem:  # the library raises nothing narrower
            reason = " ".join(str(problem).split())[:200]
            raise WordwaveError(f"tokenizer file '{file}' cannot be read: {reason}") from None


class SubwordTokenizer:
    """Lower-cased words and punctuation marks, as `PlainTokenizer` splits them, in BPE subwords.

    Only the first subword of a word begins with a space, so that words can be counted; punctuation
    marks are written without one.
    """

    kind = "plain-bpe"
    separator: str | None = None

    def __init__(self, bpe: BPETokenizer) -> None:
        self._plain, self.bpe = PlainTokenizer(), bpe

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> SubwordTokenizer:
        """Learn at most `vocab_size` subwords from texts; deterministic."""
        plain = PlainTokenizer()
        joined = ("".join(map(_marked, plain(text))).removeprefix(" ") for text in texts)
        return cls(train_bpe(joined, vocab_size))

    def __call__(self, text: str) -> list[str]:
        encode = self.bpe._tokenizer.encode
        return [t for word in self._plain(text) for t in encode(_encodable(_marked(word))).tokens]

    def begins_word(self) -> list[bool]:
        """For each subword of `bpe.words`, whether it is the first of a word."""
        return [token.startswith(_SPACE) for token in self.bpe.words]


_SPACE = "Ġ"
"""The name of a space in byte-level BPE."""


def _marked(word: str) -> str:
    """A word after a space; a punctuation mark as it is."""
    return f" {word}" if any(c.isalnum() for c in word) else word


_LONG_WORD = re.compile(r"(\S{500})(?=\S)")


def train_bpe(texts: Iterable[str], vocab_size: int) -> BPETokenizer:
    """Learn at most `vocab_size` subwords from texts; deterministic."""
    tokenizer, alphabet = _empty_bpe()
    if vocab_size < len(alphabet):
        raise WordwaveError(
            f"vocab_size must be at least {len(alphabet)}, the number of bytes, got {vocab_size}"
        )
    from tokenizers.trainers import BpeTrainer

    trainer = BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    # Training takes the square of the length of a word.
    short = (_LONG_WORD.sub(r"\1 ", _spaced(text)) for text in texts)
    tokenizer.train_from_iterator(short, trainer)
    return BPETokenizer(tokenizer)


def _empty_bpe() -> tuple[Tokenizer, list[str]]:
    """A tokenizer that has learned nothing, and its name of each byte."""
    import_extra("tokenizers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE())
    # Split at every space, so that no token crosses the separator.
    at_spaces = pre_tokenizers.Split(" ", "merged_with_next")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([at_spaces, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, sorted(to_bytes.alphabet())


class _Model(TypedDict):
    vocab: dict[str, int]
    merges: list[tuple[str, str]]


class _Saved(TypedDict):
    model: _Model


def _check_saved(saved: Any, empty: dict[str, Any], alphabet: list[str]) -> None:
    """Refuse a file that `train_bpe` cannot have written; the library may panic on it."""
    conform(saved, _Saved, where="it")
    vocab, merges = saved["model"]["vocab"], saved["model"]["merges"]
    for given, usual in ((saved, empty), (saved["model"], empty["model"])):
        for key in sorted((given.keys() | usual.keys()) - {"model", "vocab", "merges"}):
            # As JSON, which tells `false` from 0 as the library does.
            if json.dumps(given.get(key)) != json.dumps(usual.get(key)):
                raise WordwaveError(f"{clipped(key)} must be as train_bpe sets it")
    if not vocab.keys() >= {*alphabet} or sorted(vocab.values()) != list(range(len(vocab))):
        raise WordwaveError("the vocabulary must hold every byte and be numbered from 0")
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            pair = clipped([left, right])
            raise WordwaveError(f"the vocabulary lacks tokens of the merge {pair}")


def _spaced(text: str) -> str:
    return " " + _encodable(text)


def _encodable(text: str) -> str:
    # A lone surrogate cannot be encoded in UTF-8 and becomes a question mark.
    return text.encode("utf-8", "replace").decode("utf-8")


class SpacedText:
    """Splits texts that are tokenised already: only white space is normalised.

    Args:
        language: `en`, `de`, …
        lower_case: lower-case the tokens.
    """

    def __init__(self, language: str = "", *, lower_case: bool = False) -> None:
        self.language, self.lower_case = language, lower_case

    def tokenised(self, text: str) -> str:
        """Words and punctuation marks, separated by single spaces."""
        tokens = self._tokens(text) if text.strip() else ""
        return tokens.lower() if self.lower_case else tokens

    def _tokens(self, text: str) -> str:
        return " ".join(text.split())

    def plain(self, tokenised: str) -> str:
        """The detokenised text."""
        return tokenised


class MosesText(SpacedText):
    """Moses tokenisation and detokenisation; a language without rules has those of English."""

    def _tokens(self, text: str) -> str:
        normalizer, tokenizer, _ = self._moses
        return tokenizer.tokenize(normalizer.normalize(text), escape=False, return_str=True)

    def plain(self, tokenised: str) -> str:
        return self._moses[2].detokenize(tokenised.split())

    @cached_property
    def _moses(self) -> tuple[Any, Any, Any]:
        sacremoses = import_extra("sacremoses")
        return (
            sacremoses.MosesPunctNormalizer(lang=self.language),
            sacremoses.MosesTokenizer(lang=self.language),
            sacremoses.MosesDetokenizer(lang=self.language),
        )


_WORD = re.compile(r"[\w'’-]+|[.!?]")
_ENDS = frozenset(".!?")


class Casing:
    """A truecaser: restores the capitals of lower-cased text.

    Args:
        forms: the spelling of each word that is not lower-case inside a sentence, by its lower-case
            form.
    """

    def __init__(self, forms: Mapping[str, str]) -> None:
        for lower, form in forms.items():
            if form.lower() != lower:
                raise WordwaveError(f"a spelling must be that of {lower[:60]!r}, got {form[:60]!r}")
        self.forms = dict(forms)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Casing:
        """Learn the most frequent spelling of each word, ignoring starts of sentences."""
        seen: dict[str, Counter[str]] = {}
        for text in texts:
            for before, word in pairwise((".", *_WORD.findall(text))):
                if before not in _ENDS:
                    seen.setdefault(word.lower(), Counter())[word] += 1
        usual = {
            lower: max(sorted(f, reverse=True), key=f.__getitem__) for lower, f in seen.items()
        }
        return cls({lower: form for lower, form in usual.items() if form != lower})

    def restored(self, tokenised: str) -> str:
        """The tokens with capitals inside and at the start of sentences."""
        words = [self.forms.get(word, word) for word in tokenised.split()]
        for i, word in enumerate(words):
            if i == 0 or words[i - 1] in _ENDS:
                words[i] = word[:1].upper() + word[1:]
        return " ".join(words)
