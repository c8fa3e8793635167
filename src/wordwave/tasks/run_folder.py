"""A run folder, whatever the task: config.yaml, model.safetensors, result.json, state/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from wordwave import __version__
from wordwave.files import write_text, write_whole
from wordwave.plain import dump_yaml, from_plain, to_plain
from wordwave.tasks.kind import run_config

C = TypeVar("C")
M = TypeVar("M", bound=nn.Module)

WEIGHTS = "model.safetensors"


def save_config(folder: Path, task: str, config: Any) -> None:
    """Write config.yaml."""
    about = {"task": task, "version": __version__, **to_plain(config)}
    write_text(folder / "config.yaml", dump_yaml(about))


def read_config(folder: Path, task: str, kind: type[C]) -> C:
    """The config of a run folder of a task."""
    plain = run_config(folder)
    found = plain.pop("task", None)
    plain.pop("version", None)
    if found != task:
        uses = {"classify": "predict", "translate": "translate", "lm": "generate"}
        hint = f"; wordwave {uses[found]} takes it" if found in uses else ""
        raise ValueError(f"'{folder}' is a run of {found!r}, wanted one of {task!r}{hint}")
    return from_plain(kind, plain, where=f"'{folder / 'config.yaml'}'")


def check_trained(folder: Path) -> None:
    """Refuse a run that has no weights yet."""
    if not (folder / WEIGHTS).exists():
        raise ValueError(
            f"'{folder}' holds no trained model yet: the command that trains it goes on"
        )


def save_weights(
    folder: Path, task: str, model: nn.Module, weights: dict[str, Tensor] | None = None
) -> None:
    """The model's weights, or others of the same shapes, such as the best so far."""
    weights = model.state_dict() if weights is None else weights
    whole = {name: w.detach().cpu().contiguous() for name, w in weights.items()}
    header = {"format": "pt", "task": task}
    write_whole(folder / WEIGHTS, lambda new: save_file(whole, new, metadata=header))


def load_weights(folder: Path, model: M) -> M:
    """The model with the weights of a run, ready to use."""
    path = folder / WEIGHTS
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as problem:
        reason = str(problem).splitlines()[-1].strip()[:200]
        raise ValueError(f"'{path}' does not hold this model: {reason}") from None
    return model.eval()


def check_same(folder: Path, task: str, config: Any, *, but: tuple[str, str] | None = None) -> None:
    """Refuse to go on with a run that was begun with other settings.

    Args:
        but: part and name of a setting that may differ.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'{folder}' is a file, not the folder of a run: choose another --out")
    if not (folder / "config.yaml").exists():
        return
    there = to_plain(read_config(folder, task, type(config)))
    for part, settings in to_plain(config).items():
        for name, value in settings.items():
            if there[part][name] != value and (part, name) != but:
                raise ValueError(
                    f"'{folder}' holds a run with {name} {there[part][name]!r}, here it is "
                    f"{value!r}: choose another --out, or remove that folder"
                )


def finished(folder: Path) -> dict[str, Any] | None:
    """The figures of a finished run, `None` for one under way."""
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(
            f"'{path}' is not the result of a run ({problem}); remove it to train anew"
        ) from None
    return result
