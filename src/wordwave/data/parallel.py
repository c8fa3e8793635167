"""Multi30k: where it comes from, how it is checked, whom to cite."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from wordwave.data.prepare import Progress, fetch
from wordwave.data.registry import Source, data_home
from wordwave.data.tables import read_headerless, read_texts
from wordwave.errors import WordwaveError

_RAW = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"


@dataclass(frozen=True)
class ParallelSet:
    """A set of translated sentences: a file a part and language, taken as they are."""

    name: str
    languages: tuple[str, str]
    parts: dict[str, str]
    """The beginning of the file names of train, dev and test."""
    rows: int
    sources: tuple[Source, ...]
    licence: str
    citation: str

    def file(self, part: str, language: str, *, home: Path | None = None) -> Path:
        """Where a part is in the data home."""
        return (home or data_home()) / self.name / f"{self.parts[part]}.{language}.gz"


def _multi30k(file: str, sha256: str) -> Source:
    return Source(file, _RAW + file, sha256)


MULTI30K = ParallelSet(
    "multi30k",
    ("en", "de"),
    {"train": "train", "dev": "val", "test": "test_2016_flickr"},
    31_014,
    (
        _multi30k(
            "train.en.gz", "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"
        ),
        _multi30k(
            "train.de.gz", "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"
        ),
        _multi30k("val.en.gz", "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
        _multi30k("val.de.gz", "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
        _multi30k(
            "test_2016_flickr.en.gz",
            "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        ),
        _multi30k(
            "test_2016_flickr.de.gz",
            "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        ),
    ),
    "none stated with the files; research use",
    "Elliott, Frank, Sima'an and Specia (2016), Multi30K: multilingual English-German image "
    "descriptions, Workshop on Vision and Language",
)

PARALLEL = {MULTI30K.name: MULTI30K}


def prepare_parallel(
    dataset: ParallelSet, *, home: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """Download those files of a set that are missing or wrong; returns the files made."""
    folder = (home or data_home()) / dataset.name
    made = []
    for source in dataset.sources:
        if parallel_state(dataset, source, home=home) != "ok":
            made.append(fetch(source, folder, progress=progress))
    return made


def parallel_state(
    dataset: ParallelSet, source: Source, *, home: Path | None = None
) -> Literal["ok", "missing", "wrong checksum"]:
    """How a file of a set stands in the data home."""
    path = (home or data_home()) / dataset.name / source.file
    if not path.is_file():
        return "missing"
    right = hashlib.sha256(path.read_bytes()).hexdigest() == source.sha256
    return "ok" if right else "wrong checksum"


BUILT_IN = "built-in"
BUILT_IN_FILE = Path(__file__).parent / "embed" / "homeassistant-2026.9.4.en-de.tsv.gz"
LANGUAGES = ("en", "de")
MOST_DEV = 1000


@dataclass(frozen=True)
class ParallelSentences:
    """Sentences and their translations, one for one."""

    sources: list[str] = field(repr=False)
    targets: list[str] = field(repr=False)
    name: str = "pairs"
    """Where they come from, for messages."""

    def __len__(self) -> int:
        return len(self.sources)

    def subset(self, rows: Iterable[int], name: str) -> ParallelSentences:
        chosen = list(rows)
        return ParallelSentences(
            [self.sources[i] for i in chosen], [self.targets[i] for i in chosen], name
        )

    def turned(self) -> ParallelSentences:
        """From the second language to the first."""
        return ParallelSentences(self.targets, self.sources, self.name)


@dataclass(frozen=True)
class ParallelSplits:
    """What to learn from, what to choose by, and what to report on."""

    train: ParallelSentences
    dev: ParallelSentences
    test: ParallelSentences | None

    def turned(self) -> ParallelSplits:
        """From the second language to the first."""
        test = None if self.test is None else self.test.turned()
        return ParallelSplits(self.train.turned(), self.dev.turned(), test)

    def fingerprint(self) -> str:
        """Differs where pairs differ."""
        digest = hashlib.sha256()
        for part in (self.train, self.dev, self.test):
            if part is not None:
                digest.update(repr((part.sources, part.targets)).encode())
        return digest.hexdigest()[:16]


def read_pairs(source: str | Path, target: str | Path) -> ParallelSentences:
    """Two text files, also .gz, whose lines are translations of each other, none of them empty."""
    sources, targets = [], []
    both = zip_longest(read_texts(source, form="txt"), read_texts(target, form="txt"))
    for line, (said, meant) in enumerate(both, start=1):
        if said is None or meant is None:
            short, long = (source, target) if said is None else (target, source)
            raise WordwaveError(
                f"'{source}' and '{target}' must have a line for each other's, but '{short}' "
                f"ends after {line - 1} lines and '{long}' goes on"
            )
        for file, text in ((source, said), (target, meant)):
            if not text.strip():
                raise WordwaveError(f"file '{file}': line {line} must hold a sentence, got nothing")
        sources.append(said)
        targets.append(meant)
    return ParallelSentences(sources, targets, str(source))


def cut_dev(
    pairs: ParallelSentences, *, seed: int = 0
) -> tuple[ParallelSentences, ParallelSentences]:
    """A tenth, but at most a thousand pairs, held out by chance."""
    n_held = min(max(len(pairs) // 10, 1), MOST_DEV)
    if len(pairs) < 2:
        raise WordwaveError(f"{pairs.name} must hold two pairs or more, got {len(pairs)}")
    held = set(random.Random(seed).sample(range(len(pairs)), n_held))
    rest = (i for i in range(len(pairs)) if i not in held)
    return pairs.subset(rest, pairs.name), pairs.subset(sorted(held), f"dev part of {pairs.name}")


def load_named(name: str, source_language: str, target_language: str) -> ParallelSplits:
    """The parts of a set by name, in the direction asked for."""
    known = PARALLEL[name].languages if name in PARALLEL else LANGUAGES
    if {source_language, target_language} != set(known):
        raise WordwaveError(
            f"{name} translates between {' and '.join(known)}, got source_language "
            f"{source_language!r} and target_language {target_language!r}"
        )
    parts = _built_in() if name == BUILT_IN else _catalogued(PARALLEL[name])
    return parts if source_language == known[0] else parts.turned()


def _catalogued(dataset: ParallelSet) -> ParallelSplits:
    def part(role: str) -> ParallelSentences:
        files = [dataset.file(role, language) for language in dataset.languages]
        for file in files:
            if not file.is_file():
                raise WordwaveError(
                    f"'{file}' is not there; run `wordwave data prepare {dataset.name}`"
                )
        pairs = read_pairs(*files)
        return ParallelSentences(
            pairs.sources, pairs.targets, f"{dataset.name} {dataset.parts[role]}"
        )

    return ParallelSplits(part("train"), part("dev"), part("test"))


def _built_in() -> ParallelSplits:
    """Every 34th sentence is for testing and every 34th for choosing.

    The sentence itself decides, so that one which comes twice never stands in two parts.
    """
    examples = read_headerless(BUILT_IN_FILE)
    pairs = ParallelSentences(examples.labels, examples.texts, BUILT_IN)
    lot = [zlib.crc32(text.lower().encode()) % 34 for text in pairs.sources]

    def part(name: str, *lots: int) -> ParallelSentences:
        return pairs.subset((i for i, n in enumerate(lot) if n in lots), f"{BUILT_IN} {name}")

    return ParallelSplits(part("train", *range(2, 34)), part("dev", 1), part("test", 0))


def first_release(name: str) -> list[str] | None:
    """The test sentences in German as they first came out, which papers of 2016 to 2020 used, if
    they are in the data home: multi30k/paper/test.de.gz, not to be had by `data prepare`."""
    if name not in PARALLEL:
        return None
    file = PARALLEL[name].file("test", "de").parent / "paper" / "test.de.gz"
    return list(read_texts(file, form="txt")) if file.is_file() else None
