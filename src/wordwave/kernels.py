"""Compiled loops of training and prediction with a bag of words.

Imported by `wordwave.compiled` only, since numba may be missing. numba keeps the machine code in
`__pycache__`, or in a folder of the user where that cannot be written. All arithmetic is float32
and in a fixed order, so that results are the same bit for bit at every run on a machine.

Shape: T tokens of B sentences; tables (V, D), or (1, D) shared by all words, or (0, D) for none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
FASTMATH = {"contract", "nsz", "arcp"}  # neither reordered sums, nor blind to NaN


class _Cache(FunctionCache):
    """A disk that is full, or files of the cache that cannot be read, are no reason to stop."""

    def load_overload(self, *about: Any) -> Any:
        try:
            return super().load_overload(*about)
        except Exception:
            return None

    def save_overload(self, *about: Any) -> None:
        try:
            super().save_overload(*about)
        except Exception:
            self.disable()


def _compiled(function: F) -> F:
    kernel: Any = njit(fastmath=FASTMATH, nogil=True)(function)
    with suppress(RuntimeError):  # there is no folder for it
        kernel._cache = _Cache(function)
    return cast(F, kernel)


@intrinsic
def _prefetch(typing, table, row, column):
    """Load the cache line of an element in advance."""

    def generate(context, builder, signature, given):
        array = context.make_array(signature.args[0])(context, builder, given[0])
        strides = cgutils.unpack_tuple(builder, array.strides)
        steps = (builder.mul(n, stride) for n, stride in zip(given[1:], strides, strict=True))
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(array.data, pointer), [builder.add(*steps)])
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        load = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(load, [place, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate


_AHEAD, _LINE = 4, 16  # rows loaded in advance; numbers of a cache line


@njit(inline="always")
def _prefetch_row(table, row):
    for d in range(0, table.shape[1], _LINE):
        _prefetch(table, row, d)  # type: ignore[call-arg]


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
def _kept(weight, token, drop, seed, kept):
    """The weight of each dimension of a token, 0 for those that a hash drops."""
    n_dims = kept.shape[0]
    if drop == 0:
        kept[:] = weight
        return
    for d in range(n_dims):
        h = np.uint32(np.uint32(token * n_dims + d) * np.uint32(0x9E3779B9) + seed)
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        h = np.uint32(h ^ (h >> np.uint32(16)))
        kept[d] = weight if h >= drop else np.float32(0.0)


@_compiled
def keep(weight, drop, seed, kept):
    """`weight` where a hash of the place and the seed is at least `drop`, else 0. Shape: (n,)"""
    _kept(weight, 0, drop, seed, kept)


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


@_compiled
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
            if t + _AHEAD < len(ids):
                _prefetch_row(amplitude, ids[t + _AHEAD])
                if frequency.shape[0] > 1:
                    _prefetch_row(frequency, ids[t + _AHEAD])
                if len(extra):
                    _prefetch_row(more, extra[t + _AHEAD])
            if i == padding:
                continue
            _kept(weights[t] * share, t, drop, seed, kept)
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


@_compiled
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
            _kept(weights[t] * share, t, drop, seed, kept)
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


@_compiled
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


@_compiled
def pair_rows(ids, starts, keeps, n, rows):
    """Of each id and the one before in its sentence, a row in 1 … n by a hash; 0 for the first.

    Shape: ids, rows (T,), starts (B + 1,), keeps (B,)
    """
    for b in range(len(keeps)):
        for t in range(starts[b], starts[b + 1]):
            rows[t] = 0
            if keeps[b] and t > starts[b]:
                rows[t] = (ids[t - 1] * 40_503 + ids[t] * 2_654_435_761) % n + 1


@_compiled
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


@_compiled
def head_step(x, w1, b1, w2, b2, targets, scale, drop, seed1, seed2, dx, dw1, db1, dw2, db2):
    """The summed cross-entropy of a head with one hidden layer, or none if w1 has no rows, and the
    gradients of its weights and inputs. Units that are dropped or below 0 are left out of all
    products.

    Shape: x (B, W), w1 (H, W), w2 (C, H or W), targets (B,); dx like x, the others zeros
    """
    n_inputs, n_hidden, n_classes = x.shape[1], w1.shape[0], w2.shape[0]
    kept, z = np.empty(n_inputs, np.float32), np.empty(n_inputs, np.float32)
    kept_units, units = np.empty(n_hidden, np.float32), np.empty(n_hidden, np.float32)
    p = np.empty(n_classes)
    loss = 0.0
    for b in range(x.shape[0]):
        _kept(scale, b, drop, seed1, kept)
        for k in range(n_inputs):
            z[k] = x[b, k] * kept[k]
        if n_hidden:
            _kept(scale, b, drop, seed2, kept_units)
            for j in range(n_hidden):
                units[j] = np.float32(0.0)
                if kept_units[j] > 0:
                    units[j] = max(_dot(z, w1[j]) + b1[j], np.float32(0.0)) * kept_units[j]
        top = units if n_hidden else z
        for c in range(n_classes):
            p[c] = np.float64(_dot(top, w2[c]) + b2[c])
        highest = p.max()
        total = 0.0
        of_target = p[targets[b]] - highest
        for c in range(n_classes):
            p[c] = np.exp(p[c] - highest)
            total += p[c]
        loss += np.log(total) - of_target
        back = dx[b]
        back[:] = 0
        for c in range(n_classes):
            g = np.float32(p[c] / total - (1.0 if c == targets[b] else 0.0))
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


@_compiled
def is_ascending(rows):
    """Whether rows are distinct and sorted."""
    return len(rows) < 2 or (rows[1:] > rows[:-1]).all()


@_compiled
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


@_compiled
def adam_rows(rows, grad, factor, table, mean, square, beta1, beta2, eps, step_size, root, keep):
    """One step of AdamW on some rows of a table, whose moments decay only here, with the gradient
    factor·grad.

    Shape: rows (n,), grad (n, W), table, mean, square (V, W); `root` corrects the bias of √square,
    `step_size` that of the mean; `keep` is 1 − lr·weight_decay
    """
    less1, less2 = _ONE - beta1, _ONE - beta2
    for k in range(len(rows)):
        if k + _AHEAD < len(rows):
            _prefetch_row(table, rows[k + _AHEAD])
            _prefetch_row(mean, rows[k + _AHEAD])
            _prefetch_row(square, rows[k + _AHEAD])
        i = rows[k]
        g, w, m, v = grad[k], table[i], mean[i], square[i]
        for d in range(g.shape[0]):
            x = factor * g[d]
            a = m[d] + less1 * (x - m[d])
            b = beta2 * v[d] + less2 * x * x
            m[d] = a
            v[d] = b
            w[d] = w[d] * keep - step_size * a / (np.sqrt(b) * root + eps)


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


@_compiled
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


@_compiled
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
