"""`python -m benchmarks.half_precision`: what tables of half precision cost a classifier.

The default classifier is trained on the training part of a data set (`wordwave data prepare`) and
saved in both precisions; both are scored on the validation part. Test parts are not used.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

import torch

from wordwave.config_io import with_settings
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig
from wordwave.tasks.run_folder import WEIGHTS, Precision

RECORDS = Path(__file__).parents[1] / "results" / "half_precision.jsonl"


def measured(data: str, seed: int) -> dict[str, Any]:
    """Bytes of the weights and validation accuracy in both precisions."""
    job = ClassificationJob(with_settings(ClassificationConfig(), data=data, seed=seed))
    parts = replace(job.load_data(), test=None)
    assert parts.dev is not None
    job.prepare(parts)
    for _ in job.run(job.training()):
        pass
    sizes, right, found = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for dtype in get_args(Precision):
            path = Path(folder) / dtype
            job.text_model.save(path, dtype)
            sizes[dtype] = (path / WEIGHTS).stat().st_size
            classifier = TextClassifier.load(path)
            found.append(classifier.probabilities(parts.dev.texts))
            names = [classifier.labels[i] for i in found[-1].argmax(-1).tolist()]
            right[dtype] = sum(map(str.__eq__, names, parts.dev.labels))
    n = len(parts.dev)
    return {
        "data": data,
        "seed": seed,
        "examples": n,
        "bytes": sizes,
        "dev_accuracy": {dtype: n_right / n for dtype, n_right in right.items()},
        "changed_predictions": int((found[0].argmax(-1) != found[1].argmax(-1)).sum()),
        "largest_change_of_probability": float((found[0] - found[1]).abs().max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.half_precision")
    parser.add_argument("--data", nargs="+", default=["mr", "trec"], help="data sets by name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RECORDS, help="append records to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for data in options.data:
        for seed in range(options.seeds):
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            record = {**measured(data, seed), "torch": torch.__version__, "time": now}
            print(json.dumps(record), flush=True)
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
