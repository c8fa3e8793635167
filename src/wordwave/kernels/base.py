"""What all kernels share: compilation, its cache, prefetching, and the hash of dropout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
FASTMATH = {"contract", "nsz", "arcp"}  # neither reordered sums, nor blind to NaN
OPTIONS: dict[str, Any] = {"fastmath": FASTMATH, "error_model": "numpy"}
"""Division by zero gives infinity: a check of every divisor would keep loops from being vectorized,
which takes Adam five times as long."""
_SOURCE = sha256(b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py"))))


class _Cache(FunctionCache):
    """Machine code of this source. A disk that is full, or files of the cache that cannot be read,
    are no reason to stop."""

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

    def _index_key(self, *about: Any) -> Any:
        # Kernels contain functions of other files, whose changes numba does not see.
        return (*super()._index_key(*about), _SOURCE.hexdigest())


def compiled_once(function: F) -> F:
    kernel: Any = njit(nogil=True, **OPTIONS)(function)
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


AHEAD, LINE = 4, 16  # rows loaded in advance; numbers of a cache line


@njit(inline="always")
def prefetch_row(table, row):
    for d in range(0, table.shape[1], LINE):
        _prefetch(table, row, d)  # type: ignore[call-arg]


@njit(inline="always")
def kept_numbers(weight, token, drop, seed, kept):
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
