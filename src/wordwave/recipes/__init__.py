"""Settings that work, as YAML: one file for each encoder, translate-*, and lm-*."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from wordwave.plain import from_plain, read_yaml
from wordwave.tasks.config import ClassifyConfig
from wordwave.tasks.lm_config import LmConfig
from wordwave.tasks.translate_config import TranslateConfig

C = TypeVar("C", ClassifyConfig, TranslateConfig, LmConfig)
FOLDER = Path(__file__).parent
TASKS = {ClassifyConfig: "classify", TranslateConfig: "translate", LmConfig: "lm"}
"""Recipes of all but the first begin with the task."""


def recipe_names(kind: type, folder: Path | None = None) -> list[str]:
    """The recipes for one kind of config, of those that come along or of a folder."""
    names = sorted(path.stem for path in (folder or FOLDER).glob("*.yaml"))
    if kind is ClassifyConfig:
        return [name for name in names if "-" not in name]
    return [name for name in names if name.startswith(f"{TASKS[kind]}-")]


def read_recipe(
    name: str,
    kind: type[C] = ClassifyConfig,  # type: ignore[assignment]
    folder: Path | None = None,
) -> C:
    """The settings in NAME.yaml, of the recipes that come along or of a folder."""
    known = recipe_names(kind, folder)
    if name not in known:
        where = f" in '{folder}'" if folder else ""
        raise ValueError(
            f"there is no recipe {name!r} for {TASKS[kind]}{where}; "
            f"there are: {', '.join(known) or 'none'}"
        )
    path = (folder or FOLDER) / f"{name}.yaml"
    return from_plain(kind, read_yaml(path), where=f"'{path}'")
