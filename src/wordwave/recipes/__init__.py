"""Settings that work, as YAML: one file for each encoder, translate-*, and lm-*."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from wordwave.config_io import from_dict, read_settings
from wordwave.errors import WordwaveError
from wordwave.tasks.config import ClassificationConfig, TaskConfig

C = TypeVar("C", bound=TaskConfig)
FOLDER = Path(__file__).parent


def recipe_names(kind: type[TaskConfig], folder: Path | None = None) -> list[str]:
    """The recipes for a task, of those that come along or of a folder: all but those of classifiers
    begin with the task."""
    names = sorted(path.stem for path in (folder or FOLDER).glob("*.yaml"))
    if kind is ClassificationConfig:
        return [name for name in names if "-" not in name]
    return [name for name in names if name.startswith(f"{kind.task}-")]


def read_recipe(
    name: str,
    kind: type[C] = ClassificationConfig,  # type: ignore[assignment]
    folder: Path | None = None,
) -> C:
    """The settings in NAME.yaml, of the recipes that come along or of a folder."""
    known = recipe_names(kind, folder)
    if name not in known:
        where = f" in '{folder}'" if folder else ""
        raise WordwaveError(
            f"there is no recipe {name!r} for {kind.task}{where}; "
            f"there are: {', '.join(known) or 'none'}"
        )
    path = (folder or FOLDER) / f"{name}.yaml"
    return from_dict(kind, read_settings(path), where=f"'{path}'")
