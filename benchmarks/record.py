"""From times to judged ratios, and what is written down of them."""

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

from wordwave.training.precision import has_native_bf16

PEERS = ("complextorch", "complexPyTorch", "torchcvnn")
FASTEST = "fastest"
EMULATED = "no native bf16 on this CPU: emulated, not judged"

Record = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """What a ratio must reach: the peer's time / ours at least, or ours / the peer's `at_most`."""

    value: float
    goal: float | None = None
    at_most: bool = False

    def ratio(self, ours: float, peer: float) -> float:
        return ours / peer if self.at_most else peer / ours

    def holds(self, ratio: float) -> bool:
        return ratio <= self.value if self.at_most else ratio >= self.value


NO_BAR = Bar(0)


def compare(
    times: Mapping[str, float], ran_in: Mapping[str, str], bars: Mapping[str, Bar], unjudged: str
) -> list[Record]:
    """The first contender against each other one, and against the fastest if that has a bar.

    Args:
        times: milliseconds of each contender.
        ran_in: precision of each, and why if it is not the one asked for.
        bars: by peer, or for the fastest of them.
        unjudged: why no bar is to be judged, empty if all are.
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
            "holds": bar.holds(ratio) if bar and not unjudged else None,
            "peer_ran_in": ran_in[peer],
            "note": unjudged,
        }
        records.append(record)
    return records


def surroundings() -> Record:
    """The part of a record that is the same for all rows of a run."""
    return {
        "timing": "CPU time of the process, freed memory kept",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": _cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "native_bf16": has_native_bf16(),
        "peer_versions": {name: version(name) for name in PEERS},
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def write(records: Sequence[Record], path: Path) -> None:
    """Append records to a file, all at once; what it holds stays, the newest of a row counts."""
    old = path.read_text() if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(old + "".join(f"{json.dumps(record)}\n" for record in records))
    beside.replace(path)
