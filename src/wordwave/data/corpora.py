"""Texts to learn a language from: by name, built in, or a file; each in three parts."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wordwave.data.catalogue import Source
from wordwave.data.characters import CHUNK, Text, Unit, read_text, text_of
from wordwave.data.home import data_home
from wordwave.data.prepare import fetch
from wordwave.files import write_whole
from wordwave.names import suggestion

BUILT_IN = "python-help"
"""The help on Python's topics that comes with Python: about 460,000 characters of English."""
MILLION = 1_000_000
SHORTEST = 40
"""Characters of a text of which each part has two."""
SAMPLES, SAMPLE = 64, 4096
"""A fingerprint looks at so many places of a part, and at so many symbols there."""


@dataclass(frozen=True)
class Corpus:
    """A public text by name, unpacked in a folder of its name in the data home."""

    name: str
    url: str
    size: int
    """Bytes of the whole text."""
    sha256: str
    """Of the whole text."""
    unit: Unit
    licence: str
    citation: str


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "text8",
            "http://mattmahoney.net/dc/text8.zip",
            100 * MILLION,
            "6e890197040d37d85beb962ae1f041ff1d9a9ca8d20c7d99c85027eebf51dca7",
            "char",
            "CC BY-SA 3.0 and GFDL (Wikipedia)",
            "Mahoney (2011), Large text compression benchmark; split of Mikolov et al. (2012)",
        ),
        Corpus(
            "enwik8",
            "http://mattmahoney.net/dc/enwik8.zip",
            100 * MILLION,
            "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
            "byte",
            "CC BY-SA 3.0 and GFDL (Wikipedia)",
            "Mahoney (2011), Large text compression benchmark",
        ),
    )
}
FIRST_69M = "text8.first69M.xz"
"""The first 69 million characters of text8, which may stand for it."""
FIRST_69M_SHA256 = "5a8ab37ccc834f09479cf12e84cc4c817191ad8ee15dfde2a476a8e80d7071da"
"""Of these characters, unpacked."""


@dataclass(frozen=True)
class TextParts:
    """What is learnt from, what selects, and what is scored once."""

    train: Text
    valid: Text
    test: Text
    unit: Unit
    """What they are read in."""

    def fingerprint(self) -> str:
        """Differs where sizes or samples differ: a text may be too large to read it all."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid, self.test):
            digest.update(f"{len(part)}:".encode())
            for start in range(0, len(part), max(len(part) // SAMPLES, 1)):
                digest.update(part.symbols[start : start + SAMPLE].tobytes())
        return digest.hexdigest()[:16]


def load_text(data: str, unit: Unit | None = None) -> TextParts:
    """A corpus by name or a file, cut into parts.

    text8 and enwik8: 90, 5 and 5 million symbols; of the first 69 million of text8 60, 4 and 5; of
    any other text 90, 5 and 5 hundredths.
    """
    if data in CORPORA:
        corpus = CORPORA[data]
        unit = unit or corpus.unit
        path = corpus_file(corpus)
        text = read_text(path, unit)
        if path.name != FIRST_69M and path.stat().st_size != corpus.size:
            raise ValueError(
                f"'{path}' must have {corpus.size:,} bytes, got {path.stat().st_size:,}: "
                f"wordwave data prepare {corpus.name} mends it"
            )
        if path.name == FIRST_69M:
            _check_sha256(text, FIRST_69M_SHA256, path)
            return split(text, unit, (60, 4, 5))
        return split(text, unit)
    unit = unit or "char"
    if data == BUILT_IN:
        return split(text_of(python_help(), BUILT_IN, unit), unit)
    path = Path(data)
    is_bare = not path.suffix and len(path.parts) == 1
    hint = suggestion(data, [BUILT_IN, *CORPORA]) if is_bare else ""
    if hint and not path.exists():
        raise ValueError(f"there is no corpus or file {data!r}{hint}")
    return split(read_text(path, unit), unit)


def split(text: Text, unit: Unit, shares: tuple[int, int, int] = (90, 5, 5)) -> TextParts:
    """Cut a text into three parts, one after the other."""
    if len(text) < SHORTEST:
        raise ValueError(
            f"{text.name} must hold at least {SHORTEST} characters, to train, select and test on, "
            f"got {len(text)}"
        )
    ends = [len(text) * sum(shares[: i + 1]) // sum(shares) for i in range(3)]
    starts = [0, *ends[:2]]
    names = ("training", "valid", "test")
    train, valid, test = (
        text.part(start, end, f"the {part} part of {text.name}")
        for start, end, part in zip(starts, ends, names, strict=True)
    )
    return TextParts(train, valid, test, unit)


def corpus_file(corpus: Corpus, home: Path | None = None) -> Path:
    """Where a corpus lies in the data home."""
    folder = (home or data_home()) / corpus.name
    whole = folder / corpus.name
    if whole.is_file():
        return whole
    if corpus.name == "text8" and (folder / FIRST_69M).is_file():
        return folder / FIRST_69M
    raise ValueError(
        f"{corpus.name} is not in the data home '{folder.parent}': "
        f"wordwave data prepare {corpus.name} downloads it"
    )


def corpus_state(
    corpus: Corpus, home: Path | None = None
) -> Literal["ok", "missing", "wrong checksum"]:
    """How the whole text of a corpus stands in the data home."""
    path = (home or data_home()) / corpus.name / corpus.name
    if not path.is_file():
        return "missing"
    try:
        _check_sha256(read_text(path, "byte"), corpus.sha256, path)
    except ValueError:
        return "wrong checksum"
    return "ok"


def prepare_corpus(
    corpus: Corpus,
    *,
    home: Path | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[Path]:
    """Download and unpack a corpus unless it is there; returns the files made."""
    folder = home or data_home()
    path = folder / corpus.name / corpus.name
    if corpus_state(corpus, folder) == "ok":
        return []
    source = Source(f"{corpus.name}.zip", corpus.url, sha256=None)
    packed = fetch(source, folder / "raw", progress=progress)

    def unpack(new: Path) -> None:
        try:
            with zipfile.ZipFile(packed) as archive, archive.open(corpus.name) as member:
                size = 0
                with new.open("wb") as file:
                    while (chunk := member.read(CHUNK)) and size <= corpus.size:
                        size += file.write(chunk)
        except (zipfile.BadZipFile, KeyError, EOFError) as problem:
            packed.unlink(missing_ok=True)
            raise ValueError(f"'{packed}' is not the zip of {corpus.name}: {problem}") from None
        if size != corpus.size:
            packed.unlink(missing_ok=True)
            raise ValueError(
                f"{corpus.name} must have {corpus.size:,} bytes, got {size:,}; it was not kept"
            )
        try:
            _check_sha256(read_text(new, "byte"), corpus.sha256, packed)
        except ValueError:
            packed.unlink(missing_ok=True)
            raise

    write_whole(path, unpack)
    return [path]


def _check_sha256(text: Text, expected: str, path: Path) -> None:
    digest = hashlib.sha256()
    for chunk in text.chunks():
        digest.update(chunk.tobytes())
    if digest.hexdigest() != expected:
        raise ValueError(
            f"'{path}': its {len(text):,} characters must have the sha256 {expected[:12]}…, "
            f"got {digest.hexdigest()[:12]}…"
        )


def python_help() -> str:
    """What `help()` of this Python says on each of its topics."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))
