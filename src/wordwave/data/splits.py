"""Training, development and test parts: official where there are such, stratified where not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from wordwave.data.catalogue import DataSet, Part, dataset_named
from wordwave.data.home import data_home
from wordwave.data.tables import Examples, read_headerless

N_FOLDS = 10
DEV_SHARE = 0.1
# Every run has the same folds, whatever its seed.
_FOLD_SEED = 0


@dataclass(frozen=True)
class Parts:
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
        raise ValueError(f"share must be between 0 and 1, got {share}")
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
        raise ValueError(f"n must be at least 2 and at most {len(labels)} (examples), got {n}")
    dealt = [i for members in _shuffled_classes(labels, seed) for i in members]
    return [sorted(dealt[k::n]) for k in range(n)]


def load_parts(name: str, *, fold: int = 0, seed: int = 0) -> Parts:
    """A catalogue set from the data home, labels as names.

    Without an official test part, fold `fold` of ten is the test part; without an official
    development part, a tenth of the training part is, drawn with `seed`.
    """
    dataset = dataset_named(name)
    whole = dataset.part("all")
    n_folds = N_FOLDS if whole else 1
    if not 0 <= fold < n_folds:
        why = "" if whole else f" ({name} has an official test part)"
        raise ValueError(f"fold must be 0 … {n_folds - 1}{why}, got {fold}")
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
        return Parts(train, _load(dataset, official), test)
    return Parts(*cut_dev(train, seed=seed, name=name), test)


def cut_dev(
    train: Examples, *, seed: int = 0, name: str | None = None
) -> tuple[Examples, Examples]:
    """Training examples less a stratified tenth, and that tenth to choose by."""
    name = name or train.name
    rest, held = stratified_split(train.labels, DEV_SHARE, seed)
    if not held:
        raise ValueError(f"{name} must have two examples of some class or more, to select by")
    return train.subset(rest, f"{name} train"), train.subset(held, f"{name} dev")


def _load(dataset: DataSet, part: Part | None) -> Examples:
    assert part is not None  # the catalogue has `all`, or `train` and `test`
    home = data_home()
    path = home / part.file
    if not path.exists():
        raise ValueError(
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
        raise ValueError("labels must not be empty")
    rng = random.Random(seed)
    members: dict[str, list[int]] = {label: [] for label in sorted(set(labels))}
    for i, label in enumerate(labels):
        members[label].append(i)
    return [sorted(group, key=lambda _: rng.random()) for group in members.values()]
