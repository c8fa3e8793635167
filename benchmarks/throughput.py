"""`python -m benchmarks.throughput`: speed, memory and accuracy of whole classifiers, from texts to
labels, on one core.

The default bag of waves beside the fastText library, with vectors of the same width, and TF-IDF of
bigrams with logistic regression, on the same texts. Each training runs in a process of its own, the
contenders alternate, and figures are medians of CPU time. Needs prepared data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from wordwave.data.examples import Examples
from wordwave.data.registry import data_home
from wordwave.data.splits import Splits, cut_dev, load_splits
from wordwave.data.tables import read_prepared
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.config import ClassificationConfig, DataConfig

RECORDS = Path(__file__).parents[1] / "results" / "throughput.jsonl"
DIM = 100
"""Width of the vectors of both, in complex numbers for waves; fastText's default."""
Predict = Callable[[list[str]], list[str]]
Train = Callable[[Splits], tuple[Predict, int, Callable[[], None]]]
"""Returns a predictor, the number of epochs, and a function that clears its cache."""


def waves(parts: Splits) -> tuple[Predict, int, Callable[[], None]]:
    config = ClassificationConfig()
    model = replace(config.model, dim=DIM)
    job = ClassificationJob(replace(config, data=DataConfig(data="(in memory)"), model=model))
    training = job.prepare(parts).training()
    for _ in job.run(training):
        pass
    return job.text_model.predict, training.progress.epoch, job.text_model.clear_cache


def fasttext(parts: Splits) -> tuple[Predict, int, Callable[[], None]]:
    import fasttext as library

    epochs = 25
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        examples = list(zip(parts.train.texts, parts.train.labels, strict=True))
        random.Random(0).shuffle(examples)  # it does not shuffle, and files are sorted by class
        for text, label in examples:
            file.write(f"__label__{label} {text.lower()}\n")
        file.flush()
        model = library.train_supervised(
            file.name, wordNgrams=2, epoch=epochs, lr=0.5, dim=DIM, thread=1, verbose=0
        )

    def predict(texts: list[str]) -> list[str]:
        predicted, _ = model.predict([text.lower() for text in texts])
        return [labels[0].removeprefix("__label__") for labels in predicted]

    return predict, epochs, lambda: None


def tfidf(parts: Splits) -> tuple[Predict, int, Callable[[], None]]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    model.fit(parts.train.texts, parts.train.labels)
    return lambda texts: list(model.predict(texts)), 1, lambda: None


CONTENDERS: dict[str, Train] = {
    "bag of waves": waves,
    "fastText, bigrams": fasttext,
    "TF-IDF bigrams + logistic regression": tfidf,
}


def splits_of(data: str) -> Splits:
    """Training, validation and test texts of a data set; of IMDB a tenth is for validation."""
    if data != "imdb":
        return load_splits(data)
    train, test = (read_prepared(data_home() / f"imdb.{p}.tsv.gz") for p in ("train", "test"))
    return Splits(*cut_dev(train), test)


def measured(name: str, data: str) -> dict[str, Any]:
    """One training and its predictions. `fresh` are distinct texts; the second and third time,
    everything that can be cached is."""
    torch.set_num_threads(1)
    train, parts = CONTENDERS[name], splits_of(data)
    test = parts.test
    assert test is not None
    # Imports, and the compiled kernels, are loaded before.
    some = replace(parts.train, texts=parts.train.texts[:200], labels=["a", "b"] * 100)
    train(Splits(some, some, some))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    predict, epochs, forget = train(parts)
    training = time.process_time() - start
    right = sum(a == b for a, b in zip(predict(test.texts), test.labels, strict=True))
    fresh = list(dict.fromkeys(_texts(parts)))
    forget()
    first, _, third = (_seconds(lambda: predict(fresh)) for _ in range(3))
    return {
        "contender": name,
        "data": data,
        "test_accuracy": right / len(test),
        "training_seconds": round(training, 2),
        "trained_sentences_per_second": round(epochs * len(parts.train) / training),
        "predicted_sentences_per_second": round(len(fresh) / first),
        "predicted_again_per_second": round(len(fresh) / third),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "megabytes_before": before // 1024,
        "dim": DIM,
        "epochs": epochs,
        "n_predicted": len(fresh),
        "torch": torch.__version__,
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["trec", "mr", "imdb"], help="data sets")
    parser.add_argument("--repeats", type=int, default=3, help="trainings of each contender")
    parser.add_argument("--output", type=Path, default=RECORDS, help="records are appended to it")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one)))
        return 0
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
        for _ in range(options.repeats):
            for name in CONTENDERS:
                command = [sys.executable, "-m", "benchmarks.throughput", "--one", name, data]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                record = json.loads(done.stdout.splitlines()[-1]) | {"date": date}
                found[name].append(record)
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
        show(data, found)
    return 0


def show(data: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """Medians, and ratios to fastText."""
    table = Table(box=box.SIMPLE_HEAD, title=f"{data}: one core, sentences a second")
    columns = ("contender", "test accuracy", "trains", "", "predicts", "", "again", "peak MB")
    for column in columns:
        table.add_column(column, justify="left" if column == "contender" else "right")

    def median(name: str, key: str) -> float:
        return statistics.median(record[key] for record in found[name])

    for name in found:
        cells = [name, f"{median(name, 'test_accuracy'):.4f}"]
        for key in ("trained_sentences_per_second", "predicted_sentences_per_second"):
            ratio = median(name, key) / median("fastText, bigrams", key)
            cells += [f"{median(name, key):,.0f}", f"{ratio:.2f}"]
        again, peak = median(name, "predicted_again_per_second"), median(name, "peak_megabytes")
        table.add_row(*cells, f"{again:,.0f}", f"{peak:,.0f}")
    Console().print(table)


def _texts(parts: Splits) -> list[str]:
    held: list[Examples | None] = [parts.train, parts.dev, parts.test]
    return [text for part in held if part is not None for text in part.texts]


if __name__ == "__main__":
    sys.exit(main())
