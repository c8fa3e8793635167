"""`python -m experiments encoder`: the sentence encoder that comes with the package, and its card.

Sentences of Wikipedia and Tatoeba are encoded by a teacher, the encoder is trained to imitate it,
and is scored by its cosines, on validation pairs and, with `--score-test` only, on test pairs.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import torch

from experiments.sentence_rows import record_look
from wordwave.config_io import with_settings
from wordwave.data.pairs import load_part
from wordwave.data.registry import data_home
from wordwave.errors import WordwaveError
from wordwave.files import sha256_of, write_text
from wordwave.grid import Record, Store, fits
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import SentenceEmbeddingConfig
from wordwave.tasks.run_folder import WEIGHTS
from wordwave.tasks.sentence_embedding import ScoredPairs, SentenceEmbeddingJob
from wordwave.tasks.sentence_encoder import SentenceEncoder

HELD_OUT = 50_041
"""Sentences at the end of the Wikipedia file that are not used for training."""
N_WIKIPEDIA, N_TATOEBA = 160_000, 90_000
LIMITS = ((16, 175_000), (24, 65_000))
"""Sentences of at most so many words are taken from the first so many of the shuffled ones: long
sentences cost a teacher more."""
SETTINGS = {"bpe_size": 25_000, "epochs": 12}
PAIRS = {"sts-b": "spearman", "sick": "spearman", "paws-wiki": "auc"}
"""Data sets that the encoder is scored on, and by what."""
ORDER_WEIGHTS = (None, 0.0, 0.2, 1.0)
"""α: that of the encoder, and others to compare with."""


FIRST = "9486ecc0cddda5f4"
"""The encoder of the records that do not name one: the first that was shipped."""


class _Scores(TypedDict):
    encoder: str
    data: str
    part: str
    alpha: float
    score: float


def sentence_lines(name: str) -> list[str]:
    """The sentences of a file under sentences/ in the data home: wikipedia or tatoeba."""
    path = data_home() / "sentences" / f"{name}.txt.gz"
    if not path.exists():
        raise WordwaveError(f"'{path}' is not in the data home")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file.read().split("\n")]
    return [line for line in lines if line]


def training_sentences() -> list[str]:
    """A sample of the sentences under sentences/ in the data home, the same at each call."""
    wikipedia, tatoeba = sentence_lines("wikipedia"), sentence_lines("tatoeba")
    long_enough = [line for line in tatoeba if len(line.split()) >= 4]
    pool = random.Random(0).sample(wikipedia[:-HELD_OUT], N_WIKIPEDIA)
    pool += random.Random(0).sample(long_enough, N_TATOEBA)
    random.Random(1).shuffle(pool)
    return [
        line
        for i, line in enumerate(pool)
        if any(len(line.split()) <= n_words and i < first for n_words, first in LIMITS)
    ]


def train(folder: Path, teacher: str) -> Path:
    """Encode the sentences by a teacher, or take its vectors from a file, and train in
    `folder`/run; returns the folder of the encoder as it is shipped, `folder`/encoder."""
    if (shipped := folder / "encoder").exists():
        return shipped
    data = folder / "sentences.txt"
    if not data.exists():
        write_text(data, "".join(f"{line}\n" for line in training_sentences()))
    config = with_settings(SentenceEmbeddingConfig(), data=str(data), teacher=teacher, **SETTINGS)
    job = SentenceEmbeddingJob(config)
    job.check_config(folder / "run")
    if job.finished(folder / "run") is None:
        job.prepare(job.load_data()).train(folder / "run")
    SentenceEncoder.load(folder / "run").save(shipped, dtype="int8")
    return shipped


@dataclass(frozen=True)
class EncoderExperiment:
    """Scores of an encoder, in `out`."""

    encoder_folder: Path
    out: Path
    looks: Path
    """The folder in which looks at test sets are listed."""

    @cached_property
    def sha256(self) -> str:
        """Of the weights, the first 16 digits: records name the encoder by them."""
        return sha256_of([(self.encoder_folder / WEIGHTS).read_bytes()])[:16]

    @property
    def store(self) -> Store:
        return Store(
            self.out / "scores.jsonl",
            ("encoder", "data", "part", "alpha"),
            lambda record: fits(record, _Scores),
            upgrade=lambda record: {"encoder": FIRST, **record},
        )

    def score(self, part: str) -> list[Record]:
        """Score the cosines of a split of each data set, unless they have been."""
        encoder, done, new = SentenceEncoder.load(self.encoder_folder), self.store.done(), []
        usual = encoder.order_weight
        for data, metric in PAIRS.items():
            for weight in ORDER_WEIGHTS:
                alpha = usual if weight is None else weight
                key = {"encoder": self.sha256, "data": data, "part": part, "alpha": alpha}
                if self.store.key_of(key) in done:
                    continue
                encoder.order_weight = alpha
                pairs = load_part(data, part)
                first, second = (encoder.encode(texts) for texts in (pairs.first, pairs.second))
                cosines = torch.from_numpy((first * second).sum(1))
                scored = ScoredPairs(pairs, is_similarity=metric == "spearman")
                found = scored.agreement(cosines)
                record = {**key, "metric": metric, "score": found[metric], "n": len(pairs)}
                self.store.append(record | {"date": date.today().isoformat()})
                if part == "test":
                    model = f"sentence encoder, cosine, order weight {alpha:g}"
                    record_look(self.looks, f"{data} test", model, {metric: found[metric]})
                new.append(record)
        return new

    def table(self) -> ResultTable:
        """A line for each α."""
        mine = [r for r in self.store.records() if r["encoder"] == self.sha256]
        scores = {(r["data"], r["part"], r["alpha"]): r["score"] for r in mine}
        parts = [p for p in ("dev", "test") if any(part == p for _, part, _ in scores)]
        columns = ["α", *(f"{data} {part}" for data in PAIRS for part in parts)]
        rows: list[list[Content]] = [
            [f"{alpha:g}", *(scores.get((data, part, alpha)) for data in PAIRS for part in parts)]
            for alpha in sorted({alpha for _, _, alpha in scores})
        ]
        note = (
            "Cosines of sentence vectors, without training on these pairs: Spearman's ρ (sts-b, "
            "sick), AUC (paws-wiki). α is the weight of word order."
        )
        return ResultTable("encoder", "The sentence encoder", columns, rows, notes=[note])
