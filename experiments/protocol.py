"""What made a record: versions of what computes, and the commit of the source."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.anchors import settings_of
from experiments.cells import SENTENCES, VARIANTS, Cell
from wordwave import recipes
from wordwave.config_io import from_dict, read_yaml, to_dict
from wordwave.errors import WordwaveError
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Splits
    from wordwave.grid import Record
    from wordwave.search.space import SpaceName


_PACKAGES = ("wordwave", "torch", "numpy", "scikit-learn", "accelerate", "fasttext-numpy2")


@cache
def versions() -> dict[str, str]:
    """Python's version and those of the packages that results rest on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """The commit that the source is at, with a + if it was changed since; `None` for a package."""
    here = str(Path(__file__).parent)
    try:
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", here)
    except (OSError, subprocess.SubprocessError):
        return None
    return head + "+" if changed else head


def _git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    return done.stdout.strip()


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
    "how",
)
"""What makes a record; `how` holds all that the protocol sets of text, model and training."""

SHARE_OF_EPOCHS = {"mr": 0.4, "subj": 0.4, SENTENCES: 0.4, "mpqa": 0.6, "sst2": 0.2}
"""Larger sets are read less often, the same for every row: 600 to 2,700 updates with a CNN."""
QUICK_EPOCHS = {"fasttext": 5, "cnn": 2, "lstm": 2, "transformer": 1}

Budget = Literal["full", "quick"]


@dataclass(frozen=True)
class SearchTerms:
    """How the settings of every encoder and embedding are searched for."""

    trials: int
    pool: SpaceName = "narrow"
    on: str | None = None
    """The data set that all others take their settings from; `None`: each has its own search."""

    def plain(self) -> Record:
        """As records say it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def flags(self) -> str:
        """As the command line says it."""
        pool = "" if self.pool == "narrow" else f" --search-pool {self.pool}"
        return f" --search-trials {self.trials}{pool}" + (f" --search-on {self.on}" * bool(self.on))

    def place(self, cell: Cell) -> tuple[str, str, str]:
        """Data set, encoder and embedding of the search that a cell goes by."""
        return self.on or cell.dataset, cell.encoder, cell.embedding


@dataclass(frozen=True)
class Protocol:
    """The terms under which cells run.

    Args:
        budget: `quick` for fewer epochs, to see in minutes that all works.
        search: where settings come from, `None` for the recipes as they are.
        chosen: what searches chose, by data set, encoder and embedding.
        folder: recipes of one's own, ENCODER-DATASET.yaml or ENCODER.yaml.
    """

    budget: Budget = "full"
    search: SearchTerms | None = None
    chosen: Mapping[tuple[str, str, str], Record] = field(default_factory=dict)
    folder: Path | None = None
    # Folds and seeds share settings, and a grid asks for them a thousand times.
    _known: dict[Cell, Record] = field(init=False, repr=False, compare=False, default_factory=dict)

    def terms(self) -> Record:
        """What all cells have in common, as records say it."""
        return {
            "budget": self.budget,
            "search": None if self.search is None else self.search.plain(),
        }

    def key(self, cell: Cell, kind: str = "run") -> Record:
        """What identifies a cell's record."""
        return {"kind": kind, **asdict(cell), **self.terms(), "how": self.how(cell)}

    def knows(self, cell: Cell) -> bool:
        """Whether it can say how a cell is made: by a recipe, and a search if there are any."""
        try:
            self.how(cell)
        except (KeyError, ValueError):
            return False
        return True

    def how(self, cell: Cell) -> Record:
        """All that is set of text, model and training, in the spelling of the config."""
        if cell.is_anchor:
            return settings_of(cell.encoder)
        row = replace(cell, fold=0, seed=0)
        if row not in self._known:
            self._known[row] = self._set_explicitly(row)
        return self._known[row]

    def _set_explicitly(self, cell: Cell) -> Record:
        given = self._given(cell)
        whole = to_dict(from_dict(ClassificationConfig, given, where=f"recipe {cell.encoder}"))
        return {
            part: {name: whole[part][name] for name in sorted(values)}
            for part, values in sorted(given.items())
        }

    def config(self, cell: Cell) -> ClassificationConfig:
        """The complete settings of a cell."""
        config = from_dict(ClassificationConfig, self._given(cell))
        data = replace(config.data, data=cell.dataset, fold=cell.fold)
        return replace(config, data=data, training=replace(config.training, seed=cell.seed))

    def unsearched(self) -> Protocol:
        """The same, with the recipes as they are."""
        return replace(self, search=None, chosen={})

    def _given(self, cell: Cell) -> dict[str, dict[str, Any]]:
        found: Mapping[str, Any] = {}
        if self.search is not None:
            place = self.search.place(cell)
            if place not in self.chosen:
                what = f"{cell.encoder} with {cell.embedding} on {place[0]}"
                raise WordwaveError(f"there is no search of {self.search.trials} trials for {what}")
            found = self.chosen[place]
        given = {part: dict(values) for part, values in self._recipe(cell).items()}
        model, training = given.setdefault("model", {}), given.setdefault("training", {})
        for part, values in found.items():
            given.setdefault(part, {}).update(values)
        if self.budget == "quick":
            training["epochs"] = QUICK_EPOCHS[cell.encoder]
        model.update(
            {"encoder": cell.encoder, "embedding": cell.embedding, **VARIANTS[cell.variant]}
        )
        return given

    def _recipe(self, cell: Cell) -> dict[str, Any]:
        """The same for every embedding."""
        folder = self.folder or recipes.FOLDER
        own, general = (
            folder / f"{name}.yaml" for name in (f"{cell.encoder}-{cell.dataset}", cell.encoder)
        )
        if own.is_file():
            return read_yaml(own)
        if not general.is_file():
            raise WordwaveError(f"'{folder}' must hold a recipe {general.name}, there is none")
        recipe = read_yaml(general)
        if self.folder is None and cell.dataset in SHARE_OF_EPOCHS:
            epochs = round(SHARE_OF_EPOCHS[cell.dataset] * recipe["training"]["epochs"])
            recipe["training"]["epochs"] = max(epochs, 1)
        return recipe


def parts_of(dataset: str, fold: int = 0) -> Splits:
    """What to learn from, what to choose by and what to report on: the same for every row."""
    from wordwave.data.registry import data_home, dataset_named
    from wordwave.data.splits import load_splits
    from wordwave.data.tables import read_headerless

    if dataset != SENTENCES:
        return load_splits(dataset, fold=fold)
    sst2 = dataset_named("sst2")
    part = sst2.part("sentences")
    assert part is not None
    train = read_headerless(data_home() / part.file, sst2.classes)
    return replace(load_splits("sst2"), train=replace(train, name=f"{SENTENCES} train"))
