"""Sentences and their translations: the built-in set, one by name, or two aligned files."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from wordwave.data.parallel_catalogue import PARALLEL, ParallelSet
from wordwave.data.tables import read_headerless, read_texts

BUILT_IN = "built-in"
BUILT_IN_FILE = Path(__file__).parent / "embed" / "homeassistant-2026.9.4.en-de.tsv.gz"
LANGUAGES = ("en", "de")
MOST_DEV = 1000


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, one for one."""

    sources: list[str] = field(repr=False)
    targets: list[str] = field(repr=False)
    name: str = "pairs"
    """Where they come from, for messages."""

    def __len__(self) -> int:
        return len(self.sources)

    def subset(self, rows: Iterable[int], name: str) -> Pairs:
        chosen = list(rows)
        return Pairs([self.sources[i] for i in chosen], [self.targets[i] for i in chosen], name)

    def turned(self) -> Pairs:
        """From the second language to the first."""
        return Pairs(self.targets, self.sources, self.name)


@dataclass(frozen=True)
class ParallelParts:
    """What to learn from, what to choose by, and what to report on."""

    train: Pairs
    dev: Pairs
    test: Pairs | None

    def turned(self) -> ParallelParts:
        """From the second language to the first."""
        test = None if self.test is None else self.test.turned()
        return ParallelParts(self.train.turned(), self.dev.turned(), test)

    def fingerprint(self) -> str:
        """Differs where pairs differ."""
        digest = hashlib.sha256()
        for part in (self.train, self.dev, self.test):
            if part is not None:
                digest.update(repr((part.sources, part.targets)).encode())
        return digest.hexdigest()[:16]


def read_pairs(source: str | Path, target: str | Path) -> Pairs:
    """Two text files, also .gz, whose lines are translations of each other, none of them empty."""
    sources, targets = [], []
    both = zip_longest(read_texts(source, form="txt"), read_texts(target, form="txt"))
    for line, (said, meant) in enumerate(both, start=1):
        if said is None or meant is None:
            short, long = (source, target) if said is None else (target, source)
            raise ValueError(
                f"'{source}' and '{target}' must have a line for each other's, but '{short}' "
                f"ends after {line - 1} lines and '{long}' goes on"
            )
        for file, text in ((source, said), (target, meant)):
            if not text.strip():
                raise ValueError(f"file '{file}': line {line} must hold a sentence, got nothing")
        sources.append(said)
        targets.append(meant)
    return Pairs(sources, targets, str(source))


def cut_dev(pairs: Pairs, *, seed: int = 0) -> tuple[Pairs, Pairs]:
    """A tenth, but at most a thousand pairs, held out by chance."""
    n_held = min(max(len(pairs) // 10, 1), MOST_DEV)
    if len(pairs) < 2:
        raise ValueError(f"{pairs.name} must hold two pairs or more, got {len(pairs)}")
    held = set(random.Random(seed).sample(range(len(pairs)), n_held))
    rest = (i for i in range(len(pairs)) if i not in held)
    return pairs.subset(rest, pairs.name), pairs.subset(sorted(held), f"dev part of {pairs.name}")


def load_named(name: str, source_language: str, target_language: str) -> ParallelParts:
    """The parts of a set by name, in the direction asked for."""
    known = PARALLEL[name].languages if name in PARALLEL else LANGUAGES
    if {source_language, target_language} != set(known):
        raise ValueError(
            f"{name} translates between {' and '.join(known)}, got source_language "
            f"{source_language!r} and target_language {target_language!r}"
        )
    parts = _built_in() if name == BUILT_IN else _catalogued(PARALLEL[name])
    return parts if source_language == known[0] else parts.turned()


def _catalogued(dataset: ParallelSet) -> ParallelParts:
    def part(role: str) -> Pairs:
        files = [dataset.file(role, language) for language in dataset.languages]
        for file in files:
            if not file.is_file():
                raise ValueError(
                    f"'{file}' is not there; run `wordwave data prepare {dataset.name}`"
                )
        pairs = read_pairs(*files)
        return Pairs(pairs.sources, pairs.targets, f"{dataset.name} {dataset.parts[role]}")

    return ParallelParts(part("train"), part("dev"), part("test"))


def _built_in() -> ParallelParts:
    """Every 34th sentence is for testing and every 34th for choosing.

    The sentence itself decides, so that one which comes twice never stands in two parts.
    """
    examples = read_headerless(BUILT_IN_FILE)
    pairs = Pairs(examples.labels, examples.texts, BUILT_IN)
    lot = [zlib.crc32(text.lower().encode()) % 34 for text in pairs.sources]

    def part(name: str, *lots: int) -> Pairs:
        return pairs.subset((i for i, n in enumerate(lot) if n in lots), f"{BUILT_IN} {name}")

    return ParallelParts(part("train", *range(2, 34)), part("dev", 1), part("test", 0))


def first_release(name: str) -> list[str] | None:
    """The test sentences in German as they first came out, which papers of 2016 to 2020 used, if
    they are in the data home: multi30k/paper/test.de.gz, not to be had by `data prepare`."""
    if name not in PARALLEL:
        return None
    file = PARALLEL[name].file("test", "de").parent / "paper" / "test.de.gz"
    return list(read_texts(file, form="txt")) if file.is_file() else None
