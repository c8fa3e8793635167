"""Settings of translation models that work: translate-*.yaml."""

from __future__ import annotations

from pathlib import Path

from wordwave.plain import from_plain, read_yaml
from wordwave.tasks.translate_config import TranslateConfig

FOLDER = Path(__file__).parent
RECIPES = tuple(sorted(path.stem for path in FOLDER.glob("translate-*.yaml")))


def read_translation_recipe(name: str) -> TranslateConfig:
    """The settings in NAME.yaml."""
    if name not in RECIPES:
        raise ValueError(f"there is no recipe {name!r}; there are: {', '.join(RECIPES)}")
    path = FOLDER / f"{name}.yaml"
    return from_plain(TranslateConfig, read_yaml(path), where=f"'{path}'")
