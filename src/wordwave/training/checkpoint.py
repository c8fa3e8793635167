"""The state of a training in one file, without pickle: tensors, and progress in the header."""

from __future__ import annotations

import json
from pathlib import Path

from wordwave.plain import parse_json
from wordwave.tensor_files import TensorFile, write_tensors
from wordwave.training.loop import Training


def save_state(training: Training, path: Path) -> None:
    """Write all that is needed to resume; a kill at any moment leaves the state before."""
    tensors, progress = training.state()
    write_tensors(path, tensors, progress=json.dumps(progress))


def load_state(training: Training, path: Path) -> None:
    """Resume from a file of `save_state`; one that does not fit leaves the training as it was."""
    try:
        file = TensorFile(path)
        progress = parse_json(file.note.get("progress", ""))
        training.check_state(file.outlines, progress)
        training.load_state(file.load(), progress)
    except ValueError as problem:
        raise ValueError(
            f"'{path}' is not a state of this training ({problem}); remove it to start anew"
        ) from None
