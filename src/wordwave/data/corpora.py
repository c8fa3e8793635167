"""Texts to learn a language from: by name, built in, or a file; each in three parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from wordwave.data.characters import Text, Unit, read_text, text_of
from wordwave.data.corpus_catalogue import CORPORA, FIRST_69M, corpus_file, read_corpus
from wordwave.names import suggestion

BUILT_IN = "python-help"
"""The help on Python's topics that comes with Python: about 460,000 characters of English."""
SHARES, FIRST_69M_SHARES = (90, 5, 5), (60, 4, 5)
"""How much of a text is for training, for selection and for the test."""
SHORTEST = 40
"""Characters of a text of which each part has two."""
SAMPLES, SAMPLE = 64, 4096
"""A fingerprint looks at so many places of a part, and at so many symbols there."""


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
        text, path = read_corpus(corpus, unit), corpus_file(corpus)
        return split(text, unit, FIRST_69M_SHARES if path.name == FIRST_69M else SHARES)
    unit = unit or "char"
    if data == BUILT_IN:
        return split(text_of(python_help(), BUILT_IN, unit), unit)
    path = Path(data)
    is_bare = not path.suffix and len(path.parts) == 1
    hint = suggestion(data, [BUILT_IN, *CORPORA]) if is_bare else ""
    if hint and not path.exists():
        raise ValueError(f"there is no corpus or file {data!r}{hint}")
    return split(read_text(path, unit), unit)


def split(text: Text, unit: Unit, shares: tuple[int, int, int] = SHARES) -> TextParts:
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


def python_help() -> str:
    """What `help()` of this Python says on each of its topics."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))
