"""Data sets of the Hugging Face hub, through their own library."""

from __future__ import annotations

from typing import Any

from wordwave.data.splits import Parts, cut_dev
from wordwave.data.tables import Examples

DEV_NAMES = ("validation", "dev", "valid")


def load_from_hub(name: str, *, text: str = "text", label: str = "label") -> Parts:
    """The splits train, validation (else a tenth of train) and test (may be missing) of a data set.

    `name` is what `datasets.load_dataset` takes: a name on the hub, with a configuration after a
    colon if need be (`glue:sst2`), or a local folder of csv, json or parquet files.
    """
    try:
        from datasets import load_dataset
    except ModuleNotFoundError:
        raise ValueError(f"hf:{name} needs an extra: pip install 'wordwave[datasets]'") from None
    path, _, configuration = name.partition(":")
    try:
        splits = load_dataset(path, configuration or None)
    except Exception as problem:  # whatever the library or the network raises
        reason = " ".join(str(problem).split())[:300]
        raise ValueError(f"hf:{name} cannot be loaded: {reason}") from None
    if "train" not in splits:
        raise ValueError(f"hf:{name} must have a split 'train', got {', '.join(splits)}")

    def part(split: str) -> Examples:
        return _examples(splits[split], f"hf:{name} {split}", text, label)

    test = part("test") if "test" in splits else None
    for dev in DEV_NAMES:
        if dev in splits:
            return Parts(part("train"), part(dev), test)
    return Parts(*cut_dev(part("train")), test)


def _examples(split: Any, name: str, text: str, label: str) -> Examples:
    for column in (text, label):
        if column not in split.column_names:
            there = ", ".join(split.column_names)
            raise ValueError(f"{name}: there is no column {column!r}, only {there}")
    feature = split.features[label]
    names = getattr(feature, "names", None)
    texts, labels = [], []
    for row, (said, value) in enumerate(zip(split[text], split[label], strict=True)):
        if not isinstance(said, str) or value is None or (value == -1 and names):
            raise ValueError(f"{name}: row {row} must have a text and a label, got {value!r}")
        texts.append(said)
        labels.append(names[value] if names else str(value))
    return Examples(texts, labels, name)
