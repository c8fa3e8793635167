"""Fast encoding of texts as ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import partial
from itertools import islice
from sys import byteorder
from typing import Any, NamedTuple

import numpy as np
import torch

from wordwave.compiled import compiled
from wordwave.errors import WordwaveError
from wordwave.text.batching import Sentences
from wordwave.text.ngrams import Words
from wordwave.text.tokenizers import PlainTokenizer, TextTokenizer
from wordwave.text.vocabulary import UNKNOWN_ID, Vocabulary

ID = np.dtype(np.intc)  # the C int of array("i")
AT_ONCE = 4096
"""Texts joined at once."""
MAX_CACHED = 100_000
MAX_CACHED_LENGTH = 64
CHARACTERS_PER_WORD = 16


class Encoded(NamedTuple):
    """Texts as ids, and the number of texts that were truncated."""

    sentences: Sentences
    n_truncated: int


class TextEncoder:
    """A tokenizer and a vocabulary: encodes texts as ids.

    ASCII texts and the tokenizer `plain` are encoded by a compiled kernel. Any other text is split
    at white space and the ids of each chunk are cached, since most chunks of a text have been seen
    before. They are stored as bytes, which Python joins faster than lists.

    Args:
        max_length: longer texts are truncated to as many tokens.
        hashed: unknown words have the ids of rare words, by their hash, instead of one of their
            own.
        keep_unknown: whether encoded sentences have their unknown words.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        vocabulary: Vocabulary,
        *,
        max_length: int,
        hashed: bool = False,
        keep_unknown: bool = False,
    ) -> None:
        if max_length < 1:
            raise WordwaveError(f"max_length must be at least 1, got {max_length}")
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.max_length = max_length
        self.hashed = hashed
        self.keep_unknown = keep_unknown and not hashed  # whose unknown words have ids
        self._chunks = _ChunkCache(tokenizer, vocabulary, hashed)
        self._index: tuple[Any, ...] | None = None

    def encode(self, texts: Iterable[str], spelled: Any = None) -> Encoded:
        """The ids of texts, truncated to `max_length` tokens.

        Args:
            spelled: which texts' unknown words are kept, by default all. Shape: (N,), true or false
        """
        if isinstance(texts, str):
            raise WordwaveError(f"texts must be a list of texts, got the text {texts[:60]!r}")
        # Arrays that grow: parts to be joined would take twice the memory.
        all_ids, all_sizes = array("i"), array("q")
        unknown = list[tuple[Words, int]]()
        rest = iter(texts)
        while some := list(islice(rest, AT_ONCE)):
            try:
                ids, sizes, words = self._encoded(some)
            except (AttributeError, TypeError):
                for i, text in enumerate(some, start=len(all_sizes)):
                    if not isinstance(text, str):
                        raise WordwaveError(f"texts must be strings, got {text!r} at {i}") from None
                raise
            if self.keep_unknown:
                first = len(all_sizes)
                if spelled is not None:
                    words = words.take(np.flatnonzero(spelled[first:][words.owners]))
                unknown.append((words, first))
            all_ids.frombytes(ids.tobytes())
            all_sizes.frombytes(sizes.tobytes())
        sizes = np.array(all_sizes, np.int64)
        new = Words.joined(unknown) if self.keep_unknown else None
        lengths = torch.from_numpy(abs(sizes))
        sentences = Sentences(_tensor(all_ids, ID), lengths, unknown=new)
        return Encoded(sentences, int((sizes < 0).sum()))

    def clear_cache(self) -> None:
        self._chunks.clear()

    def _encoded(self, texts: list[str]) -> tuple[Any, Any, Words]:
        """All ids, how many each text has, negative where a text was truncated, and unknown
        words."""
        joined = "".join(texts)
        is_plain = type(self.tokenizer) is PlainTokenizer and compiled() is not None
        if is_plain and joined.isascii():
            return self._encoded_by_kernel(joined, texts)
        if not is_plain or len(texts) == 1:
            return self._encoded_by_chunks(texts)
        ascii_only = np.fromiter(map(str.isascii, texts), bool, len(texts))
        ours = [text for text, plain in zip(texts, ascii_only, strict=True) if plain]
        others = [text for text, plain in zip(texts, ascii_only, strict=True) if not plain]
        parts: list[tuple[Any, Any, Words]] = [
            self._encoded_by_kernel("".join(ours), ours),
            self._encoded_by_chunks(others),
        ]
        sizes = np.empty(len(texts), np.int64)
        sizes[ascii_only], sizes[~ascii_only] = parts[0][1], parts[1][1]
        by_kernel = np.repeat(ascii_only, abs(sizes))
        ids = np.empty(len(by_kernel), ID)
        ids[by_kernel], ids[~by_kernel] = parts[0][0], parts[1][0]
        places = np.flatnonzero(ascii_only), np.flatnonzero(~ascii_only)
        new = [
            (words._replace(owners=at[words.owners]), 0)
            for (_, _, words), at in zip(parts, places, strict=True)
        ]
        return ids, sizes, Words.joined(new)

    def _encoded_by_kernel(self, joined: str, texts: list[str]) -> tuple[Any, Any, Words]:
        kernels = compiled()
        assert kernels is not None
        if self._index is None:
            self._index = _index(self.vocabulary)
        text = np.frombuffer(joined.encode(), np.uint8)
        ids, sizes = np.empty(len(text), ID), np.empty(len(texts), np.int64)
        first_rare = self.vocabulary.first_rare
        n_rare = len(self.vocabulary) - first_rare if self.hashed else 0
        given = (text, np.fromiter(map(len, texts), np.int64, len(texts)), self.max_length)
        unknown = (first_rare, n_rare, UNKNOWN_ID)
        most = len(text) if self.keep_unknown else 0
        new: list[Any] = [
            np.empty(most, np.uint8),
            *(np.empty(most and most + 1, np.int64) for _ in range(2)),
        ]
        n, n_new = kernels.encode_ascii(*given, *self._index, *unknown, ids, sizes, *new)
        starts = new[1][: n_new + 1] if most else _NO_STARTS
        words = Words(new[0][: starts[-1]].copy(), starts.copy(), new[2][:n_new].copy())
        return ids[:n], sizes, words

    def _encoded_by_chunks(self, texts: list[str]) -> tuple[Any, Any, Words]:
        rows = [self._row(text) for text in texts]
        limit = self.max_length * ID.itemsize
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        for i in np.flatnonzero(sizes > limit).tolist():
            rows[i] = rows[i][:limit]
            sizes[i] = -limit
        unknown, owners = list[str](), list[int]()
        for i, row in enumerate(rows if self.keep_unknown else ()):
            if _UNKNOWN in row and UNKNOWN_ID in (ids := np.frombuffer(row, ID)):
                new = _tokens(self.tokenizer, texts[i], len(ids))
                unknown += [new[k] for k in np.flatnonzero(ids == UNKNOWN_ID)]
                owners += [i] * (len(unknown) - len(owners))
        return np.frombuffer(b"".join(rows), ID), sizes // ID.itemsize, Words.of(unknown, owners)

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


_UNKNOWN = UNKNOWN_ID.to_bytes(ID.itemsize, byteorder)
_NO_STARTS = np.zeros(1, np.int64)


def _tokens(tokenizer: TextTokenizer, text: str, n: int) -> list[str]:
    """The first n tokens of a text, or some more."""
    found: list[str] = []
    for chunk in text.split(tokenizer.separator):
        found += tokenizer(chunk)
        if len(found) >= n:
            break
    return found


def _tensor(numbers: array[int], dtype: Any) -> torch.Tensor:
    """The numbers, not copied."""
    return torch.from_numpy(np.frombuffer(numbers, dtype) if numbers else np.empty(0, dtype))


def _index(vocabulary: Vocabulary) -> tuple[Any, ...]:
    """The words that ASCII texts can have, for `kernels.encode_ascii`: their bytes, where each
    begins, their ids, and a hash table."""
    kernels = compiled()
    assert kernels is not None
    known = [(w, i) for i, w in enumerate(vocabulary.words) if w.isascii() and w in vocabulary]
    text = np.frombuffer("".join(word for word, _ in known).encode(), np.uint8)
    starts = np.zeros(len(known) + 1, np.int64)
    np.cumsum([len(word) for word, _ in known], out=starts[1:])
    numbers = np.array([i for _, i in known], np.int64)
    index = np.full(1 << (2 * len(known) + 1).bit_length(), -1, np.int64)
    kernels.index_words(text, starts, numbers, index)
    return text, starts, numbers, index


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
