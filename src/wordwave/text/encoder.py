"""From texts to the ids of their words, fast."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from wordwave.errors import WordwaveError
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import TextTokenizer
from wordwave.text.vocabulary import Vocabulary

ID = np.dtype(np.intc)  # the C int of array("i")
MOST_CHUNKS = 100_000
LONGEST_CHUNK = 64
CHARACTERS_PER_WORD = 16


class Encoded(NamedTuple):
    """Texts as ids, and how many of them were cut to the greatest length."""

    sentences: Sentences
    n_cut: int


class TextEncoder:
    """TextTokenizer and vocabulary together: texts in, ids out.

    A text is split at its white space, and what the tokenizer and the vocabulary make of a chunk is
    remembered: most chunks of a text have been seen before. The ids of a chunk are kept as bytes,
    which Python joins faster than lists.
    """

    def __init__(
        self, tokenizer: TextTokenizer, vocabulary: Vocabulary, *, max_length: int
    ) -> None:
        if max_length < 1:
            raise WordwaveError(f"max_length must be at least 1, got {max_length}")
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.max_length = max_length
        self._chunks = _Chunks(tokenizer, vocabulary)

    def encode(self, texts: Iterable[str]) -> Encoded:
        """The ids of texts; those with more than `max_length` words are cut, and counted."""
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
        most = self.max_length * ID.itemsize
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        cut = np.flatnonzero(sizes > most).tolist()
        for i in cut:
            rows[i] = rows[i][:most]
        ids = np.frombuffer(bytearray().join(rows), ID)
        lengths = sizes.clip(max=most) // ID.itemsize
        return Encoded(Sentences(torch.from_numpy(ids), torch.from_numpy(lengths)), len(cut))

    def forget(self) -> None:
        """Drop the chunks that are remembered."""
        self._chunks.clear()

    def _row(self, text: str) -> bytes:
        """The ids of a text as bytes; at least max_length + 1 of them where the text has more."""
        ids_of, separator = self._chunks.__getitem__, self.tokenizer.separator
        enough = self.max_length * CHARACTERS_PER_WORD
        if len(text) > enough:
            # The head of a long text will do if it has words enough; its last chunk may be broken.
            row = b"".join(map(ids_of, text[:enough].split(separator)[:-1]))
            if len(row) > self.max_length * ID.itemsize:
                return row
        return b"".join(map(ids_of, text.split(separator)))


class _Chunks(dict[str, bytes]):
    """The ids of chunks, worked out when first asked for; bounded in number and size."""

    def __init__(self, tokenizer: TextTokenizer, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary

    def __missing__(self, chunk: str) -> bytes:
        ids = array("i", self._vocabulary.ids(self._tokenizer(chunk))).tobytes()
        if len(chunk) <= LONGEST_CHUNK:
            if len(self) >= MOST_CHUNKS:
                self.clear()
            self[chunk] = ids
        return ids
