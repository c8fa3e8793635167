"""Training, validation and test sets: the official ones, or stratified random splits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import floor
from numbers import Real
from pathlib import Path
from reprlib import repr as clipped
from typing import TYPE_CHECKING, Annotated, Any

from wordwave.data.columns import CodedLabels
from wordwave.data.examples import Examples, PartsOf
from wordwave.data.formats import TableFormat
from wordwave.data.registry import DataSet, dataset_named, names
from wordwave.data.tables import read_examples, read_prepared
from wordwave.errors import WordwaveError, suggestion
from wordwave.limits import FRACTION, Limited

if TYPE_CHECKING:
    from wordwave.data.columns import Indices
    from wordwave.data.pairs import PairDataConfig

FROM_HUB = "hf:"
N_FOLDS = 10
DEV_SHARE = 0.1
FEW = 1000
"""By default, fewer examples than these are all trained on."""
MOST_HELD_OUT = 1000
"""By default, at most so many examples are held out."""
IN_MEMORY = "(in memory)"
"""The `data` of examples that were not read from a file."""


@dataclass(frozen=True)
class DataConfig(Limited):
    """The labelled texts of a classifier."""

    data: str = ""
    """A data set by name (wordwave data list), or a file of your own: .csv, .tsv or .jsonl,
    also .gz; or hf:NAME for a data set of the Hugging Face hub."""
    dev: str | None = None
    """Validation set, which weights n-grams or selects the best epoch: a file; by default a part of
    the training examples (--dev-share)."""
    dev_share: Annotated[float | None, FRACTION] = None
    """Fraction of the training examples held out as validation set; 0 for none, which keeps the
    last epoch. By default a tenth, at most 1,000, and none of fewer than 1,000 examples, which are
    worth more in training; of data sets by name a tenth. Not where there is a validation set."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text: str = "text"
    """The column of texts in files of your own."""
    label: str = "label"
    """The column of labels in files of your own."""
    fold: int = 0
    """Cross-validation fold of data sets without a test set (mr, subj, cr, mpqa): which tenth is
    tested on."""
    multi_label: str | None = None
    """Examples may have several labels, or none: the character that separates them in the column of
    labels, such as "|"."""
    table: TableFormat = field(default_factory=TableFormat)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multi_label is not None and not self.multi_label.strip():
            raise WordwaveError(f"multi_label must be a separator, got {self.multi_label!r}")

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and data sets of the hub, that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *names("classification")]
        return () if len(named) == 1 and named[0] in known else named


@dataclass(frozen=True)
class Splits(PartsOf[Examples]):
    """The training, validation and test examples."""

    dev_is_cut: bool = False
    """Whether the validation examples were cut from the training examples."""


def held_out_share(n: int, share: float | None = None, *, patience: int = 0) -> float:
    """The fraction of n training examples to validate on, 0 for none.

    Args:
        share: what the user asked for, `None` for the default: a tenth, at most 1,000 examples, and
            none of fewer than 1,000, which are worth more in training.
        patience: of early stopping, which needs a validation set.
    """
    if share is None:
        return 0.0 if n < FEW and not patience else min(DEV_SHARE, MOST_HELD_OUT / n)
    if not isinstance(share, Real) or not 0 <= share < 1:
        raise WordwaveError(f"dev_share must be at least 0 and below 1, got {clipped(share)}")
    if share == 0 and patience:
        raise WordwaveError(f"patience needs a dev_share above 0, got patience {patience}")
    return share


def check_one_dev(data: DataConfig | PairDataConfig) -> None:
    """Refuse a `dev_share` beside a validation file, where it would be ignored."""
    if data.dev is not None and data.dev_share is not None:
        raise WordwaveError(
            f"dev and dev_share both choose the validation set, got {data.dev!r} and "
            f"{data.dev_share}: leave one of them out"
        )


def check_no_share(data: DataConfig | PairDataConfig) -> None:
    """Refuse a `dev_share` of a data set that has a validation set, where it would be ignored."""
    if data.dev_share is not None:
        raise WordwaveError(
            f"{data.data!r} has a validation set, got dev_share {data.dev_share}: leave it out"
        )


def stratified_split(labels: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices (rest, held out): held out is that share of all, and of each class if possible.

    Every class keeps at least one member in the rest; at least one index is held out if any class
    has two.
    """
    rest, held = _split_indices(labels, share, seed)
    return rest.tolist(), held.tolist()


def _split_indices(labels: Sequence[str], share: float, seed: int) -> tuple[Indices, Indices]:
    """`stratified_split` as arrays."""
    import numpy as np

    if not 0 < share < 1:
        raise WordwaveError(f"share must be between 0 and 1, got {share}")
    groups = _shuffled_classes(labels, seed)
    exact = [share * len(members) for members in groups]
    n_held = [min(floor(n), len(members) - 1) for n, members in zip(exact, groups, strict=True)]
    n_missing = max(1, round(share * len(labels))) - sum(n_held)
    # The remainder goes to the classes that lost most by rounding down.
    for i in sorted(range(len(groups)), key=lambda i: n_held[i] - exact[i])[: max(0, n_missing)]:
        n_held[i] += n_held[i] < len(groups[i]) - 1
    is_held = np.zeros(len(labels), bool)
    for members, n in zip(groups, n_held, strict=True):
        is_held[members[:n]] = True
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def split_labels(cell: str, separator: str) -> list[str]:
    """The labels in a cell; there may be none."""
    return [label for part in cell.split(separator) if (label := part.strip())]


def split_label_sets(
    sets: Sequence[Sequence[str]], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Indices (rest, held out) of examples with several labels, spread evenly by their rarest one;
    the rest has every label."""
    counts = Counter(label for labels in sets for label in labels)
    rarest = [min(labels, key=lambda label: (counts[label], label), default="") for labels in sets]
    rest, held = stratified_split(rarest, share, seed)
    known = {label for i in rest for label in sets[i]}
    moved = [i for i in held if not known.issuperset(sets[i])]
    return sorted([*rest, *moved]), sorted({*held}.difference(moved))


def folds(labels: Sequence[str], n: int = N_FOLDS, seed: int = 0) -> list[list[int]]:
    """Indices in n stratified folds, whose sizes differ by at most one, overall and by class."""
    if not 2 <= n <= len(labels):
        raise WordwaveError(f"n must be at least 2 and at most {len(labels)} (examples), got {n}")
    dealt = [i for members in _shuffled_classes(labels, seed) for i in members.tolist()]
    return [sorted(dealt[k::n]) for k in range(n)]


def load_examples(data: DataConfig, *, patience: int = 0, strict: bool = True) -> Splits:
    """Training, validation and test examples; `test` is `None` if none are named, `dev` if none
    are held out.

    Args:
        patience: of early stopping, which needs validation examples.
        strict: refuse a `dev_share` where there is a validation set, instead of ignoring it.
    """
    if strict:
        check_one_dev(data)
    parts = _named_examples(data)
    if parts.dev is not None:
        if strict:
            check_no_share(data)
        return parts
    is_named = data.data in names("classification")
    if is_named and data.dev_share is None:
        share = DEV_SHARE
    else:
        share = held_out_share(len(parts.train), data.dev_share, patience=patience)
    if not share:
        return parts
    name = data.data if is_named else None
    held_out = cut_dev(parts.train, share=share, name=name, multi_label=data.multi_label)
    return Splits(*held_out, parts.test, dev_is_cut=True)


def _named_examples(data: DataConfig) -> Splits:
    """The examples that a config names; `dev` is `None` if it is to be cut."""
    if not data.data:
        raise WordwaveError(
            "there must be data to train on: --data FILE.csv, or --data NAME (wordwave data list)"
        )
    if data.data.startswith(FROM_HUB):
        if data.dev or data.test or data.fold or data.multi_label is not None:
            options = "--dev, --test, --fold and --multi-label"
            raise WordwaveError(f"{options} do not go with {data.data!r}")
        return load_from_hub(data.data.removeprefix(FROM_HUB), text=data.text, label=data.label)
    if data.data in names("classification"):
        if data.dev or data.test or data.multi_label is not None:
            options = "--dev, --test and --multi-label"
            raise WordwaveError(f"{options} go with files of your own, not with {data.data!r}")
        return _official_parts(data.data, data.fold)
    if data.fold:
        raise WordwaveError(f"--fold goes with data sets by name, not with {data.data!r}")
    hint = suggestion(data.data, names("classification"))
    if hint and not Path(data.data).exists():
        raise WordwaveError(f"there is no data set or file {data.data!r}{hint}")
    train, dev, test = (
        read_examples(
            file,
            text=data.text,
            label=data.label,
            several_labels=data.multi_label is not None,
            table=data.table,
        )
        if file
        else None
        for file in (data.data, data.dev, data.test)
    )
    assert train is not None
    return Splits(train, dev, test)


def load_splits(name: str, *, fold: int = 0, seed: int = 0) -> Splits:
    """A data set of the catalogue from the data home, labels as class names.

    Without an official test set, fold `fold` of ten is the test set; without an official validation
    set, it is a tenth of the training set, drawn with `seed`.
    """
    parts = _official_parts(name, fold)
    if parts.dev is not None:
        return parts
    return Splits(*cut_dev(parts.train, seed=seed, name=name), parts.test, dev_is_cut=True)


def _official_parts(name: str, fold: int) -> Splits:
    """A data set of the catalogue with a test set; `dev` is `None` without an official one."""
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
    return Splits(train, load_split(dataset, "dev") if dataset.has("dev") else None, test)


def load_split(dataset: DataSet, split: str) -> Examples:
    """One split of a classification set from the data home."""
    examples = read_prepared(dataset.path(dataset.file(split)), dataset.classes)
    return replace(examples, name=f"{dataset.name} {split}")


def cut_dev(
    train: Examples,
    *,
    share: float = DEV_SHARE,
    seed: int = 0,
    name: str | None = None,
    multi_label: str | None = None,
) -> tuple[Examples, Examples]:
    """A stratified part of the training set is held out as the validation set.

    Args:
        multi_label: what separates several labels of an example.
    """
    name = name or train.name
    rest: Sequence[int] | Indices
    held_out: Sequence[int] | Indices
    if multi_label is None:
        rest, held_out = _split_indices(train.labels, share, seed)
    else:
        labels_in = {cell: split_labels(cell, multi_label) for cell in set(train.labels)}
        rest, held_out = split_label_sets([labels_in[c] for c in train.labels], share, seed)
    if not len(held_out):
        raise WordwaveError(f"{name} must have a class of two examples or more to hold one out")
    return train.subset(rest, f"{name} train"), train.subset(held_out, f"{name} dev")


def _shuffled_classes(labels: Sequence[str], seed: int) -> list[Indices]:
    """The indices of each class in random order, the same for a seed in every version of Python:
    `random()` is guaranteed not to change, `shuffle` is not."""
    import numpy as np

    if not len(labels):
        raise WordwaveError("labels must not be empty")
    rng = random.Random(seed)
    names = sorted(set(labels))
    number = {label: i for i, label in enumerate(names)}
    if isinstance(labels, CodedLabels):
        codes = np.array([number.get(name, -1) for name in labels.names])[labels.codes]
    else:
        codes = np.fromiter(map(number.__getitem__, labels), np.int64, len(labels))
    members = np.split(codes.argsort(kind="stable"), np.bincount(codes).cumsum()[:-1])

    def shuffled(group: Indices) -> Indices:
        keys = np.fromiter((rng.random() for _ in range(len(group))), np.float64, len(group))
        return group[keys.argsort(kind="stable")]

    return list(map(shuffled, members))


def load_from_hub(name: str, *, text: str = "text", label: str = "label") -> Splits:
    """The splits train, validation (optional) and test (optional) of a data set.

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
    return Splits(examples("train"), None, test)


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
