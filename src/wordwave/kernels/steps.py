"""The head of a bag, Adam, and batches."""

from __future__ import annotations

import numpy as np
from numba import njit

from wordwave.kernels.base import AHEAD, FASTMATH, compiled_once, kept_numbers, prefetch_row

_ONE = np.float32(1.0)


@compiled_once
def keep(weight, drop, seed, kept):
    """`weight` where a hash of the place and the seed is at least `drop`, else 0. Shape: (n,)"""
    kept_numbers(weight, 0, drop, seed, kept)


@compiled_once
def square_sum(x):
    """Σ x², in float64, eight sums at a time. Shape: (n, W)"""
    sums = np.zeros(8)
    for i in range(x.shape[0]):
        row, whole = x[i], x.shape[1] // 8 * 8
        for start in range(0, whole, 8):
            for k in range(8):
                value = np.float64(row[start + k])
                sums[k] += value * value
        for d in range(whole, x.shape[1]):
            sums[0] += np.float64(row[d]) * np.float64(row[d])
    return sums.sum()


@njit(fastmath=FASTMATH | {"reassoc"})
def _dot(x, y):
    """Σ x·y; vector units add in an order of their own, the same at every run."""
    total = np.float32(0.0)
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled_once
def head_step(
    x, w1, b1, w2, b2, targets, labels, weights, scale, drop, seed1, seed2, dx, dw1, db1, dw2, db2
):  # fmt: skip
    """The weighted sum of the cross-entropies of a head with one hidden layer, or none if w1 has no
    rows, and the gradients of its weights and inputs. Units that are dropped or below 0 are left
    out of all products. Without targets, the cross-entropies are those of each class by itself.

    Shape: x (B, W), w1 (H, W), w2 (C, H or W), targets (B,), or (0,) with labels (B, C), weights
    (B, 1), (B, C), or (0, 1) for 1; dx like x, the others zeros
    """
    n_inputs, n_hidden, n_classes = x.shape[1], w1.shape[0], w2.shape[0]
    kept, z = np.empty(n_inputs, np.float32), np.empty(n_inputs, np.float32)
    kept_units, units = np.empty(n_hidden, np.float32), np.empty(n_hidden, np.float32)
    p = np.empty(n_classes)
    loss = 0.0
    for b in range(x.shape[0]):
        kept_numbers(scale, b, drop, seed1, kept)
        for k in range(n_inputs):
            z[k] = x[b, k] * kept[k]
        if n_hidden:
            kept_numbers(scale, b, drop, seed2, kept_units)
            for j in range(n_hidden):
                units[j] = np.float32(0.0)
                if kept_units[j] > 0:
                    units[j] = max(_dot(z, w1[j]) + b1[j], np.float32(0.0)) * kept_units[j]
        top = units if n_hidden else z
        for c in range(n_classes):
            p[c] = np.float64(_dot(top, w2[c]) + b2[c])
        total, weight = 0.0, 1.0
        if len(targets):
            highest = p.max()
            of_target = p[targets[b]] - highest
            for c in range(n_classes):
                p[c] = np.exp(p[c] - highest)
                total += p[c]
            if len(weights):
                weight = np.float64(weights[b, 0])
            loss += weight * (np.log(total) - of_target)
        back = dx[b]
        back[:] = 0
        for c in range(n_classes):
            if len(targets):
                g = np.float32(weight * (p[c] / total - (1.0 if c == targets[b] else 0.0)))
            else:
                if len(weights):
                    weight = np.float64(weights[b, c if weights.shape[1] > 1 else 0])
                is_true, shrunk = 1.0 if labels[b, c] else 0.0, np.exp(-abs(p[c]))
                loss += weight * (max(p[c], 0.0) - is_true * p[c] + np.log1p(shrunk))
                probability = (1.0 if p[c] > 0 else shrunk) / (1.0 + shrunk)
                g = np.float32(weight * (probability - is_true))
            db2[c] += g
            of_row, row = dw2[c], w2[c]
            for k in range(len(top)):
                of_row[k] += g * top[k]
            if n_hidden:
                for k in range(n_hidden):  # where a unit is 0, it is not used
                    kept_units[k] = g * row[k] + (kept_units[k] if c else np.float32(0.0))
            else:
                for k in range(n_inputs):
                    back[k] += g * row[k]
        for j in range(n_hidden):
            if units[j] > 0:
                g = kept_units[j] * scale
                db1[j] += g
                of_row, row = dw1[j], w1[j]
                for k in range(n_inputs):
                    of_row[k] += g * z[k]
                    back[k] += g * row[k]
        for k in range(n_inputs):
            back[k] *= kept[k]
    return loss


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
