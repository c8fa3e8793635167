"""What happened in a training, for people and for other tools: metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wordwave.files import naming, write_text


class Journal:
    """Appends a record for every epoch; of a run that goes on, it forgets what comes again.

    Args:
        folder: gets `metrics.jsonl`, and `tensorboard/` where that package is installed.
        step: the step from which the run goes on.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [r for r in read_journal(self.path) if r["step"] <= step]
        write_text(self.path, "".join(json.dumps(r) + "\n" for r in kept))
        self.board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with naming(folder / "tensorboard"):
            self.board = SummaryWriter(
                str(folder / "tensorboard"), purge_step=step + 1 if step else None
            )

    def write(self, step: int, **figures: float | bool | None) -> None:
        """Add one record."""
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **figures}) + "\n")
        if self.board is not None:
            with naming(self.path.with_name("tensorboard")):
                for name, value in figures.items():
                    if value is not None:
                        self.board.add_scalar(name, value, step)
                self.board.flush()

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The records of a journal; a last line cut short by a kill is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "step" in record:
            records.append(record)
    return records
