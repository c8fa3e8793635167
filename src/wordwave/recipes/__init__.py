"""Settings that work, one file for each encoder."""

from __future__ import annotations

from pathlib import Path

from wordwave.plain import from_plain, read_yaml
from wordwave.tasks.config import ClassifyConfig

FOLDER = Path(__file__).parent


def read_recipe(name: str, folder: Path | None = None) -> ClassifyConfig:
    """The settings in NAME.yaml, of the recipes that come along or of a folder."""
    path = (folder or FOLDER) / f"{name}.yaml"
    if not path.is_file():
        found = sorted(p.stem for p in (folder or FOLDER).glob("*.yaml") if "-" not in p.stem)
        known = ", ".join(found) or "none"
        where = f" in '{folder}'" if folder else ""
        raise ValueError(f"there is no recipe {name!r}{where}; there are: {known}")
    return from_plain(ClassifyConfig, read_yaml(path), where=f"'{path}'")
