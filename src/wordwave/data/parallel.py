"""Parallel text for translation: by name, built in, or from two aligned files."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from wordwave.data.registry import BUILT_IN, BUILT_IN_FOLDER, dataset_named
from wordwave.data.tables import PartsOf, Rows, read_prepared, read_texts
from wordwave.errors import WordwaveError

BUILT_IN_FILE = BUILT_IN_FOLDER / "homeassistant-2026.9.4.en-de.tsv.gz"
BUILT_IN_LANGUAGES = ("en", "de")
MAX_DEV_PAIRS = 1000


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
    rest = (i for i in range(len(pairs)) if i not in held_out)
    dev = pairs.subset(sorted(held_out), f"validation set of {pairs.name}")
    return pairs.subset(rest, pairs.name), dev


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
    sides = (examples.texts, examples.labels) if reverse else (examples.labels, examples.texts)
    pairs = ParallelSentences(*sides, BUILT_IN)
    rows: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for row, english in enumerate(examples.labels):
        bucket = zlib.crc32(english.lower().encode()) % 34
        rows["test" if bucket == 0 else "dev" if bucket == 1 else "train"].append(row)
    return ParallelSplits(*(pairs.subset(rows[name], f"built-in {name}") for name in rows))
