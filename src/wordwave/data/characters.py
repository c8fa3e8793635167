"""Long texts on disk as rows of characters or bytes, and the vocabularies that number them.

A text is never read into memory as a whole. Bytes and pure ASCII are mapped from the file as they
stand; other texts are first written to a nameless temporary file with four bytes a character, which
is gone when the program ends.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import shutil
import tempfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wordwave.errors import WordwaveError

Unit = Literal["char", "byte"]
UNIT_NAMES: dict[str, str] = {"char": "character", "byte": "byte"}

CHUNK = 1 << 20
UNKNOWN_ID = 0
"""Of a character that training never saw."""
_PACKED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open}
_BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Text:
    """A part of a long text. Shape: symbols (n,), bytes or code points"""

    name: str
    symbols: NDArray[Any]

    def __len__(self) -> int:
        return len(self.symbols)

    def part(self, start: int, stop: int, name: str) -> Text:
        """A part of this text, which is not read either."""
        return Text(name, self.symbols[start:stop])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All symbols, a million at a time."""
        for start in range(0, len(self), CHUNK):
            yield np.asarray(self.symbols[start : start + CHUNK])


def read_text(path: Path, unit: Unit = "char") -> Text:
    """A text file of UTF-8, or of any bytes by `unit="byte"`; also .gz and .xz."""
    path = Path(path)
    if not path.is_file():
        raise WordwaveError(f"there is no text file '{path}'")
    if path.stat().st_size == 0:
        raise WordwaveError(f"'{path}' must hold text, got an empty file")
    with path.open("rb") as plain:
        return _mapped(_unpacked(path, plain), f"'{path}'", unit)


def text_of(content: str, name: str, unit: Unit = "char") -> Text:
    """A text that is in memory."""
    if not content:
        raise WordwaveError(f"{name} must hold text, got none")
    raw = content.encode()
    kind = np.uint8 if unit == "byte" or content.isascii() else np.uint32
    return Text(name, np.frombuffer(raw if kind is np.uint8 else content.encode("utf-32-le"), kind))


def _unpacked(path: Path, plain: IO[bytes]) -> IO[bytes]:
    if path.suffix not in _PACKED:
        return plain
    whole = tempfile.TemporaryFile()  # noqa: SIM115 - the map that is made of it keeps it
    try:
        with _PACKED[path.suffix](path) as packed:
            shutil.copyfileobj(packed, whole, CHUNK)
    except _BROKEN as problem:
        raise WordwaveError(f"'{path}' is not a whole {path.suffix} file: {problem}") from None
    return whole


def _mapped(file: IO[bytes], name: str, unit: Unit) -> Text:
    file.seek(0, 2)
    if file.tell() == 0:
        raise WordwaveError(f"{name} must hold text, got an empty file")
    file.flush()
    text = Text(name, np.memmap(file, np.uint8, mode="r"))
    if unit == "byte" or not any((chunk >= 128).any() for chunk in text.chunks()):
        return text
    points = tempfile.TemporaryFile()  # noqa: SIM115
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_read = 0
    try:
        for chunk in text.chunks():
            points.write(decoder.decode(chunk.tobytes()).encode("utf-32-le"))
            n_read += len(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as problem:
        where = n_read + problem.start - len(decoder.getstate()[0])
        raise WordwaveError(
            f"{name} must be UTF-8, got another byte near {max(where, 0):,}; "
            "train lm --unit byte reads files of any kind"
        ) from None
    points.flush()
    return Text(name, np.memmap(points, np.uint32, mode="r"))


class Alphabet:
    """The characters or bytes that a model knows, each with its number.

    Of bytes there are 256; of characters those of the training part, after the unknown one with
    number 0, which stands for all others.
    """

    def __init__(self, unit: Unit, characters: str = "") -> None:
        if unit not in ("char", "byte"):
            raise WordwaveError(f"unit must be 'char' or 'byte', got {clipped(unit)}")
        if len(set(characters)) < len(characters):
            raise WordwaveError(f"characters must differ, got {clipped(characters)}")
        self.unit: Unit = unit
        self.characters = characters
        self.letters: NDArray[np.bool_]
        """Which numbers words are made of: letters, marks on them and digits, what is unknown, and
        bytes that are not ASCII. Shape: (V,)"""
        if unit == "byte":
            self._number = np.arange(256)
            self.letters = np.array([i > 127 or chr(i).isalnum() for i in range(256)])
        else:
            kinds = map(unicodedata.category, characters)
            self.letters = np.array([True, *(kind[0] in "LMN" for kind in kinds)])
            points = np.array([ord(c) for c in characters], np.int64)
            self._number = np.full(max(int(points.max(initial=0)) + 2, 257), UNKNOWN_ID, np.int64)
            self._number[points] = np.arange(1, len(points) + 1)

    @classmethod
    def of(cls, text: Text, unit: Unit) -> Alphabet:
        """The alphabet of a text, in the order of code points."""
        if unit == "byte":
            return cls(unit)
        found: set[int] = set()
        for chunk in text.chunks():
            found.update(np.unique(chunk).tolist())
        return cls(unit, "".join(map(chr, sorted(found))))

    def __len__(self) -> int:
        return 256 if self.unit == "byte" else len(self.characters) + 1

    def letters_before(self, text: Text, place: int, limit: int) -> int:
        """Letters right before a place of the text, up to a limit."""
        before = self.letters[self.ids(text.symbols[max(place - limit, 0) : place])]
        others = np.flatnonzero(~before)
        return len(before) - 1 - int(others[-1]) if len(others) else len(before)

    @property
    def names(self) -> list[str]:
        """How to show each number's symbol."""
        if self.unit == "byte":
            return [repr(chr(i))[1:-1] if i < 127 else f"\\x{i:02x}" for i in range(256)]
        return ["<unk>", *(c if c.isprintable() and c != " " else repr(c) for c in self.characters)]

    def ids(self, symbols: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers of bytes or code points; 0 for those that are not known."""
        if symbols.itemsize > 1:
            symbols = np.minimum(symbols, len(self._number) - 1)  # which no character has
        return self._number[symbols]

    def encode(self, content: str) -> NDArray[np.int64]:
        """Numbers of the characters, or UTF-8 bytes, of a text."""
        if not content:
            return np.zeros(0, np.int64)
        return self.ids(text_of(content, "text", self.unit).symbols)

    def n_unknown(self, text: Text) -> int:
        """How many characters of a text are not known."""
        if self.unit == "byte":
            return 0
        return sum(int((self.ids(chunk) == UNKNOWN_ID).sum()) for chunk in text.chunks())

    def decoder(self) -> Decoder:
        """Turns numbers into text as they come."""
        return Decoder(self)

    def to_dict(self) -> dict[str, str]:
        """What JSON can hold; `from_dict` reads it."""
        return {"unit": self.unit, "characters": self.characters}

    @classmethod
    def from_dict(cls, saved: object) -> Alphabet:
        """The alphabet that `to_dict` wrote."""
        if not isinstance(saved, Mapping) or not isinstance(saved.get("characters"), str):
            raise WordwaveError(f"an alphabet is {{'unit', 'characters'}}, got {clipped(saved)}")
        return cls(saved.get("unit"), saved["characters"])  # type: ignore[arg-type]


class Decoder:
    """From numbers to text, one at a time; bytes wait until they make a character."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, number: int) -> str:
        """The text that this number completes."""
        if self._alphabet.unit == "byte":
            return self._bytes.decode(bytes([number]))
        return "\N{REPLACEMENT CHARACTER}" if number == 0 else self._alphabet.characters[number - 1]
