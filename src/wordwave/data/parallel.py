"""Parallel text for translation: by name, built in, or from two aligned files."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from wordwave.data.examples import PartsOf, Rows
from wordwave.data.registry import BUILT_IN, BUILT_IN_FOLDER, dataset_named, names
from wordwave.data.tables import read_prepared, read_texts
from wordwave.errors import WordwaveError, unknown

BUILT_IN_FILE = BUILT_IN_FOLDER / "homeassistant-2026.9.4.en-de.tsv.gz"
BUILT_IN_LANGUAGES = ("en", "de")
MAX_DEV_PAIRS = 1000


@dataclass(frozen=True)
class ParallelDataConfig:
    """The sentence pairs of a translation model."""

    data: str = BUILT_IN
    """built-in (user-interface sentences, no download) or multi30k; ignored with --source."""
    source: str | None = None
    """A text file of your own, one sentence per line, also .gz."""
    target: str | None = None
    """Its translation, line by line."""
    dev_source: str | None = None
    """Validation set: sentences to select the best weights by; by default a tenth of the pairs, at
    most 1,000."""
    dev_target: str | None = None
    """Their translations."""
    test_source: str | None = None
    """Test set: sentences that are translated and scored once, at the end."""
    test_target: str | None = None
    """Their translations."""
    source_language: str = "en"
    """Code of the source language, such as en or pt-br; the named data sets have en and de.
    Languages without Moses rules use the English ones."""
    target_language: str = "de"
    """Code of the target language."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = (getattr(self, name) for pair in PAIRS for name in pair)
        return tuple(name for name in named if name)

    @property
    def name(self) -> str:
        """Of the data set, or of the source file."""
        return self.data if self.source is None else Path(self.source).name.split(".")[0]

    def __post_init__(self) -> None:
        for one, other in PAIRS:
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise WordwaveError(f"{one} and {other} go together, got only one of them")
        if self.source is None and (self.dev_source or self.test_source):
            raise WordwaveError(f"dev_source and test_source need source, got data {self.data!r}")
        for name in ("source_language", "target_language"):
            if not re.fullmatch("[a-z]{2,3}([-_][A-Za-z]+)?", getattr(self, name)):
                raise WordwaveError(
                    f"{name} must be a code of two or three small letters such as de, "
                    f"got {getattr(self, name)!r}"
                )


PAIRS = (("source", "target"), ("dev_source", "dev_target"), ("test_source", "test_target"))
"""The settings that name two files, line by line each other's translation."""


@dataclass(frozen=True)
class ParallelSentences(Rows):
    """Sentences and their translations; sentence i of one is that of the other."""

    sources: list[str] = field(repr=False)
    targets: list[str] = field(repr=False)
    name: str = "pairs"
    """Where they come from, for messages."""


@dataclass(frozen=True)
class ParallelSplits(PartsOf[ParallelSentences]):
    """The training, validation and test pairs."""

    dev: ParallelSentences


def read_pairs(source: str | Path, target: str | Path) -> ParallelSentences:
    """Two text files, also .gz, aligned line by line; no line may be empty."""
    sources, targets = [], []
    both = zip_longest(read_texts(source, form="txt"), read_texts(target, form="txt"))
    for line, pair in enumerate(both, start=1):
        if None in pair:
            short, long = (source, target) if pair[0] is None else (target, source)
            raise WordwaveError(
                f"'{source}' and '{target}' must have the same number of lines, but '{short}' "
                f"ends after {line - 1} lines and '{long}' goes on"
            )
        for file, text in zip((source, target), pair, strict=True):
            if not text.strip():
                raise WordwaveError(f"file '{file}': line {line} must hold a sentence, got nothing")
        sources.append(pair[0])
        targets.append(pair[1])
    return ParallelSentences(sources, targets, str(source))


def cut_dev(
    pairs: ParallelSentences, *, seed: int = 0
) -> tuple[ParallelSentences, ParallelSentences]:
    """A random tenth, at most a thousand pairs, is held out as the validation set."""
    if len(pairs) < 2:
        raise WordwaveError(f"{pairs.name} must hold two pairs or more, got {len(pairs)}")
    n_held_out = min(max(len(pairs) // 10, 1), MAX_DEV_PAIRS)
    held_out = set(random.Random(seed).sample(range(len(pairs)), n_held_out))
    rest = [i for i in range(len(pairs)) if i not in held_out]
    dev = pairs.subset(sorted(held_out), f"validation set of {pairs.name}")
    return pairs.subset(rest, pairs.name), dev


def load_pairs(data: ParallelDataConfig) -> ParallelSplits:
    """Training, validation and test set; the last is `None` where none is named."""
    if data.source is None:
        known = (BUILT_IN, *names("translation"))
        if data.data not in known:
            raise WordwaveError(
                f"{unknown('data', data.data, known)}; files of your own are named by --source "
                "and --target"
            )
        return load_named(data.data, data.source_language, data.target_language)
    train, dev, test = (
        read_pairs(getattr(data, one), getattr(data, other)) if getattr(data, one) else None
        for one, other in PAIRS
    )
    assert train is not None
    return ParallelSplits(*(cut_dev(train) if dev is None else (train, dev)), test)


def load_named(name: str, source_language: str, target_language: str) -> ParallelSplits:
    """The splits of a data set by name, in the direction asked for."""
    dataset = None if name == BUILT_IN else dataset_named(name, "translation")
    languages = BUILT_IN_LANGUAGES if dataset is None else dataset.languages
    wanted = (source_language, target_language)
    if set(wanted) != set(languages):
        raise WordwaveError(
            f"{name} translates between {' and '.join(languages)}, got source_language "
            f"{source_language!r} and target_language {target_language!r}"
        )
    if dataset is None:
        return _built_in(reverse=wanted != BUILT_IN_LANGUAGES)
    splits = []
    for split in ("train", "dev", "test"):
        source, target = (dataset.path(dataset.file(split, language)) for language in wanted)
        pairs = read_pairs(source, target)
        splits.append(replace(pairs, name=f"{name} {source.name.partition('.')[0]}"))
    return ParallelSplits(*splits)


def _built_in(*, reverse: bool) -> ParallelSplits:
    """Of 34 sentences one is for the test set and one for the validation set.

    A hash of the sentence decides, so that one which occurs twice is never in two splits.
    """
    examples = read_prepared(BUILT_IN_FILE)
    german, english = list(examples.texts), list(examples.labels)
    sides = (german, english) if reverse else (english, german)
    pairs = ParallelSentences(*sides, BUILT_IN)
    rows: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for row, sentence in enumerate(english):
        bucket = zlib.crc32(sentence.lower().encode()) % 34
        rows["test" if bucket == 0 else "dev" if bucket == 1 else "train"].append(row)
    return ParallelSplits(*(pairs.subset(rows[name], f"built-in {name}") for name in rows))
