"""Pieces of words learnt from texts (byte-pair encoding), by the library `tokenizers`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import repr as clipped
from typing import TYPE_CHECKING, Any, TypedDict

from wordwave.plain import conform, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

N_BYTES = 256


class BpeTokeniser:
    """Pieces of words, learnt from texts; pieces of single bytes make that nothing is unknown.

    Made by `train_bpe` or `BpeTokeniser.load`. Every word is cut with the space before it, which
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
    def load(cls, file: str | os.PathLike[str]) -> BpeTokeniser:
        """Read what `save` wrote."""
        empty = _empty_bpe()
        try:
            saved = read_json(Path(file))
            _check(saved, json.loads(empty.to_str()))
            return cls(type(empty).from_str(json.dumps(saved, ensure_ascii=False)))
        except Exception as problem:  # the library raises nothing narrower
            reason = " ".join(str(problem).split())[:200]
            raise ValueError(f"tokeniser file '{file}' cannot be read: {reason}") from None


def train_bpe(texts: Iterable[str], vocab_size: int) -> BpeTokeniser:
    """Learn at most `vocab_size` pieces from texts; the same texts give the same pieces."""
    if vocab_size < N_BYTES:
        raise ValueError(f"vocab_size must be at least {N_BYTES}, a piece a byte, got {vocab_size}")
    tokenizer = _empty_bpe()
    from tokenizers.trainers import BpeTrainer

    trainer = BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        initial_alphabet=sorted(_alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(_spaced, texts), trainer)
    return BpeTokeniser(tokenizer)


def _empty_bpe() -> Tokenizer:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "tokeniser 'bpe' needs an extra: pip install 'wordwave[cli]'", name="tokenizers"
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
                raise ValueError(f"{clipped(key)} must be as train_bpe sets it")
    if not _alphabet() <= vocab.keys() or sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError("the pieces must hold every byte and be numbered from 0")
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            raise ValueError(f"the pieces lack those of the merge {clipped([left, right])}")


def _spelling(value: object) -> str:
    """JSON tells `false` from 0, which are equal in Python and not to the library."""
    return json.dumps(value, sort_keys=True)


def _spaced(text: str) -> str:
    # Half a surrogate pair is no character and cannot be written in UTF-8: a question mark.
    return " " + text.encode("utf-8", "replace").decode("utf-8")
