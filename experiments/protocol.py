"""The protocol: which hyperparameters and data every classifier is trained with (docs/protocol.md).

`Protocol.key` identifies the record of a training, `Protocol.config` is its complete configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.anchors import anchor_settings
from experiments.cells import SST2_SENTENCES, VARIANTS, TrainingCell
from wordwave import recipes
from wordwave.config_io import flat, flatten, from_dict, nested, read_settings, with_settings
from wordwave.errors import WordwaveError
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Splits
    from wordwave.grid import Record
    from wordwave.search.spaces import SpaceName

KEY = (
    "kind",
    "dataset",
    "encoder",
    "embedding",
    "variant",
    "fold",
    "seed",
    "budget",
    "search",
    "settings",
)
"""What identifies a record; `settings` are those the protocol sets of text, model and training."""

Version = Literal["first", "current"]
FIRST_RECIPES = Path(__file__).parent / "first_recipes"
EPOCH_FACTORS: dict[Version, dict[str, float]] = {
    "first": {"mr": 0.4, "subj": 0.4, SST2_SENTENCES: 0.4, "mpqa": 0.6, "sst2": 0.2},
    "current": {"mr": 0.6, "subj": 0.6, SST2_SENTENCES: 0.6, "mpqa": 0.8, "sst2": 0.3},
}
"""Larger data sets are trained for fewer epochs, the same for every row. In the first version of
the protocol the last epoch was often the best one."""
SEARCH_SUFFIXES: dict[Version, str] = {"first": "", "current": "-v2"}
"""Of the folders of searches: versions start from other recipes, and share no trials."""
QUICK_EPOCHS = {"fasttext": 5, "cnn": 2, "lstm": 2, "transformer": 1}

SIMILAR = {"cr": "mr", "sst2": "mr", SST2_SENTENCES: "mr"}
"""Reviews, which may use the hyperparameters that were searched on MR."""
SEARCH_EPOCHS = 0.5
"""Trials of the search space "table" are trained for this share of the epochs."""

Budget = Literal["full", "quick"]
SearchKey = tuple[str, str, str]
"""Data set, encoder and embedding of a search."""


@dataclass(frozen=True)
class SearchConfig:
    """How the hyperparameters of every encoder and embedding are searched."""

    trials: int
    space: SpaceName = "narrow"
    on: str | None = None
    """The data set whose best hyperparameters all others use; `"similar"`: see `SIMILAR`; `None`:
    each has its own search."""

    def to_dict(self) -> Record:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def flags(self) -> str:
        """As flags of the command line."""
        space = "" if self.space == "narrow" else f" --search-space {self.space}"
        on = f" --search-on {self.on}" if self.on else ""
        return f" --search-trials {self.trials}{space}{on}"

    def key(self, cell: TrainingCell) -> SearchKey:
        """The search whose result a cell uses."""
        on = SIMILAR.get(cell.dataset, cell.dataset) if self.on == "similar" else self.on
        return on or cell.dataset, cell.encoder, cell.embedding


MAX_LENGTH = 512
"""Words of a text, which is more than any of these has."""


@dataclass(frozen=True)
class Protocol:
    """How cells are trained.

    Args:
        budget: `quick` for few epochs, to see within minutes that everything runs.
        search: where hyperparameters come from; `None` for the recipes.
        best_settings: the results of the searches.
        folder: recipes to use instead, ENCODER-DATASET.yaml or ENCODER.yaml.
        version: `first` for the recipes and epochs of the first records, with narrow windows in
            the CNN and one dropout for word vectors and features.
    """

    budget: Budget = "full"
    search: SearchConfig | None = None
    best_settings: Mapping[SearchKey, Record] = field(default_factory=dict)
    folder: Path | None = None
    version: Version = "current"
    # Folds and seeds share settings, and a grid asks for them a thousand times.
    _cache: dict[TrainingCell, Record] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def common_key(self) -> Record:
        """The part of the key that all cells have in common."""
        return {
            "budget": self.budget,
            "search": None if self.search is None else self.search.to_dict(),
        }

    def key(self, cell: TrainingCell, kind: str = "run") -> Record:
        """What identifies the record of a cell."""
        key = {"kind": kind, **asdict(cell), **self.common_key(), "settings": self.settings(cell)}
        return {**key, "search": None} if cell.is_anchor else key

    def covers(self, cell: TrainingCell) -> bool:
        """Whether there is a recipe for the cell, and the result of a search if it needs one."""
        try:
            self.settings(cell)
        except (KeyError, ValueError):
            return False
        return True

    def settings(self, cell: TrainingCell) -> Record:
        """The settings that the protocol sets, by section of the configuration."""
        if cell.is_anchor:
            return anchor_settings(cell.encoder)
        row = replace(cell, fold=0, seed=0)
        if row not in self._cache:
            given = self._given(row)
            values = flatten(with_settings(ClassificationConfig(), **given))
            explicit = {name: values[name] for name in given}
            self._cache[row] = nested(ClassificationConfig, explicit)
        return self._cache[row]

    def config(self, cell: TrainingCell) -> ClassificationConfig:
        """The complete configuration of a cell."""
        place = {"data": cell.dataset, "fold": cell.fold, "seed": cell.seed}
        # The number of learned positions, which counts among the parameters of `pe`.
        given = {"max_length": MAX_LENGTH} | self._given(cell) | place
        return with_settings(ClassificationConfig(), **given)

    def without_search(self) -> Protocol:
        """The same with the hyperparameters of the recipes."""
        return replace(self, search=None, best_settings={})

    def _given(self, cell: TrainingCell) -> dict[str, Any]:
        """The settings that differ from the defaults, by the names of their flags."""
        found: Record = {}
        if self.search is not None:
            key = self.search.key(cell)
            if key not in self.best_settings:
                what = f"{cell.encoder} with {cell.embedding} on {key[0]}"
                raise WordwaveError(f"there is no search of {self.search.trials} trials for {what}")
            found = self.best_settings[key]
        given = self._recipe(cell) | flat(found)
        if self.budget == "quick":
            given["epochs"] = QUICK_EPOCHS[cell.encoder]
        if cell.encoder == "cnn":  # always in the key: records without it had narrow windows
            given.setdefault("padding", ClassificationConfig().model.padding)
        row = {"encoder": cell.encoder, "embedding": cell.embedding}
        return given | row | VARIANTS[cell.variant]

    def _recipe(self, cell: TrainingCell) -> dict[str, Any]:
        """The same for every embedding."""
        shipped = FIRST_RECIPES if self.version == "first" else recipes.FOLDER
        folder = self.folder or shipped
        own, general = (
            folder / f"{name}.yaml" for name in (f"{cell.encoder}-{cell.dataset}", cell.encoder)
        )
        path = own if own.is_file() else general
        if not path.is_file():
            raise WordwaveError(f"'{folder}' must hold a recipe {general.name}, there is none")
        settings = read_settings(path)
        from_dict(ClassificationConfig, settings, where=f"'{path}'")  # names the file in errors
        recipe = flat(settings)
        factors = EPOCH_FACTORS[self.version]
        if self.folder is None and path == general and cell.dataset in factors:
            recipe["epochs"] = max(round(factors[cell.dataset] * recipe["epochs"]), 1)
        return recipe


def load_cell_splits(dataset: str, fold: int = 0) -> Splits:
    """The training, validation and test sets, the same for every row."""
    from wordwave.data.registry import dataset_named
    from wordwave.data.splits import load_split, load_splits

    if dataset != SST2_SENTENCES:
        return load_splits(dataset, fold=fold)
    train = load_split(dataset_named("sst2"), "sentences")
    return replace(load_splits("sst2"), train=replace(train, name=f"{SST2_SENTENCES} train"))
