"""`python -m benchmarks.sentences`: sentence vectors per second, and the training time of a bag.

From texts to vectors on one core: the encoder that comes with wordwave and the bag of waves of a
matcher, beside all-MiniLM-L6-v2, WordLlama, TF-IDF and hashed words. Then a bag of waves and a
BiLSTM are trained on PAWS-Wiki, an epoch of one after an epoch of the other, with the settings that
results/pairs chose. Exit 1 if a target is missed. Needs the data home, and the extra `rivals`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measure import fix_environment
from benchmarks.record import cpu_name, write
from experiments.outside import outside_encoder
from experiments.pairs import PairTable
from wordwave import SentenceEncoder
from wordwave.data.pairs import load_part
from wordwave.training.loop import Epoch

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "sentences.jsonl"
N_TEXTS, N_SLOW = 8_000, 250
"""Sentences per call, and of a Transformer."""
MINILM, MIN_RATIO, GOAL = "all-MiniLM-L6-v2", 30, 50_000
BAGS, LSTM = ("sum of waves", "sum of waves, 3 views and context"), "BiLSTM"
MAX_SHARE, MAX_LOSS = 0.1, 0.01
"""Of the BiLSTM's training time, and of its validation AUC."""


@dataclass(frozen=True)
class Contender:
    """A way from texts to vectors."""

    name: str
    encode: Callable[[Sequence[str]], object]
    forget: Callable[[], object] = lambda: None
    """Empty caches: every text is new."""
    n_texts: int = N_TEXTS


def pair_table() -> PairTable:
    return PairTable("paws-wiki", ROOT / "results" / "pairs", Path("out/pairs"))


def contenders() -> list[Contender]:
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

    encoder = SentenceEncoder.from_pretrained()
    table = pair_table()
    bags = []
    for bag in BAGS:
        matcher = table.prepared(table.chosen()[bag]).text_model  # no faster when it is trained
        bags.append(Contender(f"matcher, {bag}", matcher.encode, matcher.encoder.clear_cache))
    texts = load_part("paws-wiki", "dev").first
    tfidf = TfidfVectorizer(sublinear_tf=True).fit(texts)
    return [
        Contender("encoder", encoder.encode, encoder.encoder.clear_cache),
        *bags,
        Contender(MINILM, outside_encoder(MINILM), n_texts=N_SLOW),
        Contender("WordLlama", outside_encoder("WordLlama")),
        Contender("TF-IDF, sparse", tfidf.transform),
        Contender("hashed words, sparse", HashingVectorizer().transform),
    ]


def encoding(rounds: int) -> list[dict[str, Any]]:
    """Sentences per second of each contender, in turns."""
    texts = list(dict.fromkeys(load_part("paws-wiki", "dev").second))
    random.Random(0).shuffle(texts)
    every = contenders()
    seconds: dict[str, list[float]] = {one.name: [] for one in every}
    for _ in range(rounds + 1):  # the first one warms up
        for one in random.sample(every, len(every)):
            given = random.sample(texts, min(one.n_texts, len(texts)))
            one.forget()
            start = time.process_time()
            one.encode(given)
            seconds[one.name].append((time.process_time() - start) / len(given))
    rates = {name: 1 / statistics.median(found[1:]) for name, found in seconds.items()}
    words = statistics.fmean(len(text.split()) for text in texts)
    return [
        {
            "what": "encoding",
            "contender": name,
            "per_second": round(rate),
            "ratio": round(rate / rates[MINILM], 1),
            "words": round(words, 1),
            "rounds": rounds,
        }
        for name, rate in rates.items()
    ]


def training() -> list[dict[str, Any]]:
    """Bags and a BiLSTM, an epoch of each in turns."""
    table = pair_table()
    chosen = {row: table.chosen()[row] for row in (*BAGS, LSTM)}
    trainings = {row: table.prepared(cell).training() for row, cell in chosen.items()}
    runs = {row: one.run() for row, one in trainings.items()}
    epochs: dict[str, list[float]] = {row: [] for row in runs}
    while runs:
        for row in random.sample([*runs], len(runs)):
            start = time.process_time()
            if not any(isinstance(report, Epoch) for report in _up_to_epoch(runs[row])):
                del runs[row]
                continue
            epochs[row].append(time.process_time() - start)
    of_lstm = statistics.median(epochs[LSTM])
    return [
        {
            "what": "training",
            "contender": row,
            "seconds": round(sum(found), 1),
            "epochs": len(found),
            "share": round(statistics.median(found) / of_lstm, 4),
            "auc": round(trainings[row].progress.best_score, 4),
        }
        for row, found in epochs.items()
    ]


def _up_to_epoch(run: Any) -> list[Any]:
    """The reports of a training up to its next evaluation."""
    reports = []
    for report in run:
        reports.append(report)
        if isinstance(report, Epoch):
            break
    return reports


def missed(records: list[dict[str, Any]]) -> list[str]:
    """The targets that are missed, a line for each."""
    found = []
    for record in records:
        name = record["contender"]
        if name == "encoder" and record["ratio"] < MIN_RATIO:
            found.append(f"the encoder is {record['ratio']} times as fast as {MINILM}")
    trained = {r["contender"]: r for r in records if r["what"] == "training"}
    if trained and not any(
        trained[bag]["share"] <= MAX_SHARE
        and trained[bag]["auc"] >= trained[LSTM]["auc"] - MAX_LOSS
        for bag in BAGS
    ):
        found.append(f"no bag has the AUC of the {LSTM} at {MAX_SHARE:.0%} of its training time")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sentences", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="timed calls of each encoder")
    parser.add_argument("--no-training", action="store_true", help="measure encoding only")
    parser.add_argument("--output", type=Path, default=RECORDS, help="append records to this file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    fix_environment()
    random.seed(0)
    records = encoding(options.rounds) + ([] if options.no_training else training())
    table = Table(box=box.SIMPLE_HEAD, title="one core")
    for column in ("what", "contender", "sentences/s or seconds", f"× {MINILM} or share", "AUC"):
        table.add_column(column)
    for r in records:
        size = f"{r.get('per_second', r.get('seconds')):,}"
        auc = str(r.get("auc", ""))
        table.add_row(r["what"], r["contender"], size, str(r.get("ratio", r.get("share"))), auc)
    Console().print(table)
    same = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": cpu_name(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    write([record | same for record in records], options.output)
    problems = missed(records)
    for problem in problems:
        Console().print(f"[red]missed[/]: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
