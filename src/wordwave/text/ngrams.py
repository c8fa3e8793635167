"""The character n-grams of words, as hashes, and the bigrams of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wordwave.compiled import compiled

if TYPE_CHECKING:
    from wordwave.text.batching import Sentences

SHORTEST, LONGEST = 3, 5
"""Characters of an n-gram. A word begins with < and ends with >, as in fastText."""
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
