"""Pairs of sentences with a label or a score, and splits that share no sentence."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from wordwave.data.examples import PartsOf, Rows
from wordwave.data.formats import TableFormat
from wordwave.data.registry import BUILT_IN, BUILT_IN_FOLDER, DataSet, dataset_named, names
from wordwave.data.splits import DEV_SHARE, IN_MEMORY
from wordwave.data.tables import (
    Cell,
    class_cell,
    label_cell,
    number_cell,
    optional_text,
    read_table,
    text_cell,
)
from wordwave.errors import WordwaveError
from wordwave.files import DAMAGED, open_binary, sha256_of
from wordwave.limits import FRACTION, Limited

BUILT_IN_FILE = BUILT_IN_FOLDER / "paws-wiki.dev.tsv.gz"


@dataclass(frozen=True)
class PairDataConfig(Limited):
    """The pairs of sentences of a matcher."""

    data: str = ""
    """built-in (a part of PAWS-Wiki, no download), another data set by name (paws-wiki, paws-qqp,
    sts-b, sick), or a file of your own: .csv, .tsv or .jsonl, also .gz."""
    dev: str | None = None
    """Validation set, which selects the best epoch: a file; by default a part of the training pairs
    (--dev-share), cut so that it shares no sentence with the others."""
    dev_share: Annotated[float | None, FRACTION] = None
    """Fraction of the training pairs held out as validation set; 0 for none, which keeps the last
    epoch. By default a tenth. Not where there is a validation set."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text_a: str = "text_a"
    """The column of first sentences in files of your own."""
    text_b: str = "text_b"
    """The column of second sentences."""
    label: str = "label"
    """The column of labels: any names of classes."""
    similarity: str | None = None
    """A column of numbers, such as similarities, to predict instead of a label."""
    table: TableFormat = field(default_factory=TableFormat)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *pair_set_names()]
        return () if len(named) == 1 and named[0] in known else named

    @property
    def predicts_scores(self) -> bool:
        """Whether a number is predicted, not a class."""
        if self.data in names("matching"):
            return not dataset_named(self.data).classes
        return self.similarity is not None


@dataclass(frozen=True)
class TextPairs(Rows):
    """Pairs of sentences, each with a label, or with a score as a decimal number."""

    first: list[str] = field(repr=False)
    second: list[str] = field(repr=False)
    labels: list[str] = field(repr=False)
    name: str = "pairs"
    """Where they come from, for messages."""

    def joined(self, other: TextPairs) -> TextPairs:
        """These pairs and others."""
        first, second = self.first + other.first, self.second + other.second
        return TextPairs(first, second, self.labels + other.labels, f"{self.name}, {other.name}")

    def groups(self) -> list[int]:
        """The number of each pair's group; pairs that share a sentence are in the same group."""
        parent: dict[str, str] = {}

        def root(text: str) -> str:
            while (above := parent.setdefault(text, text)) != text:
                parent[text] = text = parent[above]
            return text

        first, second = ([_key(text) for text in part] for part in (self.first, self.second))
        for one, other in zip(first, second, strict=True):
            parent[root(one)] = root(other)
        numbers: dict[str, int] = {}
        return [numbers.setdefault(root(text), len(numbers)) for text in first]


def _key(text: str) -> str:
    """The same for sentences that differ in case and spaces only, as tokenizers may take them."""
    return "".join(text.casefold().split())


@dataclass(frozen=True)
class PairSplits(PartsOf[TextPairs]):
    """The training, validation and test pairs."""


def read_pairs(
    path: str | Path,
    *,
    text_a: str,
    text_b: str,
    label: str,
    checked: Cell = label_cell,
    table: TableFormat | None = None,
    may_be_empty: bool = False,
    label_option: str = "label",
) -> TextPairs:
    """Pairs from three columns of a csv, tsv or jsonl file; scores are `checked` as numbers.

    Args:
        may_be_empty: a sentence may be missing, to be compared like any other.
        label_option: the option that names the third column, for the message if it is missing.
    """
    if len({text_a, text_b, label}) < 3:
        raise WordwaveError(f"three columns are needed, got {text_a!r}, {text_b!r}, {label!r}")
    words = optional_text if may_be_empty else text_cell
    checks = {text_a: words, text_b: words, label: checked}
    first, second, labels = list[str](), list[str](), list[str]()
    options = {text_a: "text_a", text_b: "text_b", label: label_option}
    for row in read_table(path, checks, what="pair", table=table, options=options):
        first.append(row[text_a])
        second.append(row[text_b])
        labels.append(row[label])
    return TextPairs(first, second, labels, str(path))


def hold_out(
    pairs: TextPairs,
    *,
    seed: int = 0,
    share: float = DEV_SHARE,
    keep_classes: bool = True,
    remedy: str = "name one with --dev",
) -> tuple[TextPairs, TextPairs]:
    """Training and validation pairs, which share no sentence: whole groups are held out.

    Args:
        keep_classes: every class keeps a training pair; not for scores.
        remedy: what to do if none can be held out, for the message.
    """
    members: dict[int, list[int]] = {}
    for row, group in enumerate(pairs.groups()):
        members.setdefault(group, []).append(row)
    rng = random.Random(seed)
    held: set[int] = set()
    n_left, most = Counter(pairs.labels), max(1, round(share * len(pairs)))
    for rows in sorted(members.values(), key=lambda _: rng.random()):
        # A group that is too large stays, so that neither part is left without pairs.
        if len(held) + len(rows) > most:
            continue
        taken = Counter(pairs.labels[row] for row in rows)
        if keep_classes and any(n_left[label] == n for label, n in taken.items()):
            continue
        held.update(rows)
        n_left.subtract(taken)
    if not held or len(held) == len(pairs):
        raise WordwaveError(
            f"{pairs.name}: too many pairs share sentences or are the only ones of their class, so "
            f"that no validation set can be held out: {remedy}"
        )
    rest = [row for row in range(len(pairs)) if row not in held]
    name = pairs.name
    return pairs.subset(rest, f"{name} train"), pairs.subset(sorted(held), f"{name} dev")


def pair_set_names() -> tuple[str, ...]:
    """The data sets that have a name."""
    return (BUILT_IN, *names("matching"))


def load_part(name: str, split: str) -> TextPairs:
    """A part of a data set of the catalogue from the data home, labels as class names."""
    dataset = dataset_named(name, "matching")
    pairs = _read_prepared(dataset, dataset.path(dataset.file(split)))
    return replace(pairs, name=f"{name} {split}")


def load_pair_splits(name: str) -> PairSplits:
    """A data set by name, labels as class names; without an official validation set, that is a
    tenth of the training pairs."""
    parts = official_pairs(name)
    if parts.dev is not None:
        return parts
    has_classes = bool(dataset_named(name, "matching").classes)
    return PairSplits(*hold_out(parts.train, keep_classes=has_classes), parts.test)


def official_pairs(name: str) -> PairSplits:
    """A data set by name, labels as class names; `dev` is `None` without a validation set."""
    if name == BUILT_IN:
        return _built_in()
    dataset = dataset_named(name, "matching")
    test = load_part(name, "test") if dataset.has("test") else None
    if dataset.has("train") and dataset.has("dev"):
        return PairSplits(load_part(name, "train"), load_part(name, "dev"), test)
    return PairSplits(load_part(name, "train" if dataset.has("train") else "dev"), None, test)


def _built_in() -> PairSplits:
    """The validation part of PAWS-Wiki, of which a tenth is held out for validation and another one
    for testing: none of the three shares a sentence with the others. The official test part is not
    in it."""
    dataset = dataset_named("paws-wiki")
    try:
        with open_binary(BUILT_IN_FILE) as file:
            is_whole = sha256_of(file) == dataset.file("dev").sha256
    except DAMAGED:
        is_whole = False
    if not is_whole:
        raise WordwaveError(f"'{BUILT_IN_FILE}' has the wrong checksum: install wordwave again")
    pairs = replace(_read_prepared(dataset, BUILT_IN_FILE), name=BUILT_IN)
    rest, test = hold_out(pairs)
    train, dev = hold_out(rest, share=len(test) / len(rest))
    parts = {"train": train, "dev": dev, "test": test}
    return PairSplits(*(replace(part, name=f"{BUILT_IN} {key}") for key, part in parts.items()))


def _read_prepared(dataset: DataSet, path: Path) -> TextPairs:
    label = "label" if dataset.classes else "score"
    checked = class_cell(dataset.classes) if dataset.classes else number_cell
    return read_pairs(path, text_a="text_a", text_b="text_b", label=label, checked=checked)
