"""Public texts to learn a language from: where they come from and how their files are checked."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wordwave.data.characters import CHUNK, Text, Unit, read_text, text_of
from wordwave.data.prepare import fetch
from wordwave.data.registry import Source, data_home
from wordwave.errors import WordwaveError, suggestion
from wordwave.files import write_whole

MILLION = 1_000_000
State = Literal["ok", "missing", "wrong checksum"]


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


def corpus_file(corpus: Corpus, home: Path | None = None) -> Path:
    """Where a corpus lies in the data home."""
    folder = (home or data_home()) / corpus.name
    whole = folder / corpus.name
    if whole.is_file():
        return whole
    if corpus.name == "text8" and (folder / FIRST_69M).is_file():
        return folder / FIRST_69M
    raise WordwaveError(
        f"{corpus.name} is not in the data home '{folder.parent}': "
        f"wordwave data prepare {corpus.name} downloads it"
    )


def read_corpus(corpus: Corpus, unit: Unit) -> Text:
    """The text of a corpus from the data home; of the whole the size is checked."""
    path = corpus_file(corpus)
    text = read_text(path, unit)
    if path.name == FIRST_69M:
        _check_sha256(text, FIRST_69M_SHA256, path)
    elif path.stat().st_size != corpus.size:
        raise WordwaveError(
            f"'{path}' must have {corpus.size:,} bytes, got {path.stat().st_size:,}: "
            f"wordwave data prepare {corpus.name} mends it"
        )
    return text


def corpus_state(corpus: Corpus, home: Path | None = None) -> State:
    """How the whole text of a corpus stands in the data home."""
    return _state((home or data_home()) / corpus.name / corpus.name, corpus.sha256)


def corpus_states(corpus: Corpus) -> dict[str, Callable[[], State]]:
    """The file that `corpus_file` finds in the data home or misses there, and how it stands."""
    file, sha256 = f"{corpus.name}/{corpus.name}", corpus.sha256
    with suppress(ValueError):
        if corpus_file(corpus).name == FIRST_69M:
            file, sha256 = f"{corpus.name}/{FIRST_69M}", FIRST_69M_SHA256
    return {file: lambda: _state(data_home() / file, sha256)}


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
            raise WordwaveError(f"'{packed}' is not the zip of {corpus.name}: {problem}") from None
        if size != corpus.size:
            packed.unlink(missing_ok=True)
            raise WordwaveError(
                f"{corpus.name} must have {corpus.size:,} bytes, got {size:,}; it was not kept"
            )
        try:
            _check_sha256(read_text(new, "byte"), corpus.sha256, packed)
        except ValueError:
            packed.unlink(missing_ok=True)
            raise

    write_whole(path, unpack)
    return [path]


def _state(path: Path, sha256: str) -> State:
    if not path.is_file():
        return "missing"
    try:
        _check_sha256(read_text(path, "byte"), sha256, path)
    except ValueError:
        return "wrong checksum"
    return "ok"


def _check_sha256(text: Text, expected: str, path: Path) -> None:
    digest = hashlib.sha256()
    for chunk in text.chunks():
        digest.update(chunk.tobytes())
    if digest.hexdigest() != expected:
        raise WordwaveError(
            f"'{path}': its {len(text):,} characters must have the sha256 {expected[:12]}…, "
            f"got {digest.hexdigest()[:12]}…"
        )


BUILT_IN = "python-help"
"""The help on Python's topics that comes with Python: about 460,000 characters of English."""
SHARES, FIRST_69M_SHARES = (90, 5, 5), (60, 4, 5)
"""How much of a text is for training, for selection and for the test."""
SHORTEST = 40
"""Characters of a text of which each part has two."""
SAMPLES, SAMPLE = 64, 4096
"""A fingerprint looks at so many places of a part, and at so many symbols there."""


@dataclass(frozen=True)
class TextSplits:
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


def load_text(data: str, unit: Unit | None = None) -> TextSplits:
    """A corpus by name or a file, cut into parts.

    text8 and enwik8: 90, 5 and 5 million symbols; of the first 69 million of text8 60, 4 and 5; of
    any other text 90, 5 and 5 hundredths.
    """
    if data in CORPORA:
        corpus = CORPORA[data]
        unit = unit or corpus.unit
        text, path = read_corpus(corpus, unit), corpus_file(corpus)
        return split(text, unit, FIRST_69M_SHARES if path.name == FIRST_69M else SHARES)
    unit = unit or "char"
    if data == BUILT_IN:
        return split(text_of(python_help(), BUILT_IN, unit), unit)
    path = Path(data)
    is_bare = not path.suffix and len(path.parts) == 1
    hint = suggestion(data, [BUILT_IN, *CORPORA]) if is_bare else ""
    if hint and not path.exists():
        raise WordwaveError(f"there is no corpus or file {data!r}{hint}")
    return split(read_text(path, unit), unit)


def split(text: Text, unit: Unit, shares: tuple[int, int, int] = SHARES) -> TextSplits:
    """Cut a text into three parts, one after the other."""
    if len(text) < SHORTEST:
        raise WordwaveError(
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
    return TextSplits(train, valid, test, unit)


def python_help() -> str:
    """What `help()` of this Python says on each of its topics."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))
