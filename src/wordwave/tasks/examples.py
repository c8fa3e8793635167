"""Examples to train and score on: a data set by name, or files of one's own."""

from __future__ import annotations

from pathlib import Path

from wordwave.data.catalogue import CATALOGUE
from wordwave.data.hub import load_from_hub
from wordwave.data.splits import Parts, cut_dev, load_parts
from wordwave.data.tables import Examples, read_examples
from wordwave.names import suggestion
from wordwave.tasks.config import DataSettings

FROM_HUB = "hf:"


def load_examples(data: DataSettings) -> Parts:
    """Training, dev and test examples; the last are `None` where none are named."""
    if not data.data:
        raise ValueError(
            "there must be something to learn from: --data FILE.csv, or --data NAME "
            "(wordwave data list)"
        )
    if data.data.startswith(FROM_HUB):
        if data.dev or data.test or data.fold:
            raise ValueError(f"--dev, --test and --fold do not go with {data.data!r}")
        return load_from_hub(data.data.removeprefix(FROM_HUB), text=data.text, label=data.label)
    if data.data in CATALOGUE:
        if data.dev or data.test:
            raise ValueError(f"--dev and --test go with files of your own, not with {data.data!r}")
        return load_parts(data.data, fold=data.fold)
    if data.fold:
        raise ValueError(f"--fold goes with data sets by name, not with {data.data!r}")
    hint = suggestion(data.data, CATALOGUE)
    if hint and not Path(data.data).exists():
        raise ValueError(f"there is no data set or file {data.data!r}{hint}")

    def read(file: str) -> Examples:
        return read_examples(file, text=data.text, label=data.label)

    train, test = read(data.data), read(data.test) if data.test else None
    if data.dev:
        return Parts(train, read(data.dev), test)
    return Parts(*cut_dev(train), test)
