"""Corpora for language modelling: text8, enwik8, a built-in text and files, split in three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wordwave.data.characters import Text, Unit, read_text, text_of
from wordwave.data.registry import DataFile, DataSet, catalogue, names
from wordwave.errors import WordwaveError, suggestion
from wordwave.files import sha256_of

BUILT_IN = "python-help"
"""The help on Python's topics that comes with Python: about 460,000 characters of English."""
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

        def samples() -> Iterator[bytes]:
            for text in (self.train, self.valid, self.test):
                yield f"{len(text)}:".encode()
                for start in range(0, len(text), max(len(text) // N_SAMPLES, 1)):
                    yield text.symbols[start : start + SAMPLE_LENGTH].tobytes()

        return sha256_of(samples())[:16]


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
        (file,) = dataset.local_files()
        unit = unit or dataset.unit
        return split(_read_corpus(dataset, file, unit), unit, file.shares)
    unit = unit or "char"
    if data == BUILT_IN:
        from pydoc_data.topics import topics

        content = "\n\n".join(topics[name].strip() for name in sorted(topics))
        return split(text_of(content, BUILT_IN, unit), unit)
    path = Path(data)
    is_name = not path.suffix and len(path.parts) == 1
    hint = suggestion(data, corpus_names()) if is_name else ""
    if hint and not path.exists():
        raise WordwaveError(f"there is no corpus or file {data!r}{hint}")
    return split(read_text(path, unit), unit)


def _read_corpus(dataset: DataSet, file: DataFile, unit: Unit) -> Text:
    """The text of a corpus in the data home; a checksum is computed of an excerpt only."""
    path = dataset.path(file)
    text = read_text(path, unit)
    if file is dataset.excerpt:
        if (got := sha256_of(map(bytes, text.chunks()))) != file.sha256:
            raise WordwaveError(
                f"'{path}': its {len(text):,} characters must have the sha256 "
                f"{file.sha256[:12]}…, got {got[:12]}…"
            )
    elif path.stat().st_size != file.size:
        raise WordwaveError(
            f"'{path}' must have {file.size:,} bytes, got {path.stat().st_size:,}; "
            f"run `wordwave data prepare {dataset.name}`"
        )
    return text


def split(text: Text, unit: Unit, shares: tuple[int, int, int] = (90, 5, 5)) -> TextSplits:
    """Split a text into three consecutive slices of these proportions."""
    if len(text) < MIN_LENGTH:
        raise WordwaveError(
            f"{text.name} must hold at least {MIN_LENGTH} characters, for a training, a validation "
            f"and a test set, got {len(text)}"
        )
    valid = len(text) * shares[0] // sum(shares)
    test = len(text) * (shares[0] + shares[1]) // sum(shares)
    return TextSplits(
        text.part(0, valid, f"the training set of {text.name}"),
        text.part(valid, test, f"the validation set of {text.name}"),
        text.part(test, len(text), f"the test set of {text.name}"),
        unit,
    )
