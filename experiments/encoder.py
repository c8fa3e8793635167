"""`python -m experiments encoder`: the sentence encoder that comes with the package, and its card.

Sentences of Wikipedia and Tatoeba are encoded by a teacher, the encoder is trained to imitate it,
and is scored by its cosines, on validation pairs and, with `--score-test` only, on test pairs.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypedDict

import torch

from experiments.sentence_rows import record_look
from wordwave.config_io import with_settings
from wordwave.data.pairs import load_part
from wordwave.data.registry import data_home
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.grid import Record, Store, fits
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import SentenceEmbeddingConfig
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


class _Scores(TypedDict):
    data: str
    part: str
    alpha: float
    score: float


def training_sentences() -> list[str]:
    """A sample of the sentences under sentences/ in the data home, the same at each call."""
    found = []
    for name in ("wikipedia", "tatoeba"):
        path = data_home() / "sentences" / f"{name}.txt.gz"
        if not path.exists():
            raise WordwaveError(f"'{path}' is not in the data home")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in file.read().split("\n")]
        found.append([line for line in lines if line])
    wikipedia, tatoeba = found
    long_enough = [line for line in tatoeba if len(line.split()) >= 4]
    pool = random.Random(0).sample(wikipedia[:-HELD_OUT], N_WIKIPEDIA)
    pool += random.Random(0).sample(long_enough, N_TATOEBA)
    random.Random(1).shuffle(pool)
    return [
        line
        for i, line in enumerate(pool)
        if any(len(line.split()) <= n_words and i < first for n_words, first in LIMITS)
    ]


@dataclass(frozen=True)
class EncoderExperiment:
    """An encoder in `folder`/encoder, trained in `folder`/run, and its scores in `out`."""

    folder: Path
    out: Path
    looks: Path
    """The folder in which looks at test sets are listed."""

    @property
    def encoder_folder(self) -> Path:
        return self.folder / "encoder"

    @property
    def store(self) -> Store:
        key = ("data", "part", "alpha")
        return Store(self.out / "scores.jsonl", key, lambda record: fits(record, _Scores))

    def train(self, teacher: str) -> None:
        """Encode the sentences by a teacher, or take its vectors from a file, and train."""
        data = self.folder / "sentences.txt"
        if not data.exists():
            write_text(data, "".join(f"{line}\n" for line in training_sentences()))
        config = with_settings(
            SentenceEmbeddingConfig(), data=str(data), teacher=teacher, **SETTINGS
        )
        job = SentenceEmbeddingJob(config)
        job.check_config(self.folder / "run")
        if job.finished(self.folder / "run") is None:
            job.prepare(job.load_data()).train(self.folder / "run")
        SentenceEncoder.load(self.folder / "run").save(self.encoder_folder, dtype="int8")

    def score(self, part: str) -> list[Record]:
        """Score the cosines of a split of each data set, unless they have been."""
        encoder, done, new = SentenceEncoder.load(self.encoder_folder), self.store.done(), []
        usual = encoder.order_weight
        for data, metric in PAIRS.items():
            for weight in ORDER_WEIGHTS:
                alpha = usual if weight is None else weight
                key = {"data": data, "part": part, "alpha": alpha}
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
        scores = {(r["data"], r["part"], r["alpha"]): r["score"] for r in self.store.records()}
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
