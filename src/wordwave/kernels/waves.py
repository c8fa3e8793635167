"""Sums of waves over sentences, forward and backward.

Shape: T tokens of B sentences; tables (V, D), or (1, D) shared by all words, or (0, D) for none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from wordwave.kernels.base import AHEAD, compiled_once, kept_numbers, prefetch_row

_PER_TURN = 1 / (2 * np.pi)
_TURN = np.float32(2 * np.pi)
_ROUND_64 = 1.5 * 2.0**52  # x + this − this is x rounded to a whole number
_ROUND_32 = np.float32(1.5 * 2.0**23)
_QUARTER, _FOUR, _ONE = np.float32(0.25), np.float32(4.0), np.float32(1.0)
# Minimax polynomials of sine and cosine on [−π/4, π/4].
_S1, _S2, _S3 = (np.float32(c) for c in (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4))
_C1, _C2 = np.float32(-0.5), np.float32(4.1666645683e-2)
_C3, _C4 = np.float32(-1.3887316255e-3), np.float32(2.4433157118e-5)


@njit(inline="always")
def _cos_sin(turns):
    """Cosine and sine of 2π·turns, |turns| ≤ 1, to 1e-7."""
    quadrant = (turns * _FOUR + _ROUND_32) - _ROUND_32
    k = np.int32(quadrant)
    x = (turns - quadrant * _QUARTER) * _TURN
    z = x * x
    sine = x + x * z * (_S1 + z * (_S2 + z * _S3))
    cosine = _ONE + z * (_C1 + z * (_C2 + z * (_C3 + z * _C4)))
    odd = (k & 1) != 0
    c = sine if odd else cosine
    s = cosine if odd else sine
    return (-c if ((k + 1) & 2) != 0 else c), (-s if (k & 2) != 0 else s)


@njit(inline="always")
def _phasors(frequency, phase, i, position, cos, sin):
    """e^{i(ω·pos + θ)} of word i. The angle is reduced to one turn in float64, exact anywhere."""
    n_dims = cos.shape[0]
    if frequency.shape[0] > 0:
        omega = frequency[i if frequency.shape[0] > 1 else 0]
        p = np.float64(position) * _PER_TURN
        for d in range(n_dims):
            turns = np.float64(omega[d]) * p
            cos[d] = np.float32(turns - ((turns + _ROUND_64) - _ROUND_64))
        if phase.shape[0] > 0:
            theta = phase[i]
            for d in range(n_dims):
                turns = np.float64(theta[d]) * _PER_TURN
                cos[d] += np.float32(turns - ((turns + _ROUND_64) - _ROUND_64))
    else:
        theta = phase[i]
        for d in range(n_dims):
            turns = np.float64(theta[d]) * _PER_TURN
            cos[d] = np.float32(turns - ((turns + _ROUND_64) - _ROUND_64))
    for d in range(n_dims):
        c, s = _cos_sin(cos[d])
        cos[d] = c
        sin[d] = s


@njit(inline="always")
def _times_row(kept, row, more, j, scale):
    """kept·(row + scale·more[j]), in place; more[0] does not count."""
    if j != 0:
        added = more[j]
        for d in range(len(kept)):
            kept[d] *= row[d] + scale * added[d]
    else:
        for d in range(len(kept)):
            kept[d] *= row[d]


@njit(inline="always")
def _share(weights, start, end, power):
    """What a weight of 1 counts in the sum, or in the mean, of a sentence."""
    total = np.float32(0.0)
    if power > 0:
        for t in range(start, end):
            total += weights[t]
    return _ONE if total == 0 else np.float32(np.float64(total) ** -power)


@compiled_once
def sum_waves(
    ids, starts, positions, weights, amplitude, frequency, phase,
    extra, more, more_scale, padding, power, scale, drop, seed, out,
):  # fmt: skip
    """out[b] = Σ_t w_t·r·e^{i(ω·pos + θ)} over the tokens of sentence b, or Σ_t w_t·r without ω
    and θ, divided by (Σ_t w_t)^power. Row extra_t of the table `more`, times more_scale, is added
    to r; row 0 is not.
    Returns the first place of an id that is in no row, or −1.

    Shape: ids, positions, weights (T,), starts (B + 1,), extra (T,) or (0,), more (N, D),
    out (B, D) or (B, 2·D), zeros
    """
    for t in range(len(ids)):
        if ids[t] < 0 or ids[t] >= amplitude.shape[0]:
            return t
        if len(extra) and (extra[t] < 0 or extra[t] >= more.shape[0]):
            return t
    n_dims = amplitude.shape[1]
    cos, sin = np.empty(n_dims, np.float32), np.empty(n_dims, np.float32)
    kept = np.empty(n_dims, np.float32)
    is_real = frequency.shape[0] + phase.shape[0] == 0
    is_shared = frequency.shape[0] == 1 and phase.shape[0] == 0
    for b in range(len(starts) - 1):
        real, imag = out[b, :n_dims], out[b, n_dims:]
        last = -1
        share = _share(weights, starts[b], starts[b + 1], power) * scale
        for t in range(starts[b], starts[b + 1]):
            i = ids[t]
            if t + AHEAD < len(ids):
                prefetch_row(amplitude, ids[t + AHEAD])
                if frequency.shape[0] > 1:
                    prefetch_row(frequency, ids[t + AHEAD])
                if len(extra):
                    prefetch_row(more, extra[t + AHEAD])
            if i == padding:
                continue
            kept_numbers(weights[t] * share, t, drop, seed, kept)
            _times_row(kept, amplitude[i], more, extra[t] if len(extra) else 0, more_scale)
            if is_real:
                for d in range(n_dims):
                    real[d] += kept[d]
                continue
            if not is_shared or last < 0 or positions[t] != positions[last]:
                _phasors(frequency, phase, i, positions[t], cos, sin)
                last = t
            for d in range(n_dims):
                real[d] += kept[d] * cos[d]
                imag[d] += kept[d] * sin[d]
    return -1


@compiled_once
def sum_waves_backward(
    ids, starts, positions, weights, amplitude, frequency, phase,
    extra, more, more_scale, padding, power, scale, drop, seed, grad, slots, more_slots,
    of_amplitude, of_frequency, of_phase, of_more,
):  # fmt: skip
    """Adds the gradients of the tables to `of_…`, in the rows `slots[id]`, `more_slots[extra]`; of
    a shared frequency in its only row. A table of 0 rows needs no gradient.

    Shape: slots (V,), more_slots (N,), of_amplitude, of_frequency, of_phase, of_more (n, D), zeros
    """
    n_dims = amplitude.shape[1]
    cos, sin = np.empty(n_dims, np.float32), np.empty(n_dims, np.float32)
    kept, turned = np.empty(n_dims, np.float32), np.empty(n_dims, np.float32)
    is_real = frequency.shape[0] + phase.shape[0] == 0
    is_shared = frequency.shape[0] == 1 and phase.shape[0] == 0
    for b in range(len(starts) - 1):
        x, y = grad[b, :n_dims], grad[b, n_dims:]
        last = -1
        share = _share(weights, starts[b], starts[b + 1], power) * scale
        for t in range(starts[b], starts[b + 1]):
            i = ids[t]
            if i == padding:
                continue
            slot = slots[i]
            kept_numbers(weights[t] * share, t, drop, seed, kept)
            j = extra[t] if len(extra) else 0
            if is_real:
                for d in range(n_dims):
                    turned[d] = kept[d] * x[d]
            else:
                if not is_shared or last < 0 or positions[t] != positions[last]:
                    _phasors(frequency, phase, i, positions[t], cos, sin)
                    last = t
                for d in range(n_dims):
                    turned[d] = kept[d] * (x[d] * cos[d] + y[d] * sin[d])
            if of_amplitude.shape[0] > 0:
                target = of_amplitude[slot]
                for d in range(n_dims):
                    target[d] += turned[d]
            if j != 0 and of_more.shape[0] > 0:
                target = of_more[more_slots[j]]
                for d in range(n_dims):
                    target[d] += more_scale * turned[d]
            if of_frequency.shape[0] + of_phase.shape[0] == 0:
                continue
            _times_row(kept, amplitude[i], more, j, more_scale)
            for d in range(n_dims):
                turned[d] = kept[d] * (y[d] * cos[d] - x[d] * sin[d])
            if of_phase.shape[0] > 0:
                target = of_phase[slot]
                for d in range(n_dims):
                    target[d] += turned[d]
            if of_frequency.shape[0] > 0:
                target = of_frequency[slot if frequency.shape[0] > 1 else 0]
                p = np.float32(positions[t])
                for d in range(n_dims):
                    target[d] += p * turned[d]


@compiled_once
def rows_in_use(ids, padding, marks, slots, rows):
    """Writes the distinct ids but the padding, ascending, to `rows` and the place of each there to
    `slots`.

    Returns their number. Shape: ids (T,), marks (V // 64 + 1,), zeros, slots (V,), rows (T,)
    """
    for t in range(len(ids)):
        if ids[t] == padding:
            continue
        marks[ids[t] >> 6] |= np.uint64(1) << np.uint64(ids[t] & 63)
    n = 0
    for k in range(len(marks)):
        mark = marks[k]
        if mark != 0:
            marks[k] = 0
            for j in range(64):
                if (mark >> np.uint64(j)) & np.uint64(1):
                    slots[64 * k + j] = n
                    rows[n] = 64 * k + j
                    n += 1
    return n


@compiled_once
def pair_rows(ids, starts, keeps, keys, n_words, rows):
    """The row of each id and the one before in its sentence, 0 if the pair has none.

    Shape: ids, rows (T,), starts (B + 1,), keeps (B,), keys (N + 1,)
    """
    for b in range(len(keeps)):
        for t in range(starts[b], starts[b + 1]):
            rows[t] = 0
            if keeps[b] and t > starts[b]:
                before, word = ids[t - 1], ids[t]
                row = (before * 40_503 + word * 2_654_435_761) % (len(keys) - 1) + 1
                if keys[row] == before * n_words + word:
                    rows[t] = row
