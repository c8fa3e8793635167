"""Corpora for language modelling: text8, enwik8, a built-in text and files, split in three."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from wordwave.data.characters import Text, Unit, read_text, text_of
from wordwave.data.registry import DataSet, catalogue, names
from wordwave.errors import WordwaveError, suggestion

BUILT_IN = "python-help"
"""The help on Python's topics that comes with Python: about 460,000 characters of English."""
SHARES = (90, 5, 5)
"""Proportions of the training, validation and test sets."""
MIN_LENGTH = 40
"""Characters of the shortest text whose three splits have two characters or more."""
N_SAMPLES, SAMPLE_LENGTH = 64, 4096
"""A fingerprint hashes this number of samples of a split, each of this length."""


@dataclass(frozen=True)
class TextSplits:
    """The training, validation and test sets of a long text."""

    train: Text
    valid: Text
    test: Text
    unit: Unit
    """What their symbols are."""

    def fingerprint(self) -> str:
        """A hash of sizes and samples: a text may be too long to hash it all."""
        digest = hashlib.sha256()
        for text in (self.train, self.valid, self.test):
            digest.update(f"{len(text)}:".encode())
            for start in range(0, len(text), max(len(text) // N_SAMPLES, 1)):
                digest.update(text.symbols[start : start + SAMPLE_LENGTH].tobytes())
        return digest.hexdigest()[:16]


def corpus_names() -> tuple[str, ...]:
    """The texts that have a name."""
    return (BUILT_IN, *names("language-modelling"))


def load_text(data: str, unit: Unit | None = None) -> TextSplits:
    """A corpus by name, or a file, split into training, validation and test sets.

    text8 and enwik8 are split into 90, 5 and 5 million symbols, the first 69 million of text8 into
    60, 4 and 5, any other text into 90%, 5% and 5%.
    """
    if data in names("language-modelling"):
        dataset = catalogue()[data]
        unit = unit or dataset.unit
        return split(_read_corpus(dataset, unit), unit, dataset.local_files()[0].shares)
    unit = unit or "char"
    if data == BUILT_IN:
        return split(text_of(python_help(), BUILT_IN, unit), unit)
    path = Path(data)
    is_name = not path.suffix and len(path.parts) == 1
    hint = suggestion(data, corpus_names()) if is_name else ""
    if hint and not path.exists():
        raise WordwaveError(f"there is no corpus or file {data!r}{hint}")
    return split(read_text(path, unit), unit)


def _read_corpus(dataset: DataSet, unit: Unit) -> Text:
    """The text of a corpus in the data home; a checksum is computed of an excerpt only."""
    (file,) = dataset.local_files()
    path = dataset.path(file)
    text = read_text(path, unit)
    if file is dataset.excerpt:
        digest = hashlib.sha256()
        for chunk in text.chunks():
            digest.update(chunk.tobytes())
        if digest.hexdigest() != file.sha256:
            raise WordwaveError(
                f"'{path}': its {len(text):,} characters must have the sha256 "
                f"{file.sha256[:12]}…, got {digest.hexdigest()[:12]}…"
            )
    elif path.stat().st_size != file.size:
        raise WordwaveError(
            f"'{path}' must have {file.size:,} bytes, got {path.stat().st_size:,}; "
            f"run `wordwave data prepare {dataset.name}`"
        )
    return text


def split(text: Text, unit: Unit, shares: tuple[int, int, int] = SHARES) -> TextSplits:
    """Split a text into three consecutive slices."""
    if len(text) < MIN_LENGTH:
        raise WordwaveError(
            f"{text.name} must hold at least {MIN_LENGTH} characters, for a training, a validation "
            f"and a test set, got {len(text)}"
        )
    ends = [len(text) * sum(shares[: i + 1]) // sum(shares) for i in range(3)]
    train, valid, test = (
        text.part(start, end, f"the {name} set of {text.name}")
        for start, end, name in zip(
            [0, *ends], ends, ("training", "validation", "test"), strict=False
        )
    )
    return TextSplits(train, valid, test, unit)


def python_help() -> str:
    """The text of `help()` on all topics of this version of Python."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))
