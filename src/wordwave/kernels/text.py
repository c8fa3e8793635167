"""Texts of ASCII characters as ids."""

from __future__ import annotations

import numpy as np
from numba import njit

from wordwave.kernels.base import compiled_once


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0xEDB88320 if byte & 1 else 0)
    return byte


# Of each byte: 0 for white space, 1 for a letter, digit or underscore, 2 for another character.
_KINDS = np.array(
    [0 if chr(b).isspace() else 1 if chr(b).isalnum() or b == 95 else 2 for b in range(256)],
    np.uint8,
)
_LOWER = np.array([ord(chr(b).lower()) if b < 128 else b for b in range(256)], np.uint8)
_FNV, _FNV_START = np.uint32(16777619), np.uint32(2166136261)
_CRC = np.array([_crc_of(byte) for byte in range(256)], np.uint32)


@njit(inline="always")
def _hash_of(text, start, end):
    """FNV-1a."""
    h = _FNV_START
    for k in range(start, end):
        h = np.uint32((h ^ np.uint32(text[k])) * _FNV)
    return h


@compiled_once
def index_words(text, starts, numbers, index):
    """A hash table of words by their bytes.

    Shape: text (bytes of all words,), starts (n + 1,), numbers (n,), index (2^k > n,), all −1
    """
    mask = len(index) - 1
    for i in range(len(numbers)):
        place = np.int64(_hash_of(text, starts[i], starts[i + 1])) & mask
        while index[place] >= 0:
            place = (place + 1) & mask
        index[place] = i


@compiled_once
def encode_ascii(
    text,
    sizes,
    max_length,
    words,
    starts,
    numbers,
    index,
    first_rare,
    n_rare,
    unknown,
    ids,
    lengths,
    new_text,
    new_starts,
    new_owners,
):
    """The ids of texts of ASCII characters, as `PlainTokenizer` splits and lower-cases them.

    A word that is not in the index has the id `unknown`, or with n_rare > 0 the id first_rare +
    crc32(word) mod n_rare; unless they are empty, the `new_…` get its bytes, where it begins and
    the number of its text. Texts end after max_length tokens. Returns the number of ids, and of new
    words; the sign of a length is negative where a text was longer.

    Shape: text (bytes of all texts,), sizes (N,), ids (len(text),), lengths (N,), new_text,
    new_owners (len(text),) or (0,), new_starts (len(text) + 1,) or (0,)
    """
    n_new = n_bytes = 0
    mask = len(index) - 1
    word = np.empty(max(len(text), 1), np.uint8)  # the current one in lower case
    n = end = 0
    for b in range(len(sizes)):
        place, end = end, end + sizes[b]
        first = n
        is_longer = False
        while place < end:
            kind = _KINDS[text[place]]
            if kind == 0:
                place += 1
                continue
            size = 0
            while place < end and (size == 0 or (kind == 1 and _KINDS[text[place]] == 1)):
                word[size] = _LOWER[text[place]]
                size += 1
                place += 1
            if n - first == max_length:
                is_longer = True
                break
            found = np.int64(-1)
            slot = np.int64(_hash_of(word, 0, size)) & mask
            while index[slot] >= 0 and found < 0:
                i = index[slot]
                if starts[i + 1] - starts[i] == size:
                    k = 0
                    while k < size and words[starts[i] + k] == word[k]:
                        k += 1
                    if k == size:
                        found = numbers[i]
                slot = (slot + 1) & mask
            if found < 0:
                found = unknown
                if n_rare > 0:
                    crc = np.uint32(0xFFFFFFFF)
                    for k in range(size):
                        crc = _CRC[(crc ^ word[k]) & np.uint32(255)] ^ (crc >> np.uint32(8))
                    found = first_rare + np.int64(crc ^ np.uint32(0xFFFFFFFF)) % n_rare
                if len(new_starts):
                    new_starts[n_new], new_owners[n_new] = n_bytes, b
                    for k in range(size):
                        new_text[n_bytes + k] = word[k]
                    n_new, n_bytes = n_new + 1, n_bytes + size
            ids[n] = found
            n += 1
        lengths[b] = first - n if is_longer else n - first
    if len(new_starts):
        new_starts[n_new] = n_bytes
    return n, n_new


_FNV64, _FNV64_START = np.uint64(1099511628211), np.uint64(14695981039346656037)
_BEGIN, _END = np.uint8(ord("<")), np.uint8(ord(">"))


@compiled_once
def hash_ngrams(text, starts, shortest, longest, hashes, ends):
    """FNV-1a, without its last bit, of the n-grams of each word between < and >, in characters of
    UTF-8. Returns their number; those of word i are hashes[ends[i] : ends[i + 1]].

    Shape: text (bytes of all words,), starts, ends (n + 1,), hashes (m,)
    """
    n = 0
    ends[0] = 0
    for i in range(len(starts) - 1):
        size = starts[i + 1] - starts[i] + 2
        for first in range(size):
            if 0 < first < size - 1 and text[starts[i] + first - 1] & 0xC0 == 0x80:
                continue  # inside a character
            h, n_characters = _FNV64_START, 0
            for k in range(first, size):
                byte = _BEGIN if k == 0 else _END if k == size - 1 else text[starts[i] + k - 1]
                is_inside = 0 < k < size - 1 and byte & 0xC0 == 0x80
                if not is_inside:
                    if n_characters >= shortest:
                        hashes[n] = np.int64(h >> np.uint64(1))
                        n += 1
                    n_characters += 1
                    if n_characters > longest:
                        break
                h = np.uint64((h ^ np.uint64(byte)) * _FNV64)
            if shortest <= n_characters <= longest:
                hashes[n] = np.int64(h >> np.uint64(1))
                n += 1
        ends[i + 1] = n
    return n
