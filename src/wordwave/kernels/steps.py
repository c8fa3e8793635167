"""Adam, batches, and what else a training step needs."""

from __future__ import annotations

import numpy as np

from wordwave.kernels.base import AHEAD, compiled_once, kept_numbers, prefetch_row

_ONE = np.float32(1.0)


@compiled_once
def keep(weight, drop, seed, kept):
    """`weight` where a hash of the place and the seed is at least `drop`, else 0. Shape: (n,)"""
    kept_numbers(weight, 0, drop, seed, kept)


@compiled_once
def is_ascending(rows):
    """Whether rows are distinct and sorted."""
    return len(rows) < 2 or (rows[1:] > rows[:-1]).all()


@compiled_once
def take_tokens(rows, all_starts, lengths, all_ids, all_positions, all_weights,
                ids, starts, positions, weights):  # fmt: skip
    """Copies the tokens of some sentences, one after the other; without positions, they are
    1, 2, …, and without weights 1.

    Shape: rows (B,), starts (B + 1,), ids, positions, weights (T,)
    """
    n = 0
    for b in range(len(rows)):
        starts[b] = n
        first = all_starts[rows[b]]
        for k in range(lengths[rows[b]]):
            ids[n] = all_ids[first + k]
            positions[n] = all_positions[first + k] if len(all_positions) else k + 1
            weights[n] = all_weights[first + k] if len(all_weights) else _ONE
            n += 1
    starts[len(rows)] = n


@compiled_once
def adam_rows(rows, grad, factor, table, mean, square, beta1, beta2, eps, step_size, root, keep):
    """One step of AdamW on some rows of a table, whose moments decay only here, with the gradient
    factor·grad.

    Shape: rows (n,), grad (n, W), table, mean, square (V, W); `root` corrects the bias of √square,
    `step_size` that of the mean; `keep` is 1 − lr·weight_decay
    """
    less1, less2 = _ONE - beta1, _ONE - beta2
    for k in range(len(rows)):
        if k + AHEAD < len(rows):
            prefetch_row(table, rows[k + AHEAD])
            prefetch_row(mean, rows[k + AHEAD])
            prefetch_row(square, rows[k + AHEAD])
        i = rows[k]
        g, w, m, v = grad[k], table[i], mean[i], square[i]
        for d in range(g.shape[0]):
            x = factor * g[d]
            a = m[d] + less1 * (x - m[d])
            b = beta2 * v[d] + less2 * x * x
            m[d] = a
            v[d] = b
            w[d] = w[d] * keep - step_size * a / (np.sqrt(b) * root + eps)
