"""What happened in a training, for people and for other tools: metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, TypedDict

from wordwave.files import naming, read_text, write_text
from wordwave.plain import MOST_JSON, conform, parse_json

FIGURES = ("seconds", "words_per_second")
"""What every record of a training has besides its step."""


class Journal:
    """Appends a record for every epoch; of a resumed run, it drops what will be repeated.

    Args:
        folder: gets `metrics.jsonl`, and `tensorboard/` where that package is installed.
        step: the step from which the run resumes.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.path = folder / "metrics.jsonl"
        found = read_journal(self.path, FIGURES)
        self.records = [r for r in found if r["step"] <= step]
        self._write_all()
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
        record = {"step": step, **figures}
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.records.append(record)
        if self.board is not None:
            with naming(self.path.with_name("tensorboard")):
                for name, value in figures.items():
                    if value is not None:
                        self.board.add_scalar(name, value, step)
                self.board.flush()

    def close(self) -> None:
        self._write_all()  # someone may have removed the file in the meantime
        if self.board is not None:
            self.board.close()

    def _write_all(self) -> None:
        write_text(self.path, "".join(json.dumps(r) + "\n" for r in self.records))


def read_journal(path: Path, figures: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The records of a journal; a last line cut short by a kill is left out.

    Args:
        figures: names of numbers that every record must have.
    """
    if not path.exists():
        return []
    try:
        *lines, _ = read_text(path, most=MOST_JSON).split("\n")
        return [_record(line, i, figures) for i, line in enumerate(lines, start=1)]
    except ValueError as problem:
        raise ValueError(
            f"'{path}' does not hold the figures of a training ({problem}); remove it to resume "
            "without the figures so far"
        ) from None


class _Record(TypedDict):
    step: int


def _record(line: str, number: int, figures: Iterable[str]) -> dict[str, Any]:
    where = f"line {number}"
    try:
        record: dict[str, Any] = parse_json(line)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from None
    conform(record, _Record, where=where)
    for name in figures:
        conform(record.get(name), float, where=f"{where}: {name}")
    for name, value in record.items():
        conform(value, float | bool | None, where=f"{where}: {clipped(name)}")
    return record
