"""Convolution followed by ReLU and max pooling over a sentence.

Only the highest window of each filter has a gradient, a few percent of all.

Shape: products (B, L, parts, K, O) of every word with every tap; P = parts·O filters
"""

from __future__ import annotations

import numpy as np

from wordwave.kernels.base import compiled_once


@compiled_once
def pool_windows(products, bias, n_windows, out, at):
    """The highest of each filter over the first windows of a sentence, at least 0, and where it
    is; −1 where it is 0.

    Shape: bias (P,), n_windows (B,), out (B, P), at (B, P)
    """
    n_parts, n_taps, n_out = products.shape[2:]
    sums = np.empty(n_out, np.float32)
    for b in range(products.shape[0]):
        out[b] = 0
        at[b] = -1
        for first in range(n_windows[b]):
            for part in range(n_parts):
                start = part * n_out
                best, place = out[b, start : start + n_out], at[b, start : start + n_out]
                shift = bias[start : start + n_out]
                sums[:] = shift
                for k in range(n_taps):
                    product = products[b, first + k, part, k]
                    for o in range(n_out):
                        sums[o] += product[o]
                for o in range(n_out):
                    # A sum that is not a number stays, as in torch: a loss must not hide it.
                    if best[o] == best[o] and not sums[o] <= best[o]:
                        best[o] = sums[o]
                        place[o] = first


@compiled_once
def pool_windows_backward(x, weight, at, grad, of_x, of_weight, of_bias):
    """Adds the gradients of inputs, weights and bias to zeros.

    Shape: x (B, L, W), weight (P, K, W), at (B, P), grad (B, P)
    """
    width = x.shape[2]
    for p in range(weight.shape[0]):
        for b in range(x.shape[0]):
            if at[b, p] >= 0:
                of_bias[p] += grad[b, p]
        for k in range(weight.shape[1]):
            row, of_row = weight[p, k], of_weight[p, k]
            for b in range(x.shape[0]):
                g, first = grad[b, p], at[b, p]
                if first >= 0 and g != 0:
                    word, of_word = x[b, first + k], of_x[b, first + k]
                    for d in range(width):
                        of_row[d] += g * word[d]
                        of_word[d] += g * row[d]
