"""A run folder, whatever the task: config.yaml, model.safetensors, result.json, state/."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from wordwave import __version__
from wordwave.files import write_text
from wordwave.plain import conform, dump_yaml, from_plain, read_json, to_plain
from wordwave.tasks.kind import run_config
from wordwave.tensor_files import TensorFile, check_like, write_tensors

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
    found = plain.pop("task")
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
    write_tensors(folder / WEIGHTS, weights, format="pt")


def load_model(folder: Path, build: Callable[[], M], *, dim: int) -> M:
    """The model of a run, ready to use.

    Args:
        dim: the width of its embedding.
        build: makes the model that config.yaml describes, with any weights. It is called for the
            second time, and takes memory, only if the weights are those of such a model.
    """
    path = folder / WEIGHTS
    try:
        file = TensorFile(path)
        largest = max((tensor.numel() for tensor in file.outlines.values()), default=0)
        if dim > largest:  # some starting values are computed by Python, number by number
            raise ValueError(
                f"size mismatch: dim is {dim}, the largest tensor has {largest:,} numbers"
            )
        check_like(file.outlines, _outlines(build, 2 * len(file.outlines) + 10, largest))
        weights = file.load()
    except ValueError as problem:
        raise ValueError(f"'{path}' does not hold this model: {problem}") from None
    model = build()
    model.load_state_dict(weights)
    return model.eval()


def _outlines(build: Callable[[], nn.Module], most: int, largest: int) -> dict[str, Tensor]:
    """The names, dtypes and shapes of a model's weights, without making room for their numbers."""
    try:
        with _no_more_than(most, largest), torch.device("meta"):
            return build().state_dict()
    except (RuntimeError, OverflowError, TypeError) as problem:  # sizes that torch cannot count
        reason = str(problem).splitlines()[0][:200]
        raise ValueError(f"config.yaml describes none ({reason})") from None


@contextmanager
def _no_more_than(most: int, largest: int) -> Iterator[None]:
    """Stop building a model at the first parameter that a file of weights cannot have: a million
    layers take long even without numbers."""
    thread, n = threading.get_ident(), 0

    def check(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal n
        if parameter is None or threading.get_ident() != thread:
            return
        n += 1
        if n > most:
            raise ValueError(f"size mismatch: config.yaml describes more than {most:,} tensors")
        if parameter.numel() > largest:
            raise ValueError(
                f"size mismatch: the largest tensor has {largest:,} numbers, that of the model "
                f"{parameter.numel():,}"
            )

    hook = register_module_parameter_registration_hook(check)
    try:
        yield
    finally:
        hook.remove()


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


def finished(folder: Path, figures: Any) -> dict[str, Any] | None:
    """The figures of a finished run, `None` for one under way.

    Args:
        figures: the `TypedDict` that result.json must be.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = read_json(path)
        conform(result, figures, where="it")
    except ValueError as problem:
        raise ValueError(
            f"'{path}' is not the result of a run ({problem}); remove it to train anew"
        ) from None
    return result
