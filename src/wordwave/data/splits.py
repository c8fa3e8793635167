"""Training, validation and test sets: the official ones, or stratified random splits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

from wordwave.data.registry import DataSet, dataset_named, names
from wordwave.data.tables import Examples, PartsOf, read_prepared
from wordwave.errors import WordwaveError

N_FOLDS = 10
DEV_SHARE = 0.1
IN_MEMORY = "(in memory)"
"""The `data` of examples that were not read from a file."""


@dataclass(frozen=True)
class DataConfig:
    """The labelled texts of a classifier."""

    data: str = ""
    """A data set by name (wordwave data list), or a file of your own: .csv, .tsv or .jsonl,
    also .gz; or hf:NAME for a data set of the Hugging Face hub."""
    dev: str | None = None
    """Validation set: a file; by default a tenth of the training examples. It selects the best
    epoch."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text: str = "text"
    """The column of texts in files of your own."""
    label: str = "label"
    """The column of labels in files of your own."""
    fold: int = 0
    """Cross-validation fold of data sets without a test set (mr, subj, cr, mpqa): which tenth is
    tested on."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and data sets of the hub, that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *names("classification")]
        return () if len(named) == 1 and named[0] in known else named


@dataclass(frozen=True)
class Splits(PartsOf[Examples]):
    """The training, validation and test examples."""


def stratified_split(labels: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices (rest, held out): held out is that share of all, and of each class if possible.

    Every class keeps at least one member in the rest; at least one index is held out if any class
    has two.
    """
    if not 0 < share < 1:
        raise WordwaveError(f"share must be between 0 and 1, got {share}")
    groups = _shuffled_classes(labels, seed)
    exact = [share * len(members) for members in groups]
    n_held = [min(floor(n), len(members) - 1) for n, members in zip(exact, groups, strict=True)]
    n_missing = max(1, round(share * len(labels))) - sum(n_held)
    # The remainder goes to the classes that lost most by rounding down.
    for i in sorted(range(len(groups)), key=lambda i: n_held[i] - exact[i])[: max(0, n_missing)]:
        n_held[i] += n_held[i] < len(groups[i]) - 1
    held = sorted(i for members, n in zip(groups, n_held, strict=True) for i in members[:n])
    return sorted(set(range(len(labels))) - set(held)), held


def folds(labels: Sequence[str], n: int = N_FOLDS, seed: int = 0) -> list[list[int]]:
    """Indices in n stratified folds, whose sizes differ by at most one, overall and by class."""
    if not 2 <= n <= len(labels):
        raise WordwaveError(f"n must be at least 2 and at most {len(labels)} (examples), got {n}")
    dealt = [i for members in _shuffled_classes(labels, seed) for i in members]
    return [sorted(dealt[k::n]) for k in range(n)]


def load_splits(name: str, *, fold: int = 0, seed: int = 0) -> Splits:
    """A data set of the catalogue from the data home, labels as class names.

    Without an official test set, fold `fold` of ten is the test set; without an official validation
    set, it is a tenth of the training set, drawn with `seed`.
    """
    dataset = dataset_named(name, "classification")
    has_folds = dataset.has("all")
    last, why = (N_FOLDS - 1, "") if has_folds else (0, f" ({name} has an official test set)")
    if not 0 <= fold <= last:
        raise WordwaveError(f"fold must be 0 … {last}{why}, got {fold}")
    if has_folds:
        examples = load_split(dataset, "all")
        held_out = folds(examples.labels)[fold]  # the same folds, whatever the seed of the run
        test = examples.subset(held_out, f"{name} fold {fold}")
        train = examples.subset(sorted(set(range(len(examples))) - set(held_out)))
    else:
        train, test = load_split(dataset, "train"), load_split(dataset, "test")
    if dataset.has("dev"):
        return Splits(train, load_split(dataset, "dev"), test)
    return Splits(*cut_dev(train, seed=seed, name=name), test)


def load_split(dataset: DataSet, split: str) -> Examples:
    """One split of a classification set from the data home."""
    examples = read_prepared(dataset.path(dataset.file(split)), dataset.classes)
    return replace(examples, name=f"{dataset.name} {split}")


def cut_dev(
    train: Examples, *, seed: int = 0, name: str | None = None
) -> tuple[Examples, Examples]:
    """A stratified tenth of the training set is held out as the validation set."""
    name = name or train.name
    rest, held_out = stratified_split(train.labels, DEV_SHARE, seed)
    if not held_out:
        raise WordwaveError(f"{name} must have a class of two examples or more to hold one out")
    return train.subset(rest, f"{name} train"), train.subset(held_out, f"{name} dev")


def _shuffled_classes(labels: Sequence[str], seed: int) -> list[list[int]]:
    """The indices of each class in random order, the same for a seed in every version of Python:
    `random()` is guaranteed not to change, `shuffle` is not."""
    if not labels:
        raise WordwaveError("labels must not be empty")
    rng = random.Random(seed)
    members: dict[str, list[int]] = {label: [] for label in sorted(set(labels))}
    for i, label in enumerate(labels):
        members[label].append(i)
    return [sorted(group, key=lambda _: rng.random()) for group in members.values()]


def load_from_hub(name: str, *, text: str = "text", label: str = "label") -> Splits:
    """The splits train, validation (or a tenth of train) and test (optional) of a data set.

    `name` is what `datasets.load_dataset` takes: a name on the hub, with an optional
    configuration after a colon (`glue:sst2`), or a local folder of csv, json or parquet files.
    """
    try:
        from datasets import load_dataset
    except ModuleNotFoundError:
        raise WordwaveError(f"hf:{name} needs an extra: pip install 'wordwave[datasets]'") from None
    path, _, configuration = name.partition(":")
    try:
        splits = load_dataset(path, configuration or None)
    except Exception as problem:  # whatever the library or the network raises
        reason = " ".join(str(problem).split())[:300]
        raise WordwaveError(f"hf:{name} cannot be loaded: {reason}") from None
    if "train" not in splits:
        raise WordwaveError(f"hf:{name} must have a split 'train', got {', '.join(splits)}")

    def examples(split: str) -> Examples:
        return _hub_examples(splits[split], f"hf:{name} {split}", text, label)

    test = examples("test") if "test" in splits else None
    for dev in ("validation", "dev", "valid"):
        if dev in splits:
            return Splits(examples("train"), examples(dev), test)
    return Splits(*cut_dev(examples("train")), test)


def _hub_examples(split: Any, name: str, text: str, label: str) -> Examples:
    for column in (text, label):
        if column not in split.column_names:
            columns = ", ".join(split.column_names)
            raise WordwaveError(f"{name}: there is no column {column!r}, only {columns}")
    names = getattr(split.features[label], "names", None)
    texts, labels = [], []
    for row, (content, value) in enumerate(zip(split[text], split[label], strict=True)):
        if not isinstance(content, str) or value is None or (value == -1 and names):
            raise WordwaveError(f"{name}: row {row} must have a text and a label, got {value!r}")
        texts.append(content)
        labels.append(names[value] if names else str(value))
    return Examples(texts, labels, name)
