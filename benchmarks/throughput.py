"""`python -m benchmarks.throughput`: speed and accuracy of whole classifiers, from texts to labels.

FastText with waves, the fastText library, and TF-IDF of bigrams with logistic regression, on the
same texts and one core. Needs prepared data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
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

from wordwave.data.splits import Splits, load_splits
from wordwave.data.tables import Examples
from wordwave.recipes import read_recipe
from wordwave.tasks.classification import ClassificationJob
from wordwave.tasks.config import DataConfig

RECORDS = Path(__file__).parents[1] / "results" / "throughput.jsonl"
Predict = Callable[[list[str]], list[str]]
Train = Callable[[Splits], tuple[Predict, int, Callable[[], None]]]
"""Returns a predictor, the number of epochs, and a function that clears its cache."""


def waves(parts: Splits) -> tuple[Predict, int, Callable[[], None]]:
    recipe = read_recipe("fasttext")
    config = replace(recipe, data=DataConfig(data="(in memory)"))
    job = ClassificationJob(config).prepare(parts)
    training = job.training()
    for _ in training.run():
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
            file.name, wordNgrams=2, epoch=epochs, lr=0.5, dim=100, thread=1, verbose=0
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
    "FastText, complex-order": waves,
    "fastText, bigrams": fasttext,
    "TF-IDF bigrams + logistic regression": tfidf,
}


def measured(name: str, train: Train, data: str, parts: Splits, fresh: list[str]) -> dict[str, Any]:
    """`fresh` are distinct texts; from the third call on, everything that can be cached is."""
    start = time.process_time()
    predict, epochs, forget = train(parts)
    training = time.process_time() - start
    test = parts.test
    assert test is not None
    right = sum(a == b for a, b in zip(predict(test.texts), test.labels, strict=True))
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
        "n_predicted": len(fresh),
        "torch": torch.__version__,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["trec", "mr"], help="data sets by name")
    parser.add_argument("--output", type=Path, default=RECORDS, help="file of records")
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = []
    table = Table(box=box.SIMPLE_HEAD, title="one core; sentences a second")
    for column in ("data", "contender", "test accuracy", "trains", "predicts", "again"):
        table.add_column(column, justify="left" if column in ("data", "contender") else "right")
    for data in options.data:
        parts = load_splits(data)
        fresh = list(dict.fromkeys(_texts(parts)))
        for name, train in CONTENDERS.items():
            record = measured(name, train, data, parts, fresh)
            records.append(record)
            table.add_row(
                data,
                name,
                f"{record['test_accuracy']:.4f}",
                f"{record['trained_sentences_per_second']:,}",
                f"{record['predicted_sentences_per_second']:,}",
                f"{record['predicted_again_per_second']:,}",
            )
    Console().print(table)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("".join(json.dumps(r) + "\n" for r in records))
    return 0


def _texts(parts: Splits) -> list[str]:
    held: list[Examples | None] = [parts.train, parts.dev, parts.test]
    return [text for part in held if part is not None for text in part.texts]


if __name__ == "__main__":
    sys.exit(main())
