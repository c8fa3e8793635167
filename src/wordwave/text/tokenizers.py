"""Tokenizers: words by rules, subwords by byte-pair encoding, Moses for translation."""

from __future__ import annotations

import functools
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby, pairwise
from pathlib import Path
from reprlib import repr as clipped
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from wordwave.config_io import conform, read_json
from wordwave.errors import WordwaveError, unknown

if TYPE_CHECKING:
    from tokenizers import Tokenizer


N_BYTES = 256


class BPETokenizer:
    """Byte-level BPE learnt from texts; with single bytes among its tokens, no text is unknown.

    Made by `train_bpe` or `BPETokenizer.load`. Every word is cut with the space before it, which
    the first word is given, so a word has the same pieces wherever it stands.
    """

    kind = "bpe"
    separator: str | None = " "

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[str]:
        return self._tokenizer.encode(_spaced(text)).tokens

    @property
    def words(self) -> list[str]:
        """All pieces: as the vocabulary's `extra_words`, they leave nothing unknown."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def decode(self, tokens: Sequence[str]) -> str:
        """The text that has these tokens, character for character."""
        assert self._tokenizer.decoder is not None
        return self._tokenizer.decoder.decode(list(tokens))[1:]

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write `tokenizer.json`, which the library `tokenizers` reads too."""
        self._tokenizer.save(os.fspath(file))

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> BPETokenizer:
        """Read what `save` wrote."""
        empty = _empty_bpe()
        try:
            saved = read_json(Path(file))
            _check(saved, json.loads(empty.to_str()))
            return cls(type(empty).from_str(json.dumps(saved, ensure_ascii=False)))
        except Exception as problem:  # the library raises nothing narrower
            reason = " ".join(str(problem).split())[:200]
            raise WordwaveError(f"tokenizer file '{file}' cannot be read: {reason}") from None


def train_bpe(texts: Iterable[str], vocab_size: int) -> BPETokenizer:
    """Learn at most `vocab_size` pieces from texts; the same texts give the same pieces."""
    if vocab_size < N_BYTES:
        raise WordwaveError(
            f"vocab_size must be at least {N_BYTES}, a piece a byte, got {vocab_size}"
        )
    tokenizer = _empty_bpe()
    from tokenizers.trainers import BpeTrainer

    trainer = BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        initial_alphabet=sorted(_alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(_spaced, texts), trainer)
    return BPETokenizer(tokenizer)


def _empty_bpe() -> Tokenizer:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "tokenizer 'bpe' needs an extra: pip install 'wordwave[cli]'", name="tokenizers"
        ) from None
    from tokenizers import decoders, models, pre_tokenizers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            # A cut at every space, so that tokens never reach across the separator.
            pre_tokenizers.Split(" ", "merged_with_next"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _alphabet() -> set[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return set(ByteLevel.alphabet())


class _Bpe(TypedDict):
    vocab: dict[str, int]
    merges: list[tuple[str, str]]


class _Saved(TypedDict):
    model: _Bpe


def _check(saved: Any, empty: dict[str, Any]) -> None:
    """Refuse what `train_bpe` cannot have made, before the library sees it, which may panic."""
    conform(saved, _Saved, where="it")
    vocab, merges = saved["model"]["vocab"], saved["model"]["merges"]
    for given, usual in ((saved, empty), (saved["model"], empty["model"])):
        for key in sorted((given.keys() | usual.keys()) - {"model", "vocab", "merges"}):
            if _spelling(given.get(key)) != _spelling(usual.get(key)):
                raise WordwaveError(f"{clipped(key)} must be as train_bpe sets it")
    if not _alphabet() <= vocab.keys() or sorted(vocab.values()) != list(range(len(vocab))):
        raise WordwaveError("the pieces must hold every byte and be numbered from 0")
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            raise WordwaveError(f"the pieces lack those of the merge {clipped([left, right])}")


def _spelling(value: object) -> str:
    """JSON tells `false` from 0, which are equal in Python and not to the library."""
    return json.dumps(value, sort_keys=True)


def _spaced(text: str) -> str:
    # Half a surrogate pair is no character and cannot be written in UTF-8: a question mark.
    return " " + text.encode("utf-8", "replace").decode("utf-8")


TOKENIZERS = ("plain", "kim", "bpe")

# Written without spaces between words: every character counts as a word.
_UNSPACED = "\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\U00020000-\U0003ffff"
_LONGEST_NORMALISED = 100
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]")


class TextTokenizer(Protocol):
    """Cuts a text into tokens, chunk by chunk.

    The law that makes encoding fast: `self(text)` is `self(chunk)` of every chunk of
    `text.split(self.separator)`, one after the other, so a chunk seen before need not be cut again.
    """

    kind: str
    separator: str | None
    """What `str.split` takes; None is any white space."""

    def __call__(self, text: str) -> list[str]: ...


class PlainTokenizer:
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


class KimTokenizer:
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


def build_tokenizer(kind: str, *, file: str | os.PathLike[str] | None = None) -> TextTokenizer:
    """A tokenizer by its kind; `bpe` is read from the file it was saved to."""
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


class MosesText:
    """From a text to words and marks between spaces, and back.

    Args:
        language: `en`, `de`, …; one that Moses has no rules for takes English abbreviations.
        lower_case: take all letters as small ones.
    """

    def __init__(self, language: str, *, lower_case: bool = False) -> None:
        self.language, self.lower_case = language, lower_case

    def tokenised(self, text: str) -> str:
        """Words and marks between single spaces."""
        if not text.strip():
            return ""
        normal = self._normalizer.normalize(text)
        tokens = self._tokenizer.tokenize(normal, escape=False, return_str=True)
        return tokens.lower() if self.lower_case else tokens

    def plain(self, tokenised: str) -> str:
        """The text as people write it."""
        text: str = self._detokenizer.detokenize(tokenised.split())
        return text

    @cached_property
    def _normalizer(self) -> Any:
        return _sacremoses().MosesPunctNormalizer(lang=self.language)

    @cached_property
    def _tokenizer(self) -> Any:
        return _sacremoses().MosesTokenizer(lang=self.language)

    @cached_property
    def _detokenizer(self) -> Any:
        return _sacremoses().MosesDetokenizer(lang=self.language)


class SpacedText:
    """A text whose words are between spaces already: nothing is changed but white space.

    Args: as `MosesText`.
    """

    def __init__(self, language: str = "", *, lower_case: bool = False) -> None:
        self.language, self.lower_case = language, lower_case

    def tokenised(self, text: str) -> str:
        """Words between single spaces."""
        words = " ".join(text.split())
        return words.lower() if self.lower_case else words

    def plain(self, tokenised: str) -> str:
        """The same."""
        return tokenised


def _sacremoses() -> Any:
    try:
        import sacremoses
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "words of Moses need an extra: pip install 'wordwave[cli]'", name="sacremoses"
        ) from None
    return sacremoses


_WORD = re.compile(r"[\w'’-]+|[.!?]")
_ENDS = frozenset(".!?")


class Casing:
    """How a word is written inside a sentence, where it is not in small letters.

    Args:
        forms: its spelling, by the same in small letters.
    """

    def __init__(self, forms: Mapping[str, str]) -> None:
        for small, form in forms.items():
            if form.lower() != small:
                raise WordwaveError(f"a spelling must be that of {small[:60]!r}, got {form[:60]!r}")
        self.forms = dict(forms)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Casing:
        """The most frequent spelling of each word; at the start of a sentence it says nothing."""
        seen: dict[str, Counter[str]] = {}
        for text in texts:
            for before, word in pairwise((".", *_WORD.findall(text))):
                if before not in _ENDS:
                    seen.setdefault(word.lower(), Counter())[word] += 1
        usual = {
            small: max(sorted(f, reverse=True), key=f.__getitem__) for small, f in seen.items()
        }
        return cls({small: form for small, form in usual.items() if form != small})

    def restored(self, tokenised: str) -> str:
        """The same words and marks, with capitals inside and at the start of sentences."""
        words = [self.forms.get(word, word) for word in tokenised.split()]
        for i, word in enumerate(words):
            if i == 0 or words[i - 1] in _ENDS:
                words[i] = word[:1].upper() + word[1:]
        return " ".join(words)
