"""All that can be had by name, in one row: sets to classify, to translate, to learn a language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wordwave.data import prepare as preparation
from wordwave.data.corpora import CORPORA, Corpus, corpus_states, prepare_corpus
from wordwave.data.parallel import PARALLEL, ParallelSet, parallel_state, prepare_parallel
from wordwave.data.prepare import Progress
from wordwave.data.registry import CATALOGUE, DataSet, data_home
from wordwave.errors import unknown


@dataclass(frozen=True)
class Item:
    """Something that can be downloaded, checked and used by its name."""

    name: str
    what: str
    size: str
    licence: str
    citation: str
    files: Mapping[str, Callable[[], str]]
    """Each file in the data home, and how to learn its state: ok, missing or wrong checksum."""
    prepare: Callable[[Progress | None], list[Path]]
    """Make what is missing."""

    def n_here(self) -> int:
        """How many of its files are there, whole or not."""
        return sum((data_home() / file).is_file() for file in self.files)


def shelf() -> dict[str, Item]:
    """Everything, by name."""
    items = [
        *(_classification(d) for d in CATALOGUE.values()),
        *(_parallel(d) for d in PARALLEL.values()),
        *(_corpus(c) for c in CORPORA.values()),
    ]
    return {item.name: item for item in items}


def item_named(name: str) -> Item:
    """One thing; an unknown name suggests the nearest."""
    items = shelf()
    if name not in items:
        raise unknown("data set", name, items)
    return items[name]


def _classification(d: DataSet) -> Item:
    files = {part.file: partial(preparation.state, part) for part in d.parts}
    what = f"classes {', '.join(d.classes)}"
    make = partial(_with_progress, preparation.prepare, d)
    return Item(d.name, what, f"{d.rows:,} texts", d.licence, d.citation, files, make)


def _parallel(d: ParallelSet) -> Item:
    files = {f"{d.name}/{s.file}": partial(parallel_state, d, s) for s in d.sources}
    what = f"translations {d.languages[0]}-{d.languages[1]}"
    make = partial(_with_progress, prepare_parallel, d)
    return Item(d.name, what, f"{d.rows:,} pairs", d.licence, d.citation, files, make)


def _corpus(c: Corpus) -> Item:
    size = f"{c.size // 1_000_000} MB"
    make = partial(_with_progress, prepare_corpus, c)
    what, files = "a text, to learn a language", corpus_states(c)
    return Item(c.name, what, size, c.licence, c.citation, files, make)


def _with_progress(
    make: Callable[..., list[Path]], what: object, progress: Progress | None
) -> list[Path]:
    return make(what, progress=progress)
