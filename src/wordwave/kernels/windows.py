"""Convolution followed by ReLU and max pooling over a sentence.

Only the highest window of each filter has a gradient, a few percent of all.

Shape: products (B, L, parts, K, O) of every word with every tap; P = parts·O filters
"""

from __future__ import annotations

import numpy as np
from numba import njit

from wordwave.kernels.base import compiled_once


@njit(inline="always")
def _words_of(n_windows, n_taps, padding, longest):
    """The words that windows have values of: with padding those of the sentence, else all."""
    return min(n_windows + n_taps - 1 - 2 * padding, longest) if padding else longest


@compiled_once
def pool_windows(products, bias, n_windows, padding, out, at):
    """The highest of each filter over the first windows of a sentence, at least 0, and where it
    is; −1 where it is 0.

    The first window begins `padding` words before the sentence, and then the last one ends so many
    after it; there words are 0.

    Shape: bias (P,), n_windows (B,), out (B, P), at (B, P)
    """
    n_parts, n_taps, n_out = products.shape[2:]
    sums = np.empty(n_out, np.float32)
    for b in range(products.shape[0]):
        out[b] = 0
        at[b] = -1
        n_words = _words_of(n_windows[b], n_taps, padding, products.shape[1])
        for first in range(n_windows[b]):
            start_word = first - padding
            for part in range(n_parts):
                start = part * n_out
                best, place = out[b, start : start + n_out], at[b, start : start + n_out]
                shift = bias[start : start + n_out]
                sums[:] = shift
                for k in range(max(-start_word, 0), min(n_words - start_word, n_taps)):
                    product = products[b, start_word + k, part, k]
                    for o in range(n_out):
                        sums[o] += product[o]
                for o in range(n_out):
                    # A sum that is not a number stays, as in torch: a loss must not hide it.
                    if best[o] == best[o] and not sums[o] <= best[o]:
                        best[o] = sums[o]
                        place[o] = first


@compiled_once
def pool_windows_backward(x, weight, at, n_windows, grad, padding, of_x, of_weight, of_bias):
    """Adds the gradients of inputs, weights and bias to zeros. What follows a sentence in x has
    none, as `pool_windows` takes it for 0.

    Shape: x (B, L, W), weight (P, K, W), at (B, P), n_windows (B,), grad (B, P)
    """
    n_taps, width = weight.shape[1:]
    lengths = np.empty(x.shape[0], np.int64)
    for b in range(x.shape[0]):
        lengths[b] = _words_of(n_windows[b], n_taps, padding, x.shape[1])
    for p in range(weight.shape[0]):
        for b in range(x.shape[0]):
            if at[b, p] >= 0:
                of_bias[p] += grad[b, p]
        for k in range(n_taps):
            row, of_row = weight[p, k], of_weight[p, k]
            for b in range(x.shape[0]):
                g, word_at = grad[b, p], at[b, p] - padding + k
                if at[b, p] >= 0 and g != 0 and 0 <= word_at < lengths[b]:
                    word, of_word = x[b, word_at], of_x[b, word_at]
                    for d in range(width):
                        of_row[d] += g * word[d]
                        of_word[d] += g * row[d]
