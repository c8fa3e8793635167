"""What all readers of vectors share: a file that is streamed, and the rows kept of it.

Whatever is wrong with a file is one `ValueError`: readers say where and what, `opened` adds which
file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from reprlib import repr as clipped
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20  # a file of the wrong kind is not to be read into memory as one line


@contextmanager
def opened(path: Path, role: str) -> Iterator[BufferedReader]:
    """The unpacked bytes of a file. All that goes wrong while it is open names the file."""
    if not path.is_file():
        raise ValueError(f"{role} '{path}': no such file; check the path or fetch the file")
    packed = path.name.lower().endswith(".gz")
    raw: Any = gzip.GzipFile(path) if packed else path.open("rb", buffering=0)
    with BufferedReader(raw, CHUNK) as stream:
        try:
            if not stream.peek(1):
                raise ValueError("byte 0: the file is empty; fetch it again")
            yield stream
        except (OSError, EOFError, zlib.error) as error:
            place = f"{role} '{path}', byte {stream.tell()}"
            raise ValueError(f"{place}: cannot be read ({error}); fetch it again") from None
        except ValueError as error:
            raise ValueError(f"{role} '{path}', {error}") from None


def lines_of(stream: BufferedReader) -> Iterator[bytes]:
    for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), 1):
        if len(line) == _LONGEST_LINE:
            raise ValueError(f"line {number}: longer than {_LONGEST_LINE} bytes; is this text?")
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


class Kept:
    """The wanted rows met so far; of a repeated word the first."""

    def __init__(self, wanted: frozenset[str] | None, besides: int = 0) -> None:
        self.wanted, self.besides = wanted, besides
        self._first_fields = {word.split(" ", 1)[0] for word in wanted or ()}
        self._words: dict[str, None] = {}
        self._rows = bytearray()

    def wants(self, word: str) -> bool:
        return self._takes(word) and word not in self._words

    def _takes(self, word: str) -> bool:
        return self.wanted is None or self.besides > 0 or word in self.wanted

    def may_want(self, line: bytes) -> bool:
        """Whether a text line can be of a wanted word, judged by its first field alone."""
        if self.wanted is None or self.besides > 0:
            return True
        return decoded(line.split(b" ", 1)[0]) in self._first_fields

    def add(self, word: str, values: NDArray[Any], place: str) -> None:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, reported below
            row = values.astype(np.float32)
        finite = np.isfinite(row)
        if not finite.all():
            odd = values[~finite][0]
            raise ValueError(f"{place}: expected finite numbers for {clipped(word)}, found {odd}")
        if self.wanted is not None and word not in self.wanted:
            self.besides -= 1
        self._words[word] = None
        self._rows += row.tobytes()

    @property
    def words(self) -> list[str]:
        return list(self._words)

    def matrix(self, dim: int) -> Tensor:
        """Shape: (n, dim), a row a word"""
        rows = np.frombuffer(self._rows, np.float32).reshape(len(self._words), dim)
        return torch.from_numpy(rows)
