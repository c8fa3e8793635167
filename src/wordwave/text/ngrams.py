"""The character n-grams of words, as hashes, and the bigrams of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wordwave.compiled import compiled

if TYPE_CHECKING:
    from wordwave.text.batching import Sentences

SHORTEST, LONGEST = 3, 5
"""Characters of an n-gram. A word begins with < and ends with >, as in fastText."""
BLOCK = 1 << 16
"""Bytes of words whose n-grams are hashed at once by `ngram_blocks`."""
LONG = 64
"""Words of more bytes on average are copied one by one, others byte by byte with an index each."""
MOST_TOKENS = 10_000_000
"""Words of texts whose bigrams are counted."""
_FNV, _FNV_START, _MASK = 1099511628211, 14695981039346656037, (1 << 64) - 1


class Words(NamedTuple):
    """Words as UTF-8, one after the other.

    Shape: text (bytes,), starts (n + 1,), owners (n,)
    """

    text: Any
    starts: Any
    """Where each word begins; the last element is the number of bytes."""
    owners: Any
    """The number of the sentence that each word is of."""

    @classmethod
    def of(cls, words: Sequence[str], owners: Sequence[int] | None = None) -> Words:
        """Words from strings; without `owners`, each is of a sentence of its own."""
        encoded = [word.encode("utf-8", "replace") for word in words]
        starts = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(word) for word in encoded], out=starts[1:])
        numbers = np.arange(len(encoded)) if owners is None else np.asarray(owners, np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts, numbers)

    @classmethod
    def joined(cls, parts: Sequence[tuple[Words, int]]) -> Words:
        """Words of several lists of sentences, each with the number of its first sentence."""
        texts, starts, n = [np.empty(0, np.uint8)], [np.zeros(1, np.int64)], 0
        owners: list[Any] = [np.empty(0, np.int64)]
        for words, first in parts:
            texts.append(words.text)
            starts.append(words.starts[1:] + n)
            owners.append(words.owners + first)
            n += len(words.text)
        return cls(np.concatenate(texts), np.concatenate(starts), np.concatenate(owners))

    def take(self, numbers: Any) -> Words:
        """Some of the words. Shape: (n,)"""
        begins = self.starts[numbers]
        sizes = self.starts[numbers + 1] - begins
        starts = np.concatenate([np.zeros(1, np.int64), sizes.cumsum()])
        if starts[-1] > LONG * len(sizes):
            ends = (begins + sizes).tolist()
            parts = [self.text[a:b] for a, b in zip(begins.tolist(), ends, strict=True)]
            return Words(np.concatenate(parts), starts, self.owners[numbers])
        return Words(self.text[ranges(begins, sizes)], starts, self.owners[numbers])


def ranges(begins: Any, sizes: Any) -> Any:
    """begins[0], begins[0] + 1, … (sizes[0] numbers), begins[1], …. Shape: (n,), (n,) -> (m,)"""
    moved = begins - (sizes.cumsum() - sizes)
    return np.repeat(moved, sizes) + np.arange(len(begins) and int(sizes.sum()))


def ngram_hashes(words: Words) -> tuple[Any, Any]:
    """The hash of each n-gram of each word, at least 0, and where those of a word begin.

    Shape: hashes (m,), starts (n + 1,)
    """
    # A word of k bytes has at most k + 2 n-grams of each length.
    most = (len(words.text) + 2 * len(words.owners)) * (LONGEST - SHORTEST + 1)
    hashes, starts = np.empty(most, np.int64), np.zeros(len(words.starts), np.int64)
    if (kernels := compiled()) is not None:
        n = kernels.hash_ngrams(words.text, words.starts, SHORTEST, LONGEST, hashes, starts)
        return hashes[:n], starts
    found: list[int] = []
    for i in range(len(words.owners)):
        found += _hashes_of(bytes(words.text[words.starts[i] : words.starts[i + 1]]))
        starts[i + 1] = len(found)
    return np.array(found, np.int64), starts


def ngram_blocks(words: Words) -> Iterator[tuple[Any, Any]]:
    """The hashes of `ngram_hashes` in their order, block by block, and the owner of each.

    Memory does not depend on the length of a word, which may be a file in base64.

    Shape: hashes (m,), owners (m,)
    """
    text, starts, first, n = words.text, words.starts, 0, len(words.owners)
    while first < n:
        last = int(np.searchsorted(starts, starts[first] + BLOCK, "right")) - 1
        last = min(max(last, first + 1), first + BLOCK, n)
        begin, end = int(starts[first]), int(starts[last])
        owners = words.owners[first:last]
        if end - begin <= BLOCK:
            hashes, ends = ngram_hashes(
                Words(text[begin:end], starts[first : last + 1] - begin, owners)
            )
            yield hashes, np.repeat(owners, np.diff(ends))
        else:
            for hashes in _part_hashes(text[begin:end]):
                yield hashes, np.repeat(owners, len(hashes))
        first = last


def _part_hashes(word: Any) -> Iterator[Any]:
    """The hashes of the n-grams of a word that is longer than a block.

    Parts are hashed as words, without the n-grams that have the < or > of a part within the word.
    Shape: bytes (k,) -> (m,)
    """
    n_lengths, begin, at = LONGEST - SHORTEST + 1, 0, np.empty(0, np.int64)
    while begin >= 0:
        part = word[begin : begin + BLOCK]
        at = np.flatnonzero(part & 0xC0 != 0x80)  # where characters begin
        is_last = begin + len(part) == len(word)
        if not is_last:  # the last character may be incomplete
            part, at = part[: at[-1]], at[:-1]
        hashes, _ = ngram_hashes(Words(part, np.array([0, len(part)]), np.zeros(1, np.int64)))
        # Places of the part, with its < as the first, whose n-grams of all lengths are within it.
        n_whole = len(at) + 2 - LONGEST
        yield hashes[n_lengths * (begin > 0) : None if is_last else n_lengths * n_whole]
        begin = -1 if is_last else begin + int(at[n_whole - 1])


def _hashes_of(word: bytes) -> list[int]:
    """FNV-1a of the bytes of each n-gram, without its last bit: what `ngram_hashes` is tested
    against, and computes without the kernels."""
    marked = f"<{word.decode('utf-8', 'replace')}>"
    found = []
    for i in range(len(marked)):
        h = _FNV_START
        for n, character in enumerate(marked[i : i + LONGEST], 1):
            for byte in character.encode():
                h = (h ^ byte) * _FNV & _MASK
            if n >= SHORTEST:
                found.append(h >> 1)
    return found


def repeated_bigrams(sentences: Sentences, n_words: int) -> Tensor:
    """The pairs of neighbours that occur twice or more, the most frequent first.

    Shape: (N,), first·n_words + second
    """
    ids = sentences.ids[:MOST_TOKENS].long()
    pairs = ids[:-1] * n_words + ids[1:]
    inside = torch.ones(len(pairs), dtype=torch.bool)
    ends = sentences.starts[1:] - 1
    inside[ends[ends < len(pairs)]] = False
    found, counts = pairs[inside].unique(return_counts=True)
    found, counts = found[counts > 1], counts[counts > 1]
    return found[counts.argsort(descending=True, stable=True)]
