"""`python -m benchmarks.large_files`: memory and time of training a classifier on a large table.

Generated rows of 12 words of a Zipf distribution over 50,000, with one of four labels, are written
to a csv file; `wordwave train classify` reads it and trains for one epoch, on one core, in a
process of its own, whose peak memory is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = Path(__file__).parents[1] / "results" / "large_files.jsonl"
N_WORDS, N_KINDS, N_CLASSES = 12, 50_000, 4
AT_ONCE = 100_000


def write_rows(path: Path, n: int) -> None:
    """A csv file of n rows; a tenth of the words of a row tell its label."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(10, N_KINDS + 10)
    limits = np.cumsum(shares / shares.sum())
    words = np.array([f"w{i:x}" for i in range(N_KINDS)])
    with path.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        for start in range(0, n, AT_ONCE):
            size = min(AT_ONCE, n - start)
            labels = rng.integers(N_CLASSES, size=size)
            drawn = np.minimum(np.searchsorted(limits, rng.random((size, N_WORDS))), N_KINDS - 1)
            telling = rng.random(drawn.shape) < 0.1
            drawn = np.where(telling, drawn // N_CLASSES * N_CLASSES + labels[:, None], drawn)
            texts = words[np.minimum(drawn, N_KINDS - 1)]
            rows = (f"{' '.join(row)},class {k}\n" for row, k in zip(texts, labels, strict=True))
            file.writelines(rows)


def measured(n: int, folder: Path) -> dict[str, Any]:
    """Train on n rows: seconds of CPU time, and the peak memory of the process."""
    path = folder / f"{n}.csv"
    write_rows(path, n)
    command = [sys.executable, "-m", "wordwave", "train", "classify", "--data", str(path)]
    command += ["--epochs", "1", "--out", str(folder / f"run-{n}")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status:
        raise SystemExit(f"training on {n:,} rows failed")
    result = json.loads((folder / f"run-{n}" / "result.json").read_text())
    size = path.stat().st_size
    path.unlink()
    return {
        "rows": n,
        "words_per_row": N_WORDS,
        "file_megabytes": size // 2**20,
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_seconds": round(wall, 1),
        "training_wall_seconds": result["seconds"],
        "peak_megabytes": usage.ru_maxrss // 1024,
        "dev_accuracy": result["dev_accuracy"],
        "parameters": result["parameters"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_files", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 2_000_000, 5_000_000])
    parser.add_argument("--output", type=Path, default=RECORDS, help="records are appended to it")
    options = parser.parse_args()
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    for n in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            record = measured(n, Path(folder)) | {"date": date}
        print(json.dumps(record), flush=True)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
