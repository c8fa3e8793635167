"""Pieces of words learnt from texts (byte-pair encoding), by the library `tokenizers`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wordwave.files import read_text
from wordwave.plain import MOST_JSON

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
            tokenizer = type(empty).from_str(read_text(Path(file), most=MOST_JSON))
        except Exception as error:  # the library raises nothing narrower
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"tokeniser file '{file}' cannot be read: {reason}") from None
        pieces = tokenizer.get_vocab()
        is_ours = _rules(tokenizer) == _rules(empty) and _alphabet() <= pieces.keys()
        if not is_ours or sorted(pieces.values()) != list(range(len(pieces))):
            raise ValueError(f"tokeniser file '{file}' must be one that train_bpe made")
        return cls(tokenizer)


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


def _rules(tokenizer: Tokenizer) -> dict[str, object]:
    """How it works, without what it has learnt."""
    rules: dict[str, object] = json.loads(tokenizer.to_str())
    model = rules.pop("model")
    assert isinstance(model, dict)
    return rules | {k: v for k, v in model.items() if k not in ("vocab", "merges")}


def _spaced(text: str) -> str:
    # Half a surrogate pair is no character and cannot be written in UTF-8: a question mark.
    return " " + text.encode("utf-8", "replace").decode("utf-8")
