"""One reader a format: each hands the rows of wanted words to a `Kept` and returns their width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain, takewhile
from pathlib import Path
from reprlib import repr as clipped
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wordwave.embedding.vector_file import CHUNK, Kept, decoded, lines_of, opened

_LONGEST_WORD = 1 << 12  # as in `lines_of`: a file of the wrong kind is not one long word
_WIDEST = 10_000  # no word vectors are as wide, and a file of another kind may seem to be
_HEADER = re.compile(rb"(\d{1,12})[ \t](\d{1,6})\s*")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def read_text(stream: BufferedReader, kept: Kept, dim: int | None) -> int:
    lines = lines_of(stream)
    first = next(lines)
    if header := _HEADER.fullmatch(first):
        count, dim = _announced(header, "line 1", dim)
    else:
        dim = dim or first.rstrip(b" ").count(b" ")
        _check_dim(dim, "line 1", None)
        lines = chain([first], lines)
    if b"\0" in first or not dim:
        found = clipped(decoded(first))
        raise ValueError(f"line 1: expected a word and its numbers, found {found}; is this text?")
    start, number = (2, 1) if header else (1, 0)
    for number, line in enumerate(lines, start):
        # The first row is parsed even if unwanted: a file of another kind must not pass as vectors.
        if number == start or kept.may_want(line):
            word, values = _parsed(line.rstrip(b" "), f"line {number}", dim, kept.wanted)
            if kept.wants(word):
                kept.add(word, values, f"line {number}")
    if header and number - 1 != count:
        rule = f"the header announces {count} words, found {number - 1}; fetch the file again"
        raise ValueError(f"line {number}: {rule}")
    return dim


def _parsed(
    line: bytes, place: str, dim: int, wanted: frozenset[str] | None
) -> tuple[str, NDArray[np.float64]]:
    """The word of a text line and its numbers (dim,), split from the right: words may hold spaces.

    A word that ends in a number ('Route 66') looks like a row with one number too many, and is
    reported as one unless the vocabulary asks for exactly this word.
    """
    raw, *numbers = line.rsplit(b" ", dim)
    word = decoded(raw)
    front, _, last = raw.rpartition(b" ")
    too_long = front and (not last or _NUMBER.fullmatch(last)) and word not in (wanted or ())
    if too_long or len(numbers) < dim:
        fields = line.split(b" ")
        found = len(list(takewhile(_NUMBER.fullmatch, reversed(fields[1:]))))
        shown = clipped(decoded(b" ".join(fields[: len(fields) - found])))
        raise ValueError(f"{place}: expected {dim} numbers after the word {shown}, found {found}")
    try:
        return word, np.array(list(map(float, numbers)))
    except ValueError:
        odd = clipped(decoded(next(n for n in numbers if not _NUMBER.fullmatch(n))))
        rule = f"expected {dim} numbers after the word {clipped(word)}, found {odd} among them"
        raise ValueError(f"{place}: {rule}") from None


def read_binary(stream: BufferedReader, kept: Kept, dim: int | None) -> int:
    line = stream.readline(64)
    header = _HEADER.fullmatch(line)
    if header is None:
        raise ValueError(f"byte 0: expected a header 'count dim', found {clipped(decoded(line))}")
    count, dim = _announced(header, "byte 0", dim)
    row_bytes = 4 * dim
    window, start, passed = b"", 0, len(line)  # `passed` bytes of the file lie before the window
    for index in range(1, count + 1):
        if len(window) - start < _LONGEST_WORD + row_bytes:
            passed += start
            window, start = window[start:] + stream.read(CHUNK + row_bytes), 0
        space = window.find(b" ", start, start + _LONGEST_WORD)
        end = space + 1 + row_bytes
        if space < 0 or end > len(window):
            raise _broken_row(window[start:], passed + start, f"word {index} of {count}")
        word = decoded(window[start:space].removeprefix(b"\n"))
        if kept.wants(word):
            values = np.frombuffer(window, "<f4", dim, offset=space + 1)
            kept.add(word, values, f"byte {passed + space + 1}")
        start = end
    if window[start:] + stream.read(2) not in (b"", b"\n"):
        rule = f"the header announces {count} words, found more bytes after them"
        raise ValueError(f"byte {passed + start}: {rule}")
    return dim


def _broken_row(rest: bytes, offset: int, which: str) -> ValueError:
    raw, space, _ = rest[:_LONGEST_WORD].removeprefix(b"\n").partition(b" ")
    word = clipped(decoded(raw))
    if not space and len(rest) >= _LONGEST_WORD:
        return ValueError(f"byte {offset}: expected {which} to end in a space, found {word}")
    return ValueError(
        f"byte {offset + len(rest)}: the file ends in {which}, {word}; fetch it again"
    )


def _announced(header: re.Match[bytes], place: str, dim: int | None) -> tuple[int, int]:
    """The number of words and the dimension in a header line."""
    count, announced = map(int, header.groups())
    if not count or not announced:
        raise ValueError(f"{place}: expected a count and a dim above 0, found {count} {announced}")
    _check_dim(announced, place, dim)
    return count, announced


def _check_dim(found: int, place: str, expected: int | None) -> None:
    if found > _WIDEST:
        raise ValueError(f"{place}: expected at most {_WIDEST} numbers a word, found {found}")
    if expected not in (None, found):
        raise ValueError(f"{place}: expected vectors of dimension {expected}, found {found}")


def read_npy(path: Path, words: Path, kept: Kept, dim: int | None) -> int:
    matrix = _mapped_matrix(path)
    _check_dim(matrix.shape[1], "header", dim)
    number = 0
    for number, word in enumerate(_words_of(words), 1):
        if number <= len(matrix) and kept.wants(word):
            kept.add(word, matrix[number - 1], f"row {number - 1}")
    if number != len(matrix):
        raise ValueError(f"header: {len(matrix)} rows, but {number} words in '{words}'")
    return int(matrix.shape[1])


def _mapped_matrix(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's header parser lets SyntaxError, TokenError, ... through
        raise ValueError(f"header: expected an .npy matrix of floats, found {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError("header: expected an .npy matrix of floats, found an .npz archive")
    if array.ndim != 2 or array.dtype.kind != "f" or not array.size:
        found = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"header: expected a matrix of floats (words, dim), found {found}")
    return np.asarray(array)  # still mapped, and its rows are quicker to take than np.memmap's


def _words_of(path: Path) -> Iterator[str]:
    with opened(path, "words file") as stream:
        yield from map(decoded, lines_of(stream))


def words_beside(matrix: Path) -> Path:
    stem = re.sub(r"(\.f(16|32))?\.npy$", "", matrix.name)
    names = [f"{stem}.words.txt", f"{stem}.words.txt.gz"]
    for name in names:
        if matrix.with_name(name).is_file():
            return matrix.with_name(name)
    raise ValueError(f"words: expected one of {names} beside it, found none; pass words=")
