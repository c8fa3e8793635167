"""From times to ratios, verdicts and records."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from wordwave.training.devices import has_native_bf16

PEERS = ("complextorch", "complexPyTorch", "torchcvnn")
FASTEST = "fastest"
EMULATED = "no native bf16 on this CPU: emulated, no target applies"

Record = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """The target of a ratio: peer / ours at least, or ours / peer `at_most`."""

    value: float
    goal: float | None = None
    at_most: bool = False

    def ratio(self, ours: float, peer: float) -> float:
        return ours / peer if self.at_most else peer / ours

    def holds(self, ratio: float) -> bool:
        return ratio <= self.value if self.at_most else ratio >= self.value


NO_BAR = Bar(0)


def compare(
    times: Mapping[str, float], ran_in: Mapping[str, str], bars: Mapping[str, Bar], no_target: str
) -> list[Record]:
    """The first contender against each other one, and against the fastest if that has a bar.

    Args:
        times: milliseconds of each contender.
        ran_in: precision of each, with the reason if it is not the requested one.
        bars: targets by peer, or for the fastest of them.
        no_target: why targets do not apply, empty if they do.
    """
    (ours, our_ms), *others = times.items()
    pairs = [(peer, peer, bars.get(peer)) for peer, _ in others]
    if FASTEST in bars:
        peer = min(others, key=lambda other: other[1])[0]
        pairs.append((peer, f"{FASTEST}: {peer}", bars[FASTEST]))
    records = []
    for peer, label, bar in pairs:
        ratio = (bar or NO_BAR).ratio(our_ms, times[peer])
        record = {
            "contender": ours,
            "peer": label,
            "ms": round(our_ms, 3),
            "peer_ms": round(times[peer], 3),
            "ratio": round(ratio, 3),
            "direction": "ours / peer" if bar and bar.at_most else "peer / ours",
            "bar": bar.value if bar else None,
            "goal": bar.goal if bar else None,
            "holds": bar.holds(ratio) if bar and not no_target else None,
            "peer_ran_in": ran_in[peer],
            "note": no_target,
        }
        records.append(record)
    return records


def environment() -> Record:
    """The fields that all records of a run share."""
    return {
        "timing": "CPU time of the process, freed memory kept",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "native_bf16": has_native_bf16(),
        "peer_versions": {name: version(name) for name in PEERS},
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def write(records: Sequence[Record], path: Path) -> None:
    """Append records to a file, atomically; the newest of a row counts."""
    old = path.read_text() if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(old + "".join(f"{json.dumps(record)}\n" for record in records))
    beside.replace(path)
