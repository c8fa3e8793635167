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
):
    """The ids of texts of ASCII characters, as `PlainTokenizer` splits and lower-cases them.

    A word that is not in the index has the id `unknown`, or with n_rare > 0 the id first_rare +
    crc32(word) mod n_rare. Texts end after max_length tokens. Returns the number of ids; the sign
    of a length is negative where a text was longer.

    Shape: text (bytes of all texts,), sizes (N,), ids (len(text),), lengths (N,)
    """
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
            ids[n] = found
            n += 1
        lengths[b] = first - n if is_longer else n - first
    return n
