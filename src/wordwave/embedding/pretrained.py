"""Pretrained word vectors from word2vec binary files, text files (GloVe, fastText) and .npy files.

Files are streamed. Whatever is wrong with one raises a `WordwaveError`: readers name the line or
byte, `_open` adds the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, takewhile
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.files import DAMAGED, open_binary

_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20  # a file of another format must not be read into memory as one line
_LONGEST_WORD = 1 << 12  # likewise, as one word
_WIDEST = 10_000  # no word vectors are this wide, but a file of another format may seem to be
_HEADER = re.compile(rb"(\d{1,12})[ \t](\d{1,6})\s*")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

Format = Literal["auto", "word2vec-binary", "text", "npy"]


@contextmanager
def _open(path: Path, role: str) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a file. Errors raised while it is open name the file."""
    if not path.is_file():
        raise WordwaveError(f"{role} '{path}': no such file; check the path or fetch the file")
    with open_binary(path) as stream:
        try:
            if not stream.read(1):
                raise WordwaveError("byte 0: the file is empty; fetch it again")
            stream.seek(0)
            yield stream
        except (OSError, *DAMAGED) as error:
            place = f"{role} '{path}', byte {stream.tell()}"
            raise WordwaveError(f"{place}: cannot be read ({error}); fetch it again") from None
        except WordwaveError as error:
            raise WordwaveError(f"{role} '{path}', {error}") from None


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), 1):
        if len(line) == _LONGEST_LINE:
            raise WordwaveError(f"line {number}: longer than {_LONGEST_LINE} bytes; is this text?")
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _expected(place: str, rule: str, found: object) -> WordwaveError:
    return WordwaveError(f"{place}: expected {rule}, found {found}")


class _Kept:
    """The rows to keep of those read so far; of a repeated word the first."""

    def __init__(self, wanted: frozenset[str] | None, besides: int, dim: int | None) -> None:
        self.wanted, self.besides = wanted, besides
        self.dim = dim or 0
        """The number of components of a vector; 0 until it is known."""
        self._first_fields = {word.split(" ", 1)[0] for word in wanted or ()}
        self._words: dict[str, None] = {}
        self._rows = bytearray()

    def set_dim(self, found: int, place: str) -> None:
        if found > _WIDEST:
            raise _expected(place, f"at most {_WIDEST} numbers a word", found)
        if self.dim not in (0, found):
            raise _expected(place, f"vectors of dimension {self.dim}", found)
        self.dim = found

    def set_header(self, header: re.Match[bytes], place: str) -> int:
        """The number of words that a header line announces."""
        count, dim = map(int, header.groups())
        if not count or not dim:
            raise _expected(place, "a count and a dim above 0", f"{count} {dim}")
        self.set_dim(dim, place)
        return count

    def wants(self, word: str) -> bool:
        wanted = self.wanted is None or self.besides > 0 or word in self.wanted
        return wanted and word not in self._words

    def may_want(self, line: bytes) -> bool:
        """Whether a text line may have a wanted word, by its first field alone."""
        if self.wanted is None or self.besides > 0:
            return True
        return _decode(line.split(b" ", 1)[0]) in self._first_fields

    def add(self, word: str, values: NDArray[Any], place: str) -> None:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite
            row = values.astype(np.float32)
        if not np.isfinite(row).all():
            odd = values[~np.isfinite(row)][0]
            raise _expected(place, f"finite numbers for {clipped(word)}", odd)
        if self.wanted is not None and word not in self.wanted:
            self.besides -= 1
        self._words[word] = None
        self._rows += row.tobytes()

    def vectors(self) -> Vectors:
        rows = np.frombuffer(self._rows, np.float32).reshape(len(self._words), self.dim)
        return Vectors(list(self._words), torch.from_numpy(rows))


def _read_text(stream: IO[bytes], kept: _Kept) -> None:
    lines = _lines(stream)
    first = next(lines)
    count, start = None, 1
    if header := _HEADER.fullmatch(first):
        count, start = kept.set_header(header, "line 1"), 2
    else:
        kept.set_dim(kept.dim or first.rstrip(b" ").count(b" "), "line 1")
        lines = chain([first], lines)
    if b"\0" in first or not kept.dim:
        found = f"{clipped(_decode(first))}; is this text?"
        raise _expected("line 1", "a word and its numbers", found)
    number = start - 1
    for number, line in enumerate(lines, start):
        # The first row is always parsed: a file of another format must not pass as vectors.
        if number == start or kept.may_want(line):
            word, values = _parsed(line.rstrip(b" "), f"line {number}", kept)
            if kept.wants(word):
                kept.add(word, values, f"line {number}")
    if count not in (None, number - 1):
        rule = f"the header announces {count} words, found {number - 1}; fetch the file again"
        raise WordwaveError(f"line {number}: {rule}")


def _parsed(line: bytes, place: str, kept: _Kept) -> tuple[str, NDArray[np.float64]]:
    """The word of a text line and its numbers (dim,), split from the right: words may hold spaces.

    A word that ends in a number ('Route 66') looks like a row with one number too many, and is
    reported as such unless it is in the vocabulary.
    """
    raw, *numbers = line.rsplit(b" ", kept.dim)
    word, found = _decode(raw), ""
    front, _, last = raw.rpartition(b" ")
    too_long = front and (not last or _NUMBER.fullmatch(last)) and word not in (kept.wanted or ())
    if too_long or len(numbers) < kept.dim:
        fields = line.split(b" ")
        n_found = len(list(takewhile(_NUMBER.fullmatch, reversed(fields[1:]))))
        word, found = _decode(b" ".join(fields[: len(fields) - n_found])), str(n_found)
    else:
        try:
            return word, np.array(list(map(float, numbers)))
        except ValueError:
            odd = next(number for number in numbers if not _NUMBER.fullmatch(number))
            found = f"{clipped(_decode(odd))} among them"
    raise _expected(place, f"{kept.dim} numbers after the word {clipped(word)}", found)


def _read_binary(stream: IO[bytes], kept: _Kept) -> None:
    line = stream.readline(64)
    header = _HEADER.fullmatch(line)
    if header is None:
        raise _expected("byte 0", "a header 'count dim'", clipped(_decode(line)))
    count = kept.set_header(header, "byte 0")
    row_bytes = 4 * kept.dim
    window, start, passed = b"", 0, len(line)  # `passed` bytes of the file lie before the window
    for index in range(1, count + 1):
        if len(window) - start < _LONGEST_WORD + row_bytes:
            passed += start
            window, start = window[start:] + stream.read(_CHUNK + row_bytes), 0
        space = window.find(b" ", start, start + _LONGEST_WORD)
        end = space + 1 + row_bytes
        if space < 0 or end > len(window):
            raise _broken_row(window[start:], passed + start, f"word {index} of {count}")
        word = _decode(window[start:space].removeprefix(b"\n"))
        if kept.wants(word):
            values = np.frombuffer(window, "<f4", kept.dim, offset=space + 1)
            kept.add(word, values, f"byte {passed + space + 1}")
        start = end
    if window[start:] + stream.read(2) not in (b"", b"\n"):
        rule = f"the header announces {count} words, found more bytes after them"
        raise WordwaveError(f"byte {passed + start}: {rule}")


def _broken_row(rest: bytes, offset: int, which: str) -> WordwaveError:
    raw, space, _ = rest[:_LONGEST_WORD].removeprefix(b"\n").partition(b" ")
    word = clipped(_decode(raw))
    if not space and len(rest) >= _LONGEST_WORD:
        return _expected(f"byte {offset}", f"{which} to end in a space", word)
    end = offset + len(rest)
    return WordwaveError(f"byte {end}: the file ends in {which}, {word}; fetch it again")


def _read_npy(path: Path, words: Path | None, kept: _Kept) -> None:
    words = words or _words_beside(path)
    rule = "an .npy matrix of floats (words, dim), no pickle or .npz archive"
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # numpy's header parser lets SyntaxError, TokenError, ... through
        raise _expected("header", rule, error) from None
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or not matrix.size:
        raise _expected("header", rule, f"{matrix.dtype} of shape {matrix.shape}")
    kept.set_dim(matrix.shape[1], "header")
    rows = np.asarray(matrix)  # still mapped; taking rows of an np.memmap is slower
    number = 0
    for number, word in enumerate(_words_of(words), 1):
        if number <= len(rows) and kept.wants(word):
            kept.add(word, rows[number - 1], f"row {number - 1}")
    if number != len(rows):
        raise WordwaveError(f"header: {len(rows)} rows, but {number} words in '{words}'")


def _words_of(path: Path) -> Iterator[str]:
    with _open(path, "words file") as stream:
        yield from map(_decode, _lines(stream))


def _words_beside(matrix: Path) -> Path:
    stem = re.sub(r"(\.f(16|32))?\.npy$", "", matrix.name)
    names = [f"{stem}.words.txt", f"{stem}.words.txt.gz"]
    for name in names:
        if matrix.with_name(name).is_file():
            return matrix.with_name(name)
    raise _expected("words", f"one of {names} beside it", "none; pass words=")


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their vectors: row i of `matrix` (n, dim), float32, is that of `words[i]`."""

    words: list[str] = field(repr=False)
    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.dim() != 2 or len(self.matrix) != len(self.words):
            rule = f"must be ({len(self.words)}, dim), a row for each word"
            raise WordwaveError(f"matrix {rule}, got {tuple(self.matrix.shape)}")

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

        Missing words are drawn from a normal distribution with mean 0 and the standard deviation
        of the found rows in each component, or `scale / sqrt(dim)` if fewer than two were found.
        """
        rows = torch.tensor([self._row_of.get(word, -1) for word in words], dtype=torch.long)
        found = rows >= 0
        known = self.matrix[rows[found]] * scale
        deviation = known.std(dim=0) if len(known) > 1 else scale / self.dim**0.5
        aligned = torch.randn(len(words), self.dim, generator=generator) * deviation
        aligned[found] = known
        return aligned, found


def read_vectors(
    path: str | os.PathLike[str],
    *,
    vocabulary: Collection[str] | None = None,
    besides: int = 0,
    words: str | os.PathLike[str] | None = None,
    format: Format = "auto",
    dim: int | None = None,
) -> Vectors:
    """Pretrained vectors (n, dim) in file order; of a repeated word the first row counts.

    Args:
        path: the file, which may be compressed (`.gz`).
        vocabulary: the words to keep; None keeps all.
        besides: number of other words to keep as well, the first ones in the file.
        words: the words of an `.npy` matrix, one per line; by default `<stem>.words.txt(.gz)` next
            to it.
        format: "auto" goes by the file name: `.bin(.gz)`, `.npy`, everything else is text.
        dim: the expected dimension. Without it, that of a text file without a header is taken from
            its first line, whose word must not contain a space.
    """
    if format not in get_args(Format):
        raise WordwaveError(f"format must be one of {get_args(Format)}, got {format!r}")
    if dim is not None and dim < 1:
        raise WordwaveError(f"dim must be at least 1, got {dim}")
    path, kind = Path(path), str(format)
    if kind == "auto":
        name = path.name.lower().removesuffix(".gz")
        kind = {".bin": "word2vec-binary", ".npy": "npy"}.get(Path(name).suffix, "text")
    if words is not None and kind != "npy":
        raise WordwaveError(f"words= goes with an .npy matrix, '{path}' is read as {kind}")
    if vocabulary is not None and not all(isinstance(word, str) for word in vocabulary):
        raise TypeError("vocabulary must hold words as strings")
    kept = _Kept(None if vocabulary is None else frozenset(vocabulary), besides, dim)
    with _open(path, "vectors file") as stream:
        if kind == "npy":
            _read_npy(path, None if words is None else Path(words), kept)
        elif kind == "word2vec-binary":
            _read_binary(stream, kept)
        else:
            _read_text(stream, kept)
    return kept.vectors()
