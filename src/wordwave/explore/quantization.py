"""Tables stored small: int8 and int16 with a step for each row or column, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
MOST_ANGLE = 0.01
"""Rounding of frequencies may turn a wave by so much, in radians, at the longest length."""


@dataclass(frozen=True)
class Stored:
    """A table as it is stored: plain numbers, or integers times steps.

    `rows`: the value is step[row]·q. `columns`: the value is base[column] + step[column]·q.
    """

    values: Array
    scale: Literal["rows", "columns"] | None = None
    step: Array | None = None
    base: Array | None = None

    def restored(self) -> Array:
        """The rounded values, float32, exactly as the page has them; ids as they are."""
        if self.scale is None:
            is_float = self.values.dtype.kind == "f"
            return self.values.astype(np.float32) if is_float else self.values
        assert self.step is not None
        wide = self.values.astype(np.float64)
        if self.scale == "rows":
            return (wide * self.step.astype(np.float64)[:, None]).astype(np.float32)
        assert self.base is not None
        return (self.base.astype(np.float64) + wide * self.step.astype(np.float64)).astype(
            np.float32
        )


def by_rows(table: Array) -> Stored:
    """Each row as int8, scaled by its largest number. Shape: (V, D)"""
    step = (np.abs(table).max(axis=1) / 127).astype(np.float32)
    safe = np.where(step > 0, step, 1).astype(np.float64)
    return Stored(np.rint(table / safe[:, None]).astype(np.int8), "rows", step)


def by_table(table: Array, levels: int = 127) -> Stored:
    """All rows as int8 of one step, the largest number being `levels` steps: of small rows little
    is left. Few levels compress well. Shape: (V, D)"""
    step = np.full(table.shape[1], np.abs(table).max(initial=0) / levels, np.float32)
    safe = np.where(step > 0, step, 1).astype(np.float64)
    return Stored(np.rint(table / safe).astype(np.int8), "columns", step, np.zeros_like(step))


def by_columns(table: Array, longest: int) -> Stored:
    """The differences of each column from its median in steps so small that no wave turns by much
    at a position as high as the longest length; float32 if there are too many of them.

    Shape: (V, D)
    """
    base = np.median(table, axis=0).astype(np.float32)
    step = np.full_like(base, 2 * MOST_ANGLE / longest)
    steps = np.rint((table - base.astype(np.float64)) / step.astype(np.float64))
    steps[0] = 0  # padding, which is not used
    most = np.abs(steps).max()
    for dtype in (np.int8, np.int16):
        if most <= np.iinfo(dtype).max:
            return Stored(steps.astype(dtype), "columns", step, base)
    return Stored(table.astype(np.float32))


def pack(tables: Mapping[str, Stored]) -> tuple[list[dict[str, Any]], bytes]:
    """What describes tables, as JSON, and their bytes, little-endian."""
    about, chunks, at = [], [], 0
    for name, table in tables.items():
        entry: dict[str, Any] = {"name": name, "scale": table.scale}
        for part in ("values", "step", "base"):
            array = getattr(table, part)
            if array is None:
                continue
            little = array.astype(array.dtype.newbyteorder("<"))
            chunk = little.tobytes()
            if array.dtype == np.int16:  # low bytes, then high ones, which compress well
                chunk = little.view(np.uint8).reshape(-1, 2).T.tobytes()
            chunk += bytes(-len(chunk) % 4)
            kind, shape = array.dtype.name, list(array.shape)
            entry[part] = {"dtype": kind, "shape": shape, "at": at}
            chunks.append(chunk)
            at += len(chunk)
        about.append(entry)
    return about, b"".join(chunks)
