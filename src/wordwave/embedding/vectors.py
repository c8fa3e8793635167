"""Readers of pretrained word vectors: word2vec binary, text (word2vec, fastText, GloVe) and `.npy`.

Files are streamed and only the rows of wanted words are kept, so a 3 GB file needs little memory.
Whatever is wrong with a file is one `ValueError` that names the file, the place and the rule.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Format = Literal["auto", "word2vec-binary", "text", "npy"]

_CHUNK = 1 << 18
# Bounds that keep a file of the wrong kind from being read into memory as one line or one word.
_LONGEST_LINE = 1 << 20
_LONGEST_WORD = 1 << 12
_HEADER = re.compile(rb"(\d{1,12})[ \t](\d{1,6})\s*")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their vectors: row i of `matrix` (n, dim), float32, belongs to `words[i]`."""

    words: list[str] = field(repr=False)
    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.dim() != 2 or len(self.matrix) != len(self.words):
            shape = tuple(self.matrix.shape)
            raise ValueError(f"matrix must be ({len(self.words)}, dim), a row a word, got {shape}")

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._row_of

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {word: row for row, word in reversed(list(enumerate(self.words)))}

    def aligned_to(
        self, words: Sequence[str], *, scale: float = 1.0, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """The vectors of `words` times `scale`: matrix (len(words), dim), found (len(words),) bool.

        Missing words are normal noise around zero, each component as spread as over the found
        rows; fewer than two found rows have no spread, then it is `scale / sqrt(dim)`.
        """
        rows = torch.tensor([self._row_of.get(word, -1) for word in words], dtype=torch.long)
        found = rows >= 0
        known = self.matrix[rows[found]] * scale
        spread = known.std(dim=0) if len(known) > 1 else scale / self.dim**0.5
        aligned = torch.randn(len(words), self.dim, generator=generator) * spread
        aligned[found] = known
        return aligned, found


def read_vectors(
    path: str | os.PathLike[str],
    *,
    vocabulary: Collection[str] | None = None,
    words: str | os.PathLike[str] | None = None,
    format: Format = "auto",
    dim: int | None = None,
) -> Vectors:
    """Pretrained vectors (n, dim) in file order; of a repeated word the first row counts.

    vocabulary: the words to keep; None keeps all.
    words: the words of an `.npy` matrix, one a line; by default `<stem>.words.txt(.gz)` beside it.
    format: "auto" goes by the file ending: `.bin(.gz)`, `.npy`, everything else is text.
    dim: what the file's dimension must be. Without it a text file that has no header is as wide
        as its first line, whose word then must hold no space.
    """
    if format not in get_args(Format):
        raise ValueError(f"format must be one of {get_args(Format)}, got {format!r}")
    if dim is not None and dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    file = _File(Path(path))
    kind = _format_by_ending(file.path) if format == "auto" else format
    if words is not None and kind != "npy":
        raise ValueError(f"words= goes with an .npy matrix, '{path}' is read as {kind}")
    kept = _Kept(file, None if vocabulary is None else frozenset(vocabulary))
    if kind == "npy":
        return _read_npy(file, _words_file(file.path, words), kept, dim)
    read = _read_binary if kind == "word2vec-binary" else _read_text
    with file.opened() as stream:
        return read(file, stream, kept, dim)


def _format_by_ending(path: Path) -> Format:
    name = path.name.lower()
    if name.endswith((".bin", ".bin.gz")):
        return "word2vec-binary"
    return "npy" if name.endswith(".npy") else "text"


@dataclass(frozen=True)
class _File:
    path: Path
    role: str = "vectors file"

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise ValueError(f"{self.role} '{self.path}': no such file; check the path or fetch it")
        if not self.path.stat().st_size:
            raise ValueError(f"{self.role} '{self.path}': the file is empty; fetch it again")

    def error(self, place: str, problem: str) -> ValueError:
        return ValueError(f"{self.role} '{self.path}', {place}: {problem}")

    @contextmanager
    def opened(self) -> Iterator[BufferedReader]:
        """The unpacked bytes. A failure to read or unpack, even later on, becomes a ValueError."""
        packed = self.path.name.lower().endswith(".gz")
        raw: Any = gzip.open(self.path) if packed else self.path.open("rb", buffering=0)
        with BufferedReader(raw, _CHUNK) as stream:
            try:
                yield stream
            except (OSError, EOFError, zlib.error) as error:
                problem = f"cannot be read or unpacked ({error}); fetch the file again"
                raise self.error(f"byte {stream.tell()}", problem) from None

    def lines(self, stream: BufferedReader) -> Iterator[bytes]:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), 1):
            if len(line) == _LONGEST_LINE:
                problem = f"longer than {_LONGEST_LINE} bytes; is this a text file?"
                raise self.error(f"line {number}", problem)
            yield line.removesuffix(b"\n").removesuffix(b"\r")


class _Kept:
    """The wanted rows of a file met so far; of a repeated word the first."""

    def __init__(self, file: _File, wanted: frozenset[str] | None) -> None:
        self.wanted = wanted
        self._first_fields = {word.split(" ", 1)[0] for word in wanted or ()}
        self._file = file
        self._words: dict[str, None] = {}
        self._rows = bytearray()

    def wants(self, word: str) -> bool:
        return (self.wanted is None or word in self.wanted) and word not in self._words

    def may_want(self, line: bytes) -> bool:
        """Whether a text line can be of a wanted word, judged by its first field alone."""
        return self.wanted is None or _decoded(line.split(b" ", 1)[0]) in self._first_fields

    def add(self, word: str, values: NDArray[Any], place: str) -> None:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, reported below
            row = values.astype(np.float32)
        if not np.isfinite(row).all():
            bad = row[~np.isfinite(row)][0]
            raise self._file.error(
                place, f"expected finite numbers for {clipped(word)}, found {bad}"
            )
        self._words[word] = None
        self._rows += row.tobytes()

    def vectors(self, dim: int) -> Vectors:
        matrix = np.frombuffer(self._rows, np.float32).reshape(len(self._words), dim)
        return Vectors(list(self._words), torch.from_numpy(matrix))


def _read_text(file: _File, stream: BufferedReader, kept: _Kept, dim: int | None) -> Vectors:
    lines = file.lines(stream)
    first = next(lines, b"")
    if header := _HEADER.fullmatch(first):
        count, dim = _announced(file, "line 1", header, dim)
    else:
        dim = dim or first.rstrip(b" ").count(b" ")
        lines = chain([first], lines)
    if b"\0" in first or not dim:
        found = clipped(_decoded(first))
        raise file.error("line 1", f"expected a word and numbers, found {found}; is this text?")
    start, number = (2, 1) if header else (1, 0)
    for number, line in enumerate(lines, start):
        # The first row is parsed even if unwanted: a file of another kind must not pass as vectors.
        if number == start or kept.may_want(line):
            word, values = _parsed(file, f"line {number}", line.rstrip(b" "), dim, kept.wanted)
            if kept.wants(word):
                kept.add(word, values, f"line {number}")
    if header and number - 1 != count:
        problem = f"the header announces {count} words, found {number - 1}; fetch the file again"
        raise file.error(f"line {number}", problem)
    return kept.vectors(dim)


def _parsed(
    file: _File, place: str, line: bytes, dim: int, wanted: frozenset[str] | None
) -> tuple[str, NDArray[np.float64]]:
    """The word of a text line and its numbers (dim,), split from the right: words may hold spaces.

    A word that ends in a number ('Route 66') looks like a row with one number too many, and is
    reported as one unless the vocabulary asks for exactly this word.
    """
    raw, *numbers = line.rsplit(b" ", dim)
    word = _decoded(raw)
    front, _, last = raw.rpartition(b" ")
    too_long = front and (not last or _NUMBER.fullmatch(last)) and word not in (wanted or ())
    if too_long or len(numbers) < dim:
        fields = line.split(b" ")
        found = len(list(takewhile(_NUMBER.fullmatch, reversed(fields[1:]))))
        word = _decoded(b" ".join(fields[: len(fields) - found]))
        problem = f"expected {dim} numbers after the word {clipped(word)}, found {found}"
        raise file.error(place, problem)
    try:
        return word, np.array(list(map(float, numbers)))
    except ValueError:
        odd = clipped(_decoded(next(n for n in numbers if not _NUMBER.fullmatch(n))))
        problem = f"expected {dim} numbers after the word {clipped(word)}, found {odd} among them"
        raise file.error(place, problem) from None


def _read_binary(file: _File, stream: BufferedReader, kept: _Kept, dim: int | None) -> Vectors:
    line = stream.readline(64)
    header = _HEADER.fullmatch(line)
    if header is None:
        found = clipped(_decoded(line))
        raise file.error("byte 0", f"expected a header line 'count dim', found {found}")
    count, dim = _announced(file, "byte 0", header, dim)
    row_bytes = 4 * dim
    window, start, passed = b"", 0, len(line)  # `passed` bytes of the file lie before the window
    for index in range(1, count + 1):
        if len(window) - start < _LONGEST_WORD + row_bytes:
            passed += start
            window, start = window[start:] + stream.read(_CHUNK + row_bytes), 0
        space = window.find(b" ", start, start + _LONGEST_WORD)
        end = space + 1 + row_bytes
        if space < 0 and len(window) - start >= _LONGEST_WORD:
            problem = f"expected word {index} and a space, found none in {_LONGEST_WORD} bytes"
            raise file.error(f"byte {passed + start}", problem)
        word = _decoded(window[start : space if space > 0 else None].removeprefix(b"\n"))
        if space < 0 or end > len(window):
            problem = (
                f"the file ends inside word {index} of {count}, {clipped(word)}; fetch it again"
            )
            raise file.error(f"byte {passed + len(window)}", problem)
        if kept.wants(word):
            values = np.frombuffer(window, "<f4", dim, offset=space + 1)
            kept.add(word, values, f"byte {passed + space + 1}")
        start = end
    if window[start:] + stream.read(2) not in (b"", b"\n"):
        problem = f"expected the end after the {count} words of the header, found more bytes"
        raise file.error(f"byte {passed + start}", problem)
    return kept.vectors(dim)


def _announced(
    file: _File, place: str, header: re.Match[bytes], dim: int | None
) -> tuple[int, int]:
    """The number of words and the dimension in a header line."""
    count, announced = map(int, header.groups())
    if not count or not announced:
        raise file.error(place, f"expected a header 'count dim' above 0, found {count} {announced}")
    _check_dim(file, place, announced, dim)
    return count, announced


def _check_dim(file: _File, place: str, found: int, expected: int | None) -> None:
    if expected not in (None, found):
        raise file.error(place, f"expected vectors of dimension {expected}, found {found}")


def _read_npy(file: _File, words: _File, kept: _Kept, dim: int | None) -> Vectors:
    matrix = _mapped_matrix(file)
    _check_dim(file, "header", matrix.shape[1], dim)
    number = 0
    with words.opened() as stream:
        for number, line in enumerate(words.lines(stream), 1):
            if number <= len(matrix) and kept.wants(word := _decoded(line)):
                kept.add(word, matrix[number - 1], f"row {number - 1}")
    if number != len(matrix):
        problem = f"expected {len(matrix)} words, one a row of '{file.path}', found {number}"
        raise words.error(f"line {number}", problem)
    return kept.vectors(matrix.shape[1])


def _mapped_matrix(file: _File) -> NDArray[Any]:
    try:
        array = np.load(file.path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's header parser lets SyntaxError, TokenError, ... through
        raise file.error("header", f"expected an .npy matrix of floats, found {error}") from None
    if not isinstance(array, np.ndarray):
        raise file.error("header", "expected an .npy matrix, found an .npz archive")
    if array.ndim != 2 or array.dtype.kind != "f" or not array.size:
        found = f"{array.dtype} {array.shape}"
        raise file.error("header", f"expected a float matrix (words, dim), found {found}")
    return np.asarray(array)  # still mapped; rows of np.memmap itself are slow to take


def _words_file(matrix: Path, words: str | os.PathLike[str] | None) -> _File:
    if words is not None:
        return _File(Path(words), "words file")
    stem = re.sub(r"(\.f(16|32))?\.npy$", "", matrix.name)
    plain, packed = (matrix.with_name(f"{stem}.words.txt{ending}") for ending in ("", ".gz"))
    if not plain.is_file() and not packed.is_file():
        problem = f"neither '{plain.name}' nor '{packed.name}' lies beside it; pass words="
        raise ValueError(f"vectors file '{matrix}': {problem}")
    return _File(plain if plain.is_file() else packed, "words file")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")
