"""Sums of waves over sentences, forward and backward.

Shape: T tokens of B sentences; tables (V, D), or (1, D) shared by all words, or (0, D) for none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from wordwave.kernels.base import AHEAD, OPTIONS, compiled_once, kept_numbers, prefetch_row

_PER_TURN = 1 / (2 * np.pi)
_TURN = np.float32(2 * np.pi)
_ROUND_64 = 1.5 * 2.0**52  # x + this − this is x rounded to a whole number
_ROUND_32 = np.float32(1.5 * 2.0**23)
_QUARTER, _FOUR = np.float32(0.25), np.float32(4.0)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
"""Its product with 2^j, shifted right by 58, differs for all j from 0 to 63 (`_PLACES`)."""
_PLACES = np.empty(64, np.int64)
_PLACES[[(int(_DE_BRUIJN) << j & (1 << 64) - 1) >> 58 for j in range(64)]] = range(64)
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
def _one_turn(turns):
    """The rest of whole turns, in float64, so that it is exact at any position."""
    return np.float32(turns - ((turns + _ROUND_64) - _ROUND_64))


@njit(inline="always")
def _phasors(frequency, phase, i, position, cosines, sines, k):
    """e^{i(ω·pos + θ)} of word i, in row k of cosines and sines."""
    n_dims = cosines.shape[1]
    for d in range(n_dims):
        cosines[k, d] = 0
    if phase.shape[0] > 0:
        for d in range(n_dims):
            cosines[k, d] = _one_turn(np.float64(phase[i, d]) * _PER_TURN)
    if frequency.shape[0] > 0:
        row, p = i if frequency.shape[0] > 1 else 0, np.float64(position) * _PER_TURN
        for d in range(n_dims):
            cosines[k, d] += _one_turn(np.float64(frequency[row, d]) * p)
    for d in range(n_dims):
        c, s = _cos_sin(cosines[k, d])
        cosines[k, d] = c
        sines[k, d] = s


@njit(inline="always")
def _amplitudes(weight, token, drop, seed, amplitude, i, more, j, scale, kept, vectors, k):
    """weight·(amplitude[i] + scale·more[j]) in row k, but 0 for what is dropped; more[0] does not
    count."""
    kept_numbers(weight, token, drop, seed, kept)
    if j != 0:
        for d in range(len(kept)):
            vectors[k, d] = kept[d] * (amplitude[i, d] + scale * more[j, d])
    else:
        for d in range(len(kept)):
            vectors[k, d] = kept[d] * amplitude[i, d]


@njit(inline="always")
def _prefetch(t, ids, extra, amplitude, frequency, more):
    if t + AHEAD < len(ids):
        prefetch_row(amplitude, ids[t + AHEAD])
        if frequency.shape[0] > 1:
            prefetch_row(frequency, ids[t + AHEAD])
        if len(extra):
            prefetch_row(more, extra[t + AHEAD])


@njit(inline="always")
def _share(weights, start, end, power):
    """What a weight of 1 counts in the sum, or in the mean, of a sentence."""
    total = np.float32(0.0)
    if power > 0:
        for t in range(start, end):
            total += weights[t]
    return _ONE if total == 0 else np.float32(np.float64(total) ** -power)


# Rows are not taken as arrays of their own below: counting references to them would take longer
# than the sums.


@njit(**OPTIONS)
def sum_sentence(
    b, ids, starts, positions, weights, amplitude, frequency, phase,
    extra, more, more_scale, padding, power, scale, drop, seed, out,
    origin, kept, vectors, cosines, sines,
):  # fmt: skip
    """The sum of `sum_waves` for sentence b. The amplitudes of token `origin` + k, with its weight,
    and its phasors stay in row k of the last three or, if they have one row, nowhere.

    Shape: out (D,) or (2·D,), zeros; kept (D,); vectors, cosines, sines (1 or more, D)
    """
    n_dims = amplitude.shape[1]
    real, imag = out[:n_dims], out[n_dims:]
    start, end = starts[b], starts[b + 1]
    share = _share(weights, start, end, power) * scale
    is_kept = len(vectors) > 1
    if frequency.shape[0] > 1 and phase.shape[0] == 0 and drop == 0:
        # The default by itself: with other cases in the same loop, it takes twice as long.
        for t in range(start, end):
            i, j, k = ids[t], extra[t] if len(extra) else 0, t - origin if is_kept else 0
            _prefetch(t, ids, extra, amplitude, frequency, more)
            if i == padding:
                continue
            weight, p = weights[t] * share, np.float64(positions[t]) * _PER_TURN
            for d in range(n_dims):
                c, s = _cos_sin(_one_turn(np.float64(frequency[i, d]) * p))
                cosines[k, d] = c
                sines[k, d] = s
            if j != 0:
                for d in range(n_dims):
                    vectors[k, d] = weight * (amplitude[i, d] + more_scale * more[j, d])
            else:
                for d in range(n_dims):
                    vectors[k, d] = weight * amplitude[i, d]
            for d in range(n_dims):
                real[d] += vectors[k, d] * cosines[k, d]
                imag[d] += vectors[k, d] * sines[k, d]
        return
    is_shared = not is_kept and frequency.shape[0] == 1 and phase.shape[0] == 0
    last = -1
    for t in range(start, end):
        i, j, k = ids[t], extra[t] if len(extra) else 0, t - origin if is_kept else 0
        _prefetch(t, ids, extra, amplitude, frequency, more)
        if i == padding:
            continue
        weight = weights[t] * share
        _amplitudes(weight, t, drop, seed, amplitude, i, more, j, more_scale, kept, vectors, k)
        if frequency.shape[0] + phase.shape[0] == 0:
            for d in range(n_dims):
                real[d] += vectors[k, d]
            continue
        if not is_shared or last < 0 or positions[t] != positions[last]:
            _phasors(frequency, phase, i, positions[t], cosines, sines, k)
            last = t
        for d in range(n_dims):
            real[d] += vectors[k, d] * cosines[k, d]
            imag[d] += vectors[k, d] * sines[k, d]


@njit(**OPTIONS)
def sentence_gradients(
    b, ids, starts, positions, weights, amplitude, frequency, phase,
    extra, more, more_scale, padding, power, scale, drop, seed, grad,
    origin, kept, vectors, cosines, sines,
    slots, more_slots, of_amplitude, of_frequency, of_phase, of_more, along, across,
):  # fmt: skip
    """What sentence b adds to the gradients of `sum_waves_backward`. Vectors, cosines and sines are
    those of `sum_sentence`; if they have one row, they are computed again.

    Shape: grad (D,) or (2·D,), along, across (D,)
    """
    n_dims = amplitude.shape[1]
    x, y = grad[:n_dims], grad[n_dims:]
    is_real = frequency.shape[0] + phase.shape[0] == 0
    start, end = starts[b], starts[b + 1]
    share = _share(weights, start, end, power) * scale
    is_kept = len(vectors) > 1
    for t in range(start, end):
        i, j, k = ids[t], extra[t] if len(extra) else 0, t - origin if is_kept else 0
        if i == padding:
            continue
        slot, weight = slots[i], weights[t] * share
        if not is_kept:
            _amplitudes(weight, t, drop, seed, amplitude, i, more, j, more_scale, kept, vectors, k)
            if not is_real:
                _phasors(frequency, phase, i, positions[t], cosines, sines, k)
        kept_numbers(weight, t, drop, seed, kept)
        if is_real:
            for d in range(n_dims):
                along[d] = kept[d] * x[d]
        else:
            for d in range(n_dims):
                c, s = cosines[k, d], sines[k, d]
                along[d] = kept[d] * (x[d] * c + y[d] * s)
                across[d] = vectors[k, d] * (y[d] * c - x[d] * s)
        if of_amplitude.shape[0] > 0:
            for d in range(n_dims):
                of_amplitude[slot, d] += along[d]
        if j != 0 and of_more.shape[0] > 0:
            row = more_slots[j]
            for d in range(n_dims):
                of_more[row, d] += more_scale * along[d]
        if of_phase.shape[0] > 0:
            for d in range(n_dims):
                of_phase[slot, d] += across[d]
        if of_frequency.shape[0] > 0:
            row, p = slot if frequency.shape[0] > 1 else 0, np.float32(positions[t])
            for d in range(n_dims):
                of_frequency[row, d] += p * across[d]


@njit(**OPTIONS)
def first_outside(ids, n):
    """The first place of an id that is in none of n rows, or −1."""
    for t in range(len(ids)):
        if ids[t] < 0 or ids[t] >= n:
            return t
    return -1


@compiled_once
def sum_waves(
    ids, starts, positions, weights, amplitude, frequency, phase,
    extra, more, more_scale, padding, power, scale, drop, seed, out,
):  # fmt: skip
    """out[b] = Σ_t w_t·r·e^{i(ω·pos + θ)} over the tokens of sentence b, or Σ_t w_t·r without ω
    and θ, divided by (Σ_t w_t)^power. Row extra_t of the table `more`, times more_scale, is added
    to r; row 0 is not.
    Returns a place of an id that is in no row, or −1.

    Shape: ids, positions, weights (T,), starts (B + 1,), extra (T,) or (0,), more (N, D),
    out (B, D) or (B, 2·D), zeros
    """
    outside = max(first_outside(ids, len(amplitude)), first_outside(extra, len(more)))
    if outside >= 0:
        return outside
    n_dims = amplitude.shape[1]
    kept, vectors = np.empty(n_dims, np.float32), np.empty((1, n_dims), np.float32)
    cosines, sines = np.empty_like(vectors), np.empty_like(vectors)
    for b in range(len(starts) - 1):
        sum_sentence(
            b, ids, starts, positions, weights, amplitude, frequency, phase,
            extra, more, more_scale, padding, power, scale, drop, seed, out[b],
            np.int64(0), kept, vectors, cosines, sines,
        )  # fmt: skip
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
    kept, vectors = np.empty(n_dims, np.float32), np.empty((1, n_dims), np.float32)
    cosines, sines = np.empty_like(vectors), np.empty_like(vectors)
    along, across = np.empty_like(kept), np.empty_like(kept)
    for b in range(len(starts) - 1):
        sentence_gradients(
            b, ids, starts, positions, weights, amplitude, frequency, phase,
            extra, more, more_scale, padding, power, scale, drop, seed, grad[b],
            np.int64(0), kept, vectors, cosines, sines, slots, more_slots,
            of_amplitude, of_frequency, of_phase, of_more, along, across,
        )  # fmt: skip


@compiled_once
def rows_in_use(ids, n_rows, padding):
    """The distinct ids but the padding, ascending, and by id the place of each there. Ids are not
    checked. Shape: ids (T,) -> (n,), (n_rows,)"""
    slots, rows = np.empty(n_rows, np.int32), np.empty(len(ids), np.int64)
    marks = np.zeros(n_rows // 64 + 1, np.uint64)
    for t in range(len(ids)):
        if ids[t] != padding:
            marks[ids[t] >> 6] |= np.uint64(1) << np.uint64(ids[t] & 63)
    n = 0
    for k in range(len(marks)):
        mark = marks[k]
        while mark != 0:
            lowest = mark & (~mark + np.uint64(1))
            row = 64 * k + _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]
            slots[row] = n
            rows[n] = row
            n += 1
            mark ^= lowest
    return rows[:n], slots


@compiled_once
def pair_rows(ids, starts, keeps, keys, n_words, rows):
    """The row of each id and the one before in its sentence, 0 if the pair has none.

    Shape: ids, rows (T,), starts (B + 1,), keeps (B,), keys (N + 1,)
    """
    if len(keys) < 2:  # a remainder by 0 would be any number
        rows[:] = 0
        return
    for b in range(len(keeps)):
        for t in range(starts[b], starts[b + 1]):
            rows[t] = 0
            if keeps[b] and t > starts[b]:
                before, word = ids[t - 1], ids[t]
                row = (before * 40_503 + word * 2_654_435_761) % (len(keys) - 1) + 1
                if keys[row] == before * n_words + word:
                    rows[t] = row
