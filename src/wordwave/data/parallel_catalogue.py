"""Multi30k: where it comes from, how it is checked, whom to cite."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wordwave.data.catalogue import Source
from wordwave.data.home import data_home
from wordwave.data.prepare import Progress, fetch

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
