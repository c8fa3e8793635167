"""Sums over the distinct words and bigrams of sentences."""

from __future__ import annotations

import numpy as np

from wordwave.kernels.base import compiled_once


@compiled_once
def sum_ngrams(ids, starts, pairs, words, bigrams, seen, seen_pairs, of_words, of_bigrams):
    """Adds the rows of the distinct words and of the distinct bigrams of each sentence. A row 0
    counts for nothing. Returns −1, or the place of an id that is out of range.

    Shape: ids, pairs (T,), starts (B + 1,), words (V, W), bigrams (N, K), seen (V,), seen_pairs
    (N,), all −1, of_words (B, W), of_bigrams (B, K), zeros
    """
    for t in range(len(ids)):
        if ids[t] < 0 or ids[t] >= len(words) or pairs[t] < 0 or pairs[t] >= len(bigrams):
            return t
    for b in range(len(starts) - 1):
        for t in range(starts[b], starts[b + 1]):
            i, j = ids[t], pairs[t]
            if i > 0 and seen[i] != b:
                seen[i] = b
                for k in range(words.shape[1]):
                    of_words[b, k] += words[i, k]
            if j > 0 and seen_pairs[j] != b:
                seen_pairs[j] = b
                for k in range(bigrams.shape[1]):
                    of_bigrams[b, k] += bigrams[j, k]
    for t in range(len(ids)):
        seen[ids[t]] = seen_pairs[pairs[t]] = np.int32(-1)
    return -1
