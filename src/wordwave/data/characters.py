"""Long texts as sequences of characters or bytes, and the alphabets that map them to ids.

A text is memory-mapped, never loaded whole. Bytes and pure ASCII are mapped from the file itself;
other texts are first written to an anonymous temporary file with four bytes per character.
"""

from __future__ import annotations

import codecs
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as clipped
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wordwave.errors import WordwaveError
from wordwave.files import DAMAGED, naming_temporary, open_binary

Unit = Literal["char", "byte"]
UNIT_NAMES: dict[str, str] = {"char": "character", "byte": "byte"}

CHUNK = 1 << 20
UNKNOWN_CHARACTER_ID = 0
"""The id of every character that is not in the alphabet."""


@dataclass(frozen=True)
class Text:
    """A long text, or a slice of one. Shape: symbols (n,), bytes or code points"""

    name: str
    symbols: NDArray[Any]

    def __len__(self) -> int:
        return len(self.symbols)

    def part(self, start: int, stop: int, name: str) -> Text:
        """A slice of this text, not loaded either."""
        return Text(name, self.symbols[start:stop])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All symbols, about a million at a time."""
        for start in range(0, len(self), CHUNK):
            yield np.asarray(self.symbols[start : start + CHUNK])


def read_text(path: Path, unit: Unit = "char") -> Text:
    """A text file, also .gz and .xz: UTF-8, or any bytes with `unit="byte"`."""
    path = Path(path)
    if not path.is_file():
        raise WordwaveError(f"there is no text file '{path}'")
    # The memory map keeps a temporary file after it is closed.
    with _decompressed(path) if path.suffix in (".gz", ".xz") else path.open("rb") as file:
        if file.seek(0, 2) == 0:
            raise WordwaveError(f"'{path}' must hold text, got an empty file")
        text = Text(f"'{path}'", np.memmap(file, np.uint8, mode="r"))
    if unit == "byte" or not any((chunk >= 128).any() for chunk in text.chunks()):
        return text
    with _code_points(text) as file:
        return Text(text.name, np.memmap(file, np.uint32, mode="r"))


def text_of(content: str, name: str, unit: Unit = "char") -> Text:
    """A text from a string."""
    if not content:
        raise WordwaveError(f"{name} must hold text, got none")
    if unit == "byte" or content.isascii():
        return Text(name, np.frombuffer(content.encode(), np.uint8))
    return Text(name, np.frombuffer(content.encode("utf-32-le"), np.uint32))


def _decompressed(path: Path) -> IO[bytes]:
    with naming_temporary():
        content = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with open_binary(path) as compressed:
            while chunk := compressed.read(CHUNK):
                with naming_temporary():
                    content.write(chunk)
    except DAMAGED as problem:
        raise WordwaveError(f"'{path}' is not a complete {path.suffix} file: {problem}") from None
    with naming_temporary():
        content.flush()
    return content


def _code_points(text: Text) -> IO[bytes]:
    """The code points of UTF-8 bytes, in UTF-32."""
    with naming_temporary():
        points = tempfile.TemporaryFile()  # noqa: SIM115
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_read = 0
    try:
        for chunk in text.chunks():
            content = decoder.decode(chunk.tobytes()).encode("utf-32-le")
            with naming_temporary():
                points.write(content)
            n_read += len(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as problem:
        where = n_read + problem.start - len(decoder.getstate()[0])
        raise WordwaveError(
            f"{text.name} must be UTF-8, got another byte near {max(where, 0):,}; "
            "use --unit byte for files of any encoding"
        ) from None
    with naming_temporary():
        points.flush()
    return points


class Alphabet:
    """The vocabulary of a character- or byte-level model.

    Bytes have their values as ids. Characters are those of the training set, numbered from 1; id 0
    is the unknown character.
    """

    def __init__(self, unit: Unit, characters: str = "") -> None:
        if unit not in ("char", "byte"):
            raise WordwaveError(f"unit must be 'char' or 'byte', got {clipped(unit)}")
        if len(set(characters)) < len(characters):
            raise WordwaveError(f"characters must differ, got {clipped(characters)}")
        self.unit: Unit = unit
        self.characters = characters
        self.letters: NDArray[np.bool_]
        """Which ids can be part of a word: letters, combining marks, digits, the unknown character
        and bytes outside ASCII. Shape: (V,)"""
        if unit == "byte":
            self._id_of = np.arange(256)
            self.letters = np.array([i > 127 or chr(i).isalnum() for i in range(256)])
        else:
            kinds = map(unicodedata.category, characters)
            self.letters = np.array([True, *(kind[0] in "LMN" for kind in kinds)])
            points = np.array([ord(c) for c in characters], np.int64)
            size = max(int(points.max(initial=0)) + 2, 257)
            self._id_of = np.full(size, UNKNOWN_CHARACTER_ID, np.int64)
            self._id_of[points] = np.arange(1, len(points) + 1)

    @classmethod
    def of(cls, text: Text, unit: Unit) -> Alphabet:
        """The alphabet of a text, sorted by code point."""
        if unit == "byte":
            return cls(unit)
        found: set[int] = set()
        for chunk in text.chunks():
            found.update(np.unique(chunk).tolist())
        return cls(unit, "".join(map(chr, sorted(found))))

    def __len__(self) -> int:
        return 256 if self.unit == "byte" else len(self.characters) + 1

    def letters_before(self, text: Text, position: int, limit: int) -> int:
        """The number of word characters right before a position of the text, up to a limit."""
        before = self.letters[self.ids(text.symbols[max(position - limit, 0) : position])]
        others = np.flatnonzero(~before)
        return len(before) - 1 - int(others[-1]) if len(others) else len(before)

    @property
    def names(self) -> list[str]:
        """A printable name of each symbol, by id."""
        if self.unit == "byte":
            return [repr(chr(i))[1:-1] if i < 127 else f"\\x{i:02x}" for i in range(256)]
        return ["<unk>", *(c if c.isprintable() and c != " " else repr(c) for c in self.characters)]

    def ids(self, symbols: NDArray[Any]) -> NDArray[np.int64]:
        """Ids of bytes or code points; 0 for unknown ones."""
        if symbols.itemsize > 1:
            symbols = np.minimum(symbols, len(self._id_of) - 1)  # the last one is always unknown
        return self._id_of[symbols]

    def encode(self, content: str) -> NDArray[np.int64]:
        """Ids of the characters, or UTF-8 bytes, of a string."""
        if not content:
            return np.zeros(0, np.int64)
        return self.ids(text_of(content, "text", self.unit).symbols)

    def n_unknown(self, text: Text) -> int:
        """The number of unknown characters in a text."""
        if self.unit == "byte":
            return 0
        return sum(int((self.ids(chunk) == UNKNOWN_CHARACTER_ID).sum()) for chunk in text.chunks())

    def decoder(self) -> Callable[[int], str]:
        """A function from ids, one after the other, to the text that each of them completes: bytes
        are buffered until they form a character."""
        if self.unit == "byte":
            utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
            return lambda symbol: utf8.decode(bytes([symbol]))
        characters = "\N{REPLACEMENT CHARACTER}" + self.characters
        return lambda symbol: characters[symbol]

    def to_dict(self) -> dict[str, str]:
        """A JSON-serialisable form; `from_dict` reads it."""
        return {"unit": self.unit, "characters": self.characters}

    @classmethod
    def from_dict(cls, saved: object) -> Alphabet:
        """The alphabet that `to_dict` wrote."""
        if not isinstance(saved, Mapping) or not isinstance(saved.get("characters"), str):
            raise WordwaveError(f"an alphabet is {{'unit', 'characters'}}, got {clipped(saved)}")
        return cls(saved.get("unit"), saved["characters"])  # type: ignore[arg-type]
