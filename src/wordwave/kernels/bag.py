"""Training steps of a bag of words: the loss, its gradients, and the update of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from wordwave.kernels.base import FASTMATH, OPTIONS, compiled_once, kept_numbers
from wordwave.kernels.steps import adam_rows
from wordwave.kernels.waves import (
    first_outside,
    pair_rows,
    rows_in_use,
    sentence_gradients,
    sum_sentence,
)

_ZERO = np.float32(0.0)
UNORDERED: dict[str, Any] = OPTIONS | {"fastmath": FASTMATH | {"reassoc"}}
"""For sums that vector units add in an order of their own, the same at every run."""
AT_ONCE, MOST_KEPT = 256, 4096
"""Tokens whose vectors are kept between the sums and their gradients: of several sentences, and of
one; those of a longer sentence are computed twice."""


@njit(**UNORDERED)
def _dot(x, i, y, j):
    """Σ x[i]·y[j]"""
    total = _ZERO
    for k in range(x.shape[1]):
        total += x[i, k] * y[j, k]
    return total


@njit(**OPTIONS)
def _cross_entropy(p, target, weight):
    """The weighted cross-entropy of logits p, which become its gradient. Shape: p (C,)"""
    highest, total = p[0], 0.0
    for c in range(len(p)):
        highest = max(highest, p[c])
    of_target = p[target] - highest
    for c in range(len(p)):
        p[c] = np.exp(p[c] - highest)
        total += p[c]
    for c in range(len(p)):
        p[c] = weight * (p[c] / total - (1.0 if c == target else 0.0))
    return weight * (np.log(total) - of_target)


@njit(**OPTIONS)
def _cross_entropies(p, b, labels, weights):
    """As `_cross_entropy` of sentence b, the sum of those of each class by itself. Shape: p (C,)"""
    loss = 0.0
    for c in range(len(p)):
        weight = np.float64(weights[b, c if weights.shape[1] > 1 else 0]) if len(weights) else 1.0
        is_true, shrunk = 1.0 if labels[b, c] else 0.0, np.exp(-abs(p[c]))
        loss += weight * (max(p[c], 0.0) - is_true * p[c] + np.log1p(shrunk))
        p[c] = weight * ((1.0 if p[c] > 0 else shrunk) / (1.0 + shrunk) - is_true)
    return loss


@njit(**OPTIONS)
def _positive(values, n, j, places):
    """In which of n rows column j is above 0, first in `places`; returns their number."""
    found = 0
    for i in range(n):
        places[found] = i  # without a branch, which would be guessed wrongly half of the time
        found += values[i, j] > 0
    return found


@njit(**OPTIONS)
def _head_step(first, n, x, head, given, drops, of_head, z, kept, units, kept_units, places, p):
    """The loss of n sentences from `first` on by the head of `bag_steps`. Adds to the gradients
    of its weights, and writes those of x to x. Units that are dropped or below 0 are left out of
    all products. The weights of a unit are read once for all sentences.

    Shape: x, z, kept (n or more, W), units, kept_units (n or more, H), places (n + 1,), p (C,)
    """
    w1, b1, w2, b2 = head
    dw1, db1, dw2, db2 = of_head
    targets, labels, weights = given
    scale, drop, seed1, seed2 = drops
    width, n_hidden = x.shape[1], len(w1)
    for i in range(n):
        kept_numbers(scale, first + i, drop, seed1, kept[i])
        for k in range(width):
            z[i, k] = x[i, k] * kept[i, k]
        if n_hidden:
            kept_numbers(scale, first + i, drop, seed2, kept_units[i])
    units[:] = 0
    for j in range(n_hidden):
        for m in range(_positive(kept_units, n, j, places)):
            i = places[m]
            units[i, j] = max(_dot(z, i, w1, j) + b1[j], _ZERO) * kept_units[i, j]
    x[:] = 0
    top, back = (units, kept_units) if n_hidden else (z, x)
    back[:] = 0
    loss = 0.0
    for i in range(n):
        b = first + i
        for c in range(len(p)):
            p[c] = np.float64(_dot(top, i, w2, c) + b2[c])
        if len(targets):
            loss += _cross_entropy(
                p, targets[b], np.float64(weights[b, 0]) if len(weights) else 1.0
            )
        else:
            loss += _cross_entropies(p, b, labels, weights)
        for c in range(len(p)):
            g = np.float32(p[c])
            db2[c] += g
            for k in range(top.shape[1]):
                dw2[c, k] += g * top[i, k]
                back[i, k] += g * w2[c, k]
    for j in range(n_hidden):
        for m in range(_positive(units, n, j, places)):
            i = places[m]
            g = back[i, j] * scale
            db1[j] += g
            for k in range(width):
                dw1[j, k] += g * z[i, k]
                x[i, k] += g * w1[j, k]
    for i in range(n):
        for k in range(width):
            x[i, k] *= kept[i, k]
    return loss


@njit(**OPTIONS)
def _fits(tokens, tables, keeps, keys, given, n_classes, ends):
    """Whether all that is looked up is there."""
    ids, starts, positions, weights = tokens
    targets, labels, by_text = given
    n_texts = max(len(targets), len(labels))
    if len(by_text) not in (0, n_texts) or by_text.shape[1] not in (1, n_classes):
        return False
    if len(targets) == 0 and labels.shape[1] != n_classes:
        return False
    if not len(ids) == len(positions) == len(weights) or len(starts) != n_texts + 1:
        return False
    if starts[0] != 0 or starts[-1] != len(ids) or len(keys) > len(tables[3]):
        return False
    if len(keys) and len(keeps) != n_texts:
        return False
    before = 0
    for end in ends:
        if end <= before:
            return False
        before = end
    if before != n_texts:
        return False
    for b in range(n_texts):
        if starts[b + 1] < starts[b]:
            return False
    return first_outside(ids, len(tables[0])) < 0 and first_outside(targets, n_classes) < 0


@njit(**OPTIONS)
def _groups(starts, n_texts):
    """Where groups of consecutive sentences end whose vectors stay in a near cache, and the most
    tokens and sentences of one, as far as vectors are kept; two tokens or more, since with one row
    they are not."""
    ends, n, first, longest, most = np.empty(n_texts, np.int64), 0, 0, 2, 0
    while first < n_texts:
        end = first + 1
        while end < n_texts and starts[end + 1] - starts[first] <= AT_ONCE:
            end += 1
        n_tokens = starts[end] - starts[first]
        longest = max(longest, n_tokens if n_tokens <= MOST_KEPT else 2)
        most = max(most, end - first)
        ends[n], n, first = end, n + 1, end
    return ends[:n], longest, most


@njit(**OPTIONS)
def _gradients(tokens, tables, trained, bigrams, sums, word_drops, head, given, drops):
    """The weighted sum of the cross-entropies of some sentences, the rows in use of the tables of
    words and of bigrams, and the gradients of these rows and of the head. What arguments are:
    see `bag_steps`, of one step."""
    ids, starts, positions, weights = tokens
    amplitude, frequency, phase, more = tables
    keeps, keys, more_scale = bigrams
    padding, power = sums
    scale, drop, seed = word_drops
    w1, b1, w2, b2 = head
    n_words, n_dims = amplitude.shape
    extra = np.empty(len(ids) if len(keys) else 0, np.int64)
    if len(extra):
        pair_rows(ids, starts, keeps, keys, n_words, extra)
    rows, slots = rows_in_use(ids, n_words, padding)
    more_rows, more_slots = rows_in_use(extra, len(more), 0)
    of_amplitude = np.zeros((len(rows) if trained[0] else 0, n_dims), np.float32)
    n_frequencies = 1 if len(frequency) == 1 else len(rows)
    of_frequency = np.zeros((n_frequencies if trained[1] else 0, n_dims), np.float32)
    of_phase = np.zeros((len(rows) if trained[2] else 0, n_dims), np.float32)
    of_more = np.zeros((len(more_rows) if trained[3] else 0, n_dims), np.float32)
    of_head = np.zeros_like(w1), np.zeros_like(b1), np.zeros_like(w2), np.zeros_like(b2)
    n_texts = len(starts) - 1
    ends, longest, most = _groups(starts, n_texts)
    all_vectors = np.empty((longest, n_dims), np.float32)
    all_cosines, all_sines = np.empty_like(all_vectors), np.empty_like(all_vectors)
    mask = np.empty(n_dims, np.float32)
    along, across = np.empty_like(mask), np.empty_like(mask)
    x = np.empty((most, w1.shape[1]), np.float32)
    z, kept = np.empty_like(x), np.empty_like(x)
    units = np.empty((most, len(w1)), np.float32)
    kept_units = np.empty_like(units)
    places, p = np.empty(most + 1, np.int64), np.empty(len(w2))
    loss, first = 0.0, np.int64(0)  # a literal would be compiled by itself
    for end in ends:
        x[:] = 0
        n_kept = longest if starts[end] - starts[first] <= longest else 1
        vectors, cosines, sines = all_vectors[:n_kept], all_cosines[:n_kept], all_sines[:n_kept]
        for b in range(first, end):
            sum_sentence(
                b, ids, starts, positions, weights, amplitude, frequency, phase, extra, more,
                more_scale, padding, power, scale, drop, seed, x[b - first],
                starts[first], mask, vectors, cosines, sines,
            )  # fmt: skip
        loss += _head_step(
            first, end - first, x, head, given, drops, of_head,
            z, kept, units, kept_units, places, p,
        )  # fmt: skip
        for b in range(first, end):
            sentence_gradients(
                b, ids, starts, positions, weights, amplitude, frequency, phase, extra, more,
                more_scale, padding, power, scale, drop, seed, x[b - first],
                starts[first], mask, vectors, cosines, sines,
                slots, more_slots, of_amplitude, of_frequency, of_phase, of_more, along, across,
            )  # fmt: skip
        first = end
    return loss, rows, more_rows, (of_amplitude, of_frequency, of_phase, of_more), of_head


@njit(**UNORDERED)
def _square_sum(x):
    """Σ x², in float64. Shape: (n, W)"""
    total = 0.0
    for i in range(x.shape[0]):
        for d in range(x.shape[1]):
            total += np.float64(x[i, d]) * np.float64(x[i, d])
    return total


@compiled_once
def bag_steps(
    tokens, ends, tables, trained, bigrams, sums, word_drops, head, given, drops,
    means, squares, numbers, max_norm, losses,
):  # fmt: skip
    """Steps of AdamW, one after the other, on the mean of the cross-entropies of a bag whose head
    has one hidden layer, or none if w1 has no rows. Without targets, the cross-entropies are those
    of each class by itself.

    Returns the number of steps, which end where a loss is not finite, before that changes anything;
    or −1, without any step, if not all numbers are in range.

    Args:
        tokens: ids, starts, positions and weights of the sentences of all steps, as of `sum_waves`.
        ends: of each step, where its sentences end. Shape: (S,)
        tables: amplitude, frequency, phase and bigrams, as of `sum_waves`.
        trained: which of them, and of the head, change. Shape: (8,)
        bigrams: which sentences keep theirs (B,), the keys of the table, or none, and its scale.
        sums: padding and power, as of `sum_waves`.
        word_drops: scale and drop, as of `sum_waves`, and seeds (S,).
        head: w1 (H, W), b1 (H,), w2 (C, H or W), b2 (C,).
        given: targets (B,), or (0,) with labels (B, C), and weights (B, 1), (B, C), or (0, 1)
            for 1.
        drops: scale and drop of dropout before each layer of the head, and seeds (S, 2).
        means, squares: of the gradients of tables and head, with rows as the tables, of the head
            one row.
        numbers: of each step, table and layer, the last arguments of `adam_rows`. Shape: (S, 8, 6)
        max_norm: the norm that the gradient of the mean loss is clipped to.
        losses: the sum of the cross-entropies of each step. Shape: (S,)
    """
    ids, starts, positions, weights = tokens
    keeps, keys, more_scale = bigrams
    targets, labels, by_text = given
    w1, b1, w2, b2 = head
    if not _fits(tokens, tables, keeps, keys, given, len(w2), ends):
        return -1
    one_row = (w1.reshape(1, -1), b1.reshape(1, -1), w2.reshape(1, -1), b2.reshape(1, -1))
    weights_of = (*tables, *one_row)
    only = np.zeros(1, np.int64)
    first = np.int64(0)  # a literal would be compiled by itself
    for s in range(len(ends)):
        end = ends[s]
        a, b = starts[first], starts[end]
        loss, rows, more_rows, of_tables, of_head = _gradients(
            (ids[a:b], starts[first : end + 1] - a, positions[a:b], weights[a:b]),
            tables, trained, (keeps[first:end], keys, more_scale), sums,
            (word_drops[0], word_drops[1], word_drops[2][s]), head,
            (targets[first:end], labels[first:end], by_text[first:end]),
            (drops[0], drops[1], drops[2][s, 0], drops[2][s, 1]),
        )  # fmt: skip
        losses[s] = loss
        if not np.isfinite(loss):
            return s
        dw1, db1, dw2, db2 = of_head
        gradients = (
            *of_tables,
            dw1.reshape(1, -1), db1.reshape(1, -1), dw2.reshape(1, -1), db2.reshape(1, -1),
        )  # fmt: skip
        of_words = only if len(tables[1]) == 1 else rows
        used = (rows, of_words, rows, more_rows, only, only, only, only)
        total, factor = 0.0, 1.0 / (end - first)
        for i in range(len(gradients)):
            if trained[i]:
                total += _square_sum(gradients[i])
        scale = np.float32(factor * min(max_norm / (factor * np.sqrt(total) + 1e-6), 1.0))
        for i in range(len(gradients)):
            if trained[i]:
                n = numbers[s, i]
                adam_rows(
                    used[i], gradients[i], scale, weights_of[i], means[i], squares[i],
                    n[0], n[1], n[2], n[3], n[4], n[5],
                )  # fmt: skip
        first = end
    return len(ends)
