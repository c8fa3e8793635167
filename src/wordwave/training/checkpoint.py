"""The state of a training in one file, without pickle: tensors, and progress in the header."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from wordwave.files import write_whole
from wordwave.training.loop import Training


def save_state(training: Training, path: Path) -> None:
    """Write all that is needed to go on; a kill at any moment leaves the state before."""
    tensors, progress = training.state()
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"progress": json.dumps(progress)}
    write_whole(path, lambda new: save_file(whole, new, metadata=header))


def load_state(training: Training, path: Path) -> None:
    """Go on from a file of `save_state`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        training.load_state(tensors, json.loads(header["progress"]))
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as problem:
        raise ValueError(
            f"'{path}' is not a state of this training ({_first_line(problem)}); "
            "remove it to start anew"
        ) from problem


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
