"""The registry of data sets: the facts in `catalogue.json`, and where the files are on disk.

To add a data set, add an entry to `catalogue.json`; the fields are those of the classes below.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from wordwave.config_io import from_dict
from wordwave.errors import WordwaveError, unknown

Task = Literal["classification", "matching", "translation", "language-modelling"]
BUILT_IN = "built-in"
"""The name of the pairs that come with wordwave, for translation and for matching."""
BUILT_IN_FOLDER = Path(__file__).parent / "builtin"


@dataclass(frozen=True)
class Source:
    """A file on the web."""

    url: str
    sha256: str | None = None
    """Of the download. None: unknown; then only the files prepared from it are checked."""

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DataFile:
    """A prepared file of a data set."""

    path: str
    """Relative to the data home."""
    sha256: str
    """Of the decompressed content; with form `copy`, of the file."""
    sources: tuple[Source, ...] = ()
    split: Literal["all", "train", "dev", "test", "sentences"] = "all"
    """`all`: there is no official split. `sentences`: a smaller training set."""
    language: str | None = None
    form: Literal["lines", "glue", "glue-test", "zip", "copy"] = "lines"
    """How it is made from its sources. lines: from `label text` per line. glue: from a table in a
    zip. glue-test: the same without labels, which are found by text in a second source of the form
    lines. zip: a member of a zip as it is. copy: the source as it is."""
    member: str = ""
    """The name of the file inside the zip."""
    encoding: str = "utf-8"
    repairs: tuple[tuple[str, str], ...] = ()
    """Wrong bytes in the source and their replacements, both in Latin-1."""
    rows: int = 0
    size: int = 0
    """Bytes of the decompressed content, where it is too large to be checksummed at each use."""
    shares: tuple[int, int, int] = (90, 5, 5)
    """Proportions of the training, validation and test sets of a long text."""


@dataclass(frozen=True)
class DataSet:
    """A data set that can be downloaded, verified and used by its name."""

    name: str
    task: Task
    files: tuple[DataFile, ...]
    licence: str
    citation: str
    classes: tuple[str, ...] = ()
    """Classification and matching: label i in the files is `classes[i]`; none: a score."""
    languages: tuple[str, ...] = ()
    """Translation: the two languages."""
    unit: Literal["char", "byte"] = "char"
    """Language modelling: the symbols that are predicted by default."""
    excerpt: DataFile | None = None
    """Language modelling: used when it is present and the full text is not; not downloadable."""

    @property
    def rows(self) -> int:
        """Examples, or pairs of sentences, in all splits."""
        rows = sum(file.rows for file in self.files if file.split != "sentences")
        return rows // max(len(self.languages), 1)

    @property
    def description(self) -> str:
        if self.task == "classification":
            return f"classes {', '.join(self.classes)}"
        if self.task == "matching":
            return "sentence pairs: " + (", ".join(self.classes) or "similarity")
        if self.task == "translation":
            return f"translation {'-'.join(self.languages)}"
        return "language modelling"

    @property
    def size(self) -> str:
        if self.task == "language-modelling":
            return f"{self.files[0].size // 1_000_000} MB"
        return f"{self.rows:,} {'texts' if self.task == 'classification' else 'pairs'}"

    def has(self, split: str) -> bool:
        return any(file.split == split for file in self.files)

    def file(self, split: str, language: str | None = None) -> DataFile:
        """The file of a split, and of a language where there are several."""
        for file in self.files:
            if (file.split, file.language) == (split, language):
                return file
        raise WordwaveError(f"{self.name} has no split {split!r}")

    def local_files(self) -> tuple[DataFile, ...]:
        """The files that should be in the data home: all, or the excerpt that replaces them."""
        if self.excerpt is None or not _is_here(self.excerpt) or _is_here(self.files[0]):
            return self.files
        return (self.excerpt,)

    def n_present(self) -> int:
        """How many of its files exist in the data home, complete or not."""
        return sum(map(_is_here, self.local_files()))

    def path(self, file: DataFile) -> Path:
        """The path of a file in the data home; an error if it has not been prepared."""
        if not _is_here(file):
            remedy = f"run `wordwave data prepare {self.name}`" if file.sources else "put it there"
            raise WordwaveError(f"'{file.path}' is not in the data home '{data_home()}'; {remedy}")
        return data_home() / file.path


def data_home() -> Path:
    """The folder of downloaded and prepared files: `WORDWAVE_DATA`, or the user's cache folder."""
    if named := os.environ.get("WORDWAVE_DATA"):
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("wordwave")


def _is_here(file: DataFile) -> bool:
    return (data_home() / file.path).is_file()


@cache
def catalogue() -> dict[str, DataSet]:
    """All data sets by name."""
    text = Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8")
    return {
        name: from_dict(DataSet, {"name": name, **entry}, where=f"catalogue.json: {name}")
        for name, entry in json.loads(text).items()
    }


def names(task: Task) -> list[str]:
    """The names of the data sets for a task."""
    return [name for name, dataset in catalogue().items() if dataset.task == task]


def dataset_named(name: str, task: Task | None = None) -> DataSet:
    """The data set of that name; an unknown name is an error that lists them all."""
    known = names(task) if task else list(catalogue())
    if name not in known:
        raise unknown("data set", name, known)
    return catalogue()[name]
