"""Which task a run folder is of. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wordwave.plain import conform, read_yaml


def task_of(folder: Path) -> str:
    """The task that a run was trained for: classify, lm, …"""
    task: str = run_config(folder)["task"]
    return task


def run_config(folder: Path) -> dict[str, Any]:
    """What config.yaml of a run folder says: a task, and its settings."""
    path = folder / "config.yaml"
    if not folder.is_dir() or not path.exists():
        raise ValueError(f"'{folder}' is not a run folder: it has no config.yaml")
    plain = read_yaml(path)
    conform(plain.get("task"), str, where=f"'{path}': task")
    return plain
