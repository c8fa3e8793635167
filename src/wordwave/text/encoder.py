"""Fast encoding of texts as ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from wordwave.errors import WordwaveError
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import TextTokenizer
from wordwave.text.vocabulary import Vocabulary

ID = np.dtype(np.intc)  # the C int of array("i")
MAX_CACHED = 100_000
MAX_CACHED_LENGTH = 64
CHARACTERS_PER_WORD = 16


class Encoded(NamedTuple):
    """Texts as ids, and the number of texts that were truncated."""

    sentences: Sentences
    n_truncated: int


class TextEncoder:
    """A tokenizer and a vocabulary: encodes texts as ids.

    A text is split at white space and the ids of each chunk are cached, since most chunks of a text
    have been seen before. They are stored as bytes, which Python joins faster than lists.

    Args:
        max_length: longer texts are truncated to as many tokens.
        hashed: unknown words have the ids of rare words, by their hash, instead of one of their
            own.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        vocabulary: Vocabulary,
        *,
        max_length: int,
        hashed: bool = False,
    ) -> None:
        if max_length < 1:
            raise WordwaveError(f"max_length must be at least 1, got {max_length}")
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.max_length = max_length
        self.hashed = hashed
        self._chunks = _ChunkCache(tokenizer, vocabulary, hashed)

    def encode(self, texts: Iterable[str]) -> Encoded:
        """The ids of texts, truncated to `max_length` tokens."""
        if isinstance(texts, str):
            raise WordwaveError(f"texts must be a list of texts, got the text {texts[:60]!r}")
        texts = list(texts)
        try:
            rows = [self._row(text) for text in texts]
        except (AttributeError, TypeError):
            for i, text in enumerate(texts):
                if not isinstance(text, str):
                    raise WordwaveError(f"texts must be strings, got {text!r} at {i}") from None
            raise
        max_bytes = self.max_length * ID.itemsize
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        truncated = np.flatnonzero(sizes > max_bytes).tolist()
        for i in truncated:
            rows[i] = rows[i][:max_bytes]
        ids = np.frombuffer(bytearray().join(rows), ID)
        lengths = sizes.clip(max=max_bytes) // ID.itemsize
        return Encoded(Sentences(torch.from_numpy(ids), torch.from_numpy(lengths)), len(truncated))

    def clear_cache(self) -> None:
        self._chunks.clear()

    def _row(self, text: str) -> bytes:
        """The ids of a text as bytes; of a long text perhaps not all, but more than max_length."""
        ids_of, separator = self._chunks.__getitem__, self.tokenizer.separator
        enough = self.max_length * CHARACTERS_PER_WORD
        if len(text) > enough:
            # The beginning of a long text often has enough words; its last chunk may be cut.
            row = b"".join(map(ids_of, text[:enough].split(separator)[:-1]))
            if len(row) > self.max_length * ID.itemsize:
                return row
        return b"".join(map(ids_of, text.split(separator)))


class _ChunkCache(dict[str, bytes]):
    """The ids of chunks, computed on first use; bounded in number and size."""

    def __init__(self, tokenizer: TextTokenizer, vocabulary: Vocabulary, hashed: bool) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._ids = partial(vocabulary.ids, hashed=hashed)

    def __missing__(self, chunk: str) -> bytes:
        ids = array("i", self._ids(self._tokenizer(chunk))).tobytes()
        if len(chunk) <= MAX_CACHED_LENGTH:
            if len(self) >= MAX_CACHED:
                self.clear()
            self[chunk] = ids
        return ids
