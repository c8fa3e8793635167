"""Training, development and test parts: official where there are such, stratified where not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

from wordwave.data.registry import DataSet, Part, data_home, dataset_named
from wordwave.data.tables import Examples, read_headerless
from wordwave.errors import WordwaveError

N_FOLDS = 10
DEV_SHARE = 0.1
# Every run has the same folds, whatever its seed.
_FOLD_SEED = 0


@dataclass(frozen=True)
class Splits:
    """What to learn from, what to choose by, and what to report on."""

    train: Examples
    dev: Examples | None
    test: Examples | None

    def fingerprint(self) -> str:
        """Differs where examples differ."""
        digest = hashlib.sha256()
        for part in (self.train, self.dev, self.test):
            if part is not None:
                digest.update(repr((part.texts, part.labels)).encode())
        return digest.hexdigest()[:16]


def stratified_split(labels: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices (rest, held): held has that share of all, and of each class as nearly as can be.

    A class keeps at least one member in rest; at least one index is held if any class has two.
    """
    if not 0 < share < 1:
        raise WordwaveError(f"share must be between 0 and 1, got {share}")
    groups = _shuffled_classes(labels, seed)
    exact = [share * len(members) for members in groups]
    n_held = [min(floor(n), len(members) - 1) for n, members in zip(exact, groups, strict=True)]
    n_missing = max(1, round(share * len(labels))) - sum(n_held)
    # What rounding down has lost goes to the classes that have lost most.
    for i in sorted(range(len(groups)), key=lambda i: n_held[i] - exact[i])[: max(0, n_missing)]:
        n_held[i] += n_held[i] < len(groups[i]) - 1
    held = sorted(i for members, n in zip(groups, n_held, strict=True) for i in members[:n])
    return sorted(set(range(len(labels))) - set(held)), held


def folds(labels: Sequence[str], n: int = N_FOLDS, seed: int = _FOLD_SEED) -> list[list[int]]:
    """Indices in n parts of the same size and mix of classes, but for one."""
    if not 2 <= n <= len(labels):
        raise WordwaveError(f"n must be at least 2 and at most {len(labels)} (examples), got {n}")
    dealt = [i for members in _shuffled_classes(labels, seed) for i in members]
    return [sorted(dealt[k::n]) for k in range(n)]


def load_splits(name: str, *, fold: int = 0, seed: int = 0) -> Splits:
    """A catalogue set from the data home, labels as names.

    Without an official test part, fold `fold` of ten is the test part; without an official
    development part, a tenth of the training part is, drawn with `seed`.
    """
    dataset = dataset_named(name)
    whole = dataset.part("all")
    n_folds = N_FOLDS if whole else 1
    if not 0 <= fold < n_folds:
        why = "" if whole else f" ({name} has an official test part)"
        raise WordwaveError(f"fold must be 0 … {n_folds - 1}{why}, got {fold}")
    if whole:
        examples = _load(dataset, whole)
        held = folds(examples.labels)[fold]
        test = examples.subset(held, f"{name} fold {fold}")
        others = set(range(len(examples))) - set(held)
        train = examples.subset(sorted(others))
    else:
        train, test = (_load(dataset, dataset.part(role)) for role in ("train", "test"))
    official = dataset.part("dev")
    if official:
        return Splits(train, _load(dataset, official), test)
    return Splits(*cut_dev(train, seed=seed, name=name), test)


def cut_dev(
    train: Examples, *, seed: int = 0, name: str | None = None
) -> tuple[Examples, Examples]:
    """Training examples less a stratified tenth, and that tenth to choose by."""
    name = name or train.name
    rest, held = stratified_split(train.labels, DEV_SHARE, seed)
    if not held:
        raise WordwaveError(f"{name} must have two examples of some class or more, to select by")
    return train.subset(rest, f"{name} train"), train.subset(held, f"{name} dev")


def _load(dataset: DataSet, part: Part | None) -> Examples:
    assert part is not None  # the catalogue has `all`, or `train` and `test`
    home = data_home()
    path = home / part.file
    if not path.exists():
        raise WordwaveError(
            f"'{part.file}' is not in the data home '{home}'; "
            f"run `wordwave data prepare {dataset.name}`"
        )
    examples = read_headerless(path, dataset.classes)
    return replace(examples, name=f"{dataset.name} {part.role}")


def _shuffled_classes(labels: Sequence[str], seed: int) -> list[list[int]]:
    """The indices of each class in random order, the same for the same seed for good.

    Python promises that `random()` never changes, but not so of `shuffle`.
    """
    if not labels:
        raise WordwaveError("labels must not be empty")
    rng = random.Random(seed)
    members: dict[str, list[int]] = {label: [] for label in sorted(set(labels))}
    for i, label in enumerate(labels):
        members[label].append(i)
    return [sorted(group, key=lambda _: rng.random()) for group in members.values()]


DEV_NAMES = ("validation", "dev", "valid")


def load_from_hub(name: str, *, text: str = "text", label: str = "label") -> Splits:
    """The splits train, validation (else a tenth of train) and test (may be missing) of a data set.

    `name` is what `datasets.load_dataset` takes: a name on the hub, with a configuration after a
    colon if need be (`glue:sst2`), or a local folder of csv, json or parquet files.
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

    def part(split: str) -> Examples:
        return _examples(splits[split], f"hf:{name} {split}", text, label)

    test = part("test") if "test" in splits else None
    for dev in DEV_NAMES:
        if dev in splits:
            return Splits(part("train"), part(dev), test)
    return Splits(*cut_dev(part("train")), test)


def _examples(split: Any, name: str, text: str, label: str) -> Examples:
    for column in (text, label):
        if column not in split.column_names:
            there = ", ".join(split.column_names)
            raise WordwaveError(f"{name}: there is no column {column!r}, only {there}")
    feature = split.features[label]
    names = getattr(feature, "names", None)
    texts, labels = [], []
    for row, (said, value) in enumerate(zip(split[text], split[label], strict=True)):
        if not isinstance(said, str) or value is None or (value == -1 and names):
            raise WordwaveError(f"{name}: row {row} must have a text and a label, got {value!r}")
        texts.append(said)
        labels.append(names[value] if names else str(value))
    return Examples(texts, labels, name)
