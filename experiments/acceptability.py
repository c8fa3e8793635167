"""`python -m experiments acceptability`: is a sentence a sentence? CoLA, and BLiMP zero-shot.

The rows are those of the pair tables, under a classifier of single sentences. CoLA has sentences of
linguists that are acceptable or not. For BLiMP nothing is trained on it: a classifier learns to
tell sentences of Wikipedia and Tatoeba from the same sentences with reordered words, and is then
asked which sentence of a pair of the same words is the grammatical one.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.encoder import training_sentences
from experiments.sentence_rows import ROWS, RowTable
from wordwave.config_io import with_settings
from wordwave.data.examples import Examples
from wordwave.data.pairs import TextPairs, read_pairs
from wordwave.data.registry import data_home
from wordwave.data.splits import Splits, cut_dev
from wordwave.data.tables import read_prepared
from wordwave.grid import Record
from wordwave.models.classifier import Classifier
from wordwave.tables import Content, ResultTable
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import logits_of
from wordwave.tasks.config import IN_MEMORY, ClassificationConfig
from wordwave.text.batching import Batch

if TYPE_CHECKING:
    from experiments.pair_commands import AcceptabilitySet

N_SENTENCES, N_VALIDATION = 50_000, 2_000
"""Sentences, each beside a reordering of it, to train on and to validate."""
MIN_WORDS = 4
MIN_PAIRS = 30
"""Phenomena of BLiMP with fewer pairs have no line of their own."""
ROUNDING = 1e-4
END_MARKS = ".!?\"' "
RATES = {"learning_rate": (2e-3, 1e-3)}
SEARCHES: dict[str, dict[str, tuple[Any, Any]]] = {
    "cola": {"dropout": (0.2, 0.5), **RATES},
    "cola-vectors": {"dropout": (0.2, 0.5), **RATES},
    "cola-pretrained": {"dropout": (0.2, 0.5), "learning_rate": (1e-3, 3e-4)},
    "blimp": {},
}
"""What is searched of each data set, the first value and another one."""
EPOCHS = {"cola": 15, "cola-vectors": 15, "cola-pretrained": 8, "blimp": 1}
BAG = {
    "share_frequency": "word",
    "frequency_init": "log-uniform",
    "frequency_range": (0.003, 1.0),
    "pooling": "sum",
}
"""Settings of waves and pooling, as matchers have them."""


class SentenceNetwork(Classifier):
    """Sentence vectors, layer-normalized as in matchers, under one hidden layer."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.dropout = nn.Identity()

    sums_words = False

    def forward(
        self,
        ids: Tensor | Batch,
        positions: Tensor | None = None,
        unknown: Tensor | None = None,
    ) -> Tensor:
        """Shape: ids (B, L), or a batch -> (B, n_classes)"""
        if isinstance(ids, Batch):
            ids, positions = ids.padded()
        return self.head(self.normalized(ids, positions))


@dataclass(frozen=True)
class AcceptabilityCell:
    """One training."""

    data: AcceptabilitySet
    row: str
    seed: int = 0
    dropout: float = 0.2
    learning_rate: float = 2e-3
    dim: int = 256
    """Of the word vectors, except pretrained ones."""

    @property
    def name(self) -> str:
        return "-".join(str(value).replace(" ", "_") for value in asdict(self).values())

    def config(self) -> ClassificationConfig:
        settings = {
            **{"data": IN_MEMORY, "epochs": EPOCHS[self.data], "precision": "fp32"},
            **{"seed": self.seed, "dim": self.dim, "hidden_dim": 256, "batch_size": 64},
            **{"n_filters": self.dim // 2, "feed_forward_dim": 2 * self.dim},
            **{"dropout": self.dropout, "learning_rate": self.learning_rate},
            **{"unknown_words": "hashed", **BAG, **ROWS[self.row].settings},
        }
        if self.data == "cola-vectors":  # unit vectors: as long as random ones
            settings |= {"vectors": "googlenews300", "extra_words": 20_000}
        return with_settings(ClassificationConfig(), **settings)


@dataclass(frozen=True)
class CoLATask(ClassificationTask):
    """Selected by Matthews' correlation at the best threshold."""

    def score(self, model: nn.Module) -> dict[str, float]:
        assert self.dev is not None
        return {"matthews": best_threshold(margins(model, self.dev), self.dev.targets)[0]}


@dataclass(frozen=True)
class OrderTask(ClassificationTask):
    """Selected by how often a sentence has a higher score than the reordering that follows it."""

    def score(self, model: nn.Module) -> dict[str, float]:
        assert self.dev is not None
        return {"accuracy": higher(*margins(model, self.dev).view(-1, 2).unbind(1))}


def margins(model: nn.Module, data: LabelledSentences) -> Tensor:
    """The logit of "acceptable" minus the other one. Shape: (N,)"""
    logits = logits_of(model, data.sentences).double()
    return logits[:, 1] - logits[:, 0]


def higher(good: Tensor, bad: Tensor) -> float:
    """The share of pairs whose first score is the higher one; scores that are equal but for
    rounding, as those of a sum of the same words, count half."""
    equal = (good - bad).abs() <= ROUNDING * good.abs().clamp(min=1)
    return float(((good > bad) & ~equal).double().mean() + equal.double().mean() / 2)


def matthews(predicted: Tensor, targets: Tensor) -> float:
    """Matthews' correlation of classes 0 and 1. Shape: (N,), (N,)"""
    if len(predicted.unique()) < 2 or len(targets.unique()) < 2:
        return 0.0
    return float(torch.corrcoef(torch.stack([predicted.double(), targets.double()]))[0, 1])


def best_threshold(scores: Tensor, targets: Tensor) -> tuple[float, float]:
    """The highest Matthews correlation of any threshold, and that threshold. Shape: (N,), (N,)"""
    order = scores.argsort(descending=True)
    hits = targets[order].double().cumsum(0)  # of all above each place
    n = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    total, positive = float(len(scores)), float(targets.sum())
    above = n * positive * (total - n) * (total - positive)
    found = (hits * total - n * positive) / above.clamp(min=1).sqrt()
    found[:-1][scores[order][1:] == scores[order][:-1]] = -1  # a threshold divides no equal scores
    at = int(found[:-1].argmax()) if len(scores) > 1 else 0
    middle = scores[order][at : at + 2].mean()
    return float(found[at]), float(middle)


def reordered(text: str, rng: random.Random) -> str:
    """The words of a text in another order: two exchanged, two neighbours exchanged, one moved, or
    two spans exchanged."""
    words = text.split()
    for _ in range(20):
        new, kind = list(words), rng.randrange(4)
        i, j = sorted(rng.sample(range(len(words)), 2))
        if kind == 0:
            new[i], new[j] = new[j], new[i]
        elif kind == 1:
            i = min(i, len(words) - 2)
            new[i], new[i + 1] = new[i + 1], new[i]
        elif kind == 2:
            new.insert(i, new.pop(j)) if rng.random() < 0.5 else new.insert(j, new.pop(i))
        else:
            k = rng.randint(j + 1, len(words))
            new = words[:i] + words[j:k] + words[i:j] + words[k:]
        if [word.lower() for word in new] != [word.lower() for word in words]:
            return " ".join(new)
    return " ".join(reversed(words))


def unmarked(text: str) -> str:
    """Without the marks that end a sentence: a question may differ from the same words in another
    order by its mark."""
    return text.rstrip(END_MARKS)


@cache
def order_splits() -> Splits:
    """Sentences, labelled 1, each followed by a reordering of it, 0."""
    texts = map(unmarked, training_sentences())
    enough = [text for text in texts if len(text.split()) >= MIN_WORDS]
    rng = random.Random(0)

    def beside_others(texts: list[str]) -> Examples:
        both = [one for text in texts for one in (text, reordered(text, rng))]
        return Examples(both, ["1", "0"] * len(texts), "sentences")

    train = beside_others(enough[N_VALIDATION : N_VALIDATION + N_SENTENCES])
    return Splits(train, beside_others(enough[:N_VALIDATION]), None)


@cache
def cola_splits() -> Splits:
    """Training sentences, a tenth of them held out for validation."""
    return Splits(*cut_dev(read_prepared(data_home() / "cola.train.tsv.gz")), None)


def blimp_pairs() -> TextPairs:
    """The grammatical sentence, the other one, and the phenomenon."""
    path = data_home() / "pairs" / "blimp.same-words.tsv.gz"
    return read_pairs(path, text_a="good", text_b="bad", label="phenomenon")


class AcceptabilityTable(RowTable[AcceptabilityCell]):
    """The trainings of a data set of single sentences."""

    key = tuple(asdict(AcceptabilityCell("cola", "")))
    data: AcceptabilitySet

    @property
    def search(self) -> dict[str, tuple[Any, Any]]:
        return SEARCHES[self.data]

    @property
    def test_split(self) -> str:
        return "same-word pairs" if self.data == "blimp" else "dev"

    def first_cell(self, row: str) -> AcceptabilityCell:
        first = {name: values[0] for name, values in self.search.items()}
        return replace(AcceptabilityCell(self.data, row), **first)

    def prepared(self, cell: AcceptabilityCell, *, with_test: bool = False) -> ClassificationJob:
        job = ClassificationJob(cell.config())
        job.network_class = ROWS[cell.row].network(SentenceNetwork)
        if cell.data in ("cola", "cola-vectors"):
            job.prepare(cola_splits())
        else:
            job.prepare(order_splits())
        if cell.data == "cola-pretrained":
            self._pretrain(cell, job)
        task = job.task
        parts = task.train, task.dev
        if cell.data == "blimp":
            job.task = OrderTask(*parts, group=2, word_dropout=task.word_dropout)
        else:
            job.task = CoLATask(*parts, word_dropout=task.word_dropout)
        return job

    def _pretrain(self, cell: AcceptabilityCell, job: ClassificationJob) -> None:
        """The weights of the same row, trained on sentences and their reorderings."""
        blimp = AcceptabilityTable("blimp", self.out, self.weights, (cell.row,))
        for chosen in blimp.chosen().values():
            blimp.load(replace(chosen, seed=cell.seed), job.text_model.model)
        train, dev = (self._encoded(job, p) for p in (cola_splits().train, cola_splits().dev) if p)
        job.task = replace(job.task, train=train, dev=dev)

    def _encoded(self, job: ClassificationJob, part: Examples) -> LabelledSentences:
        texts = part.texts if self.data in ("cola", "cola-vectors") else map(unmarked, part.texts)
        sentences, _ = job.text_model.encoder.encode(texts)
        return LabelledSentences(sentences, job.class_numbers(part.labels, part.name))

    def more(self, job: ClassificationJob) -> Record:
        if self.data == "blimp":
            return {}
        task, model = job.task, job.text_model.model
        assert task.dev is not None
        return {"threshold": best_threshold(margins(model, task.dev), task.dev.targets)[1]}

    def test_scores(self, job: ClassificationJob, record: Record) -> dict[str, float]:
        model = job.text_model.model
        if self.data == "blimp":
            return self._blimp_scores(job)
        found: dict[str, float] = {}
        parts = []
        for name in ("dev", "dev-out-of-domain"):
            data = self._encoded(job, read_prepared(data_home() / f"cola.{name}.tsv.gz"))
            parts.append((margins(model, data), data.targets))
            found[name.replace("-", "_")] = matthews(
                parts[-1][0] > record["threshold"], parts[-1][1]
            )
        scores, targets = (torch.cat(part) for part in zip(*parts, strict=True))
        found["matthews"] = matthews(scores > record["threshold"], targets)
        found["matthews_at_0"] = matthews(scores > 0, targets)
        found["accuracy"] = float(((scores > record["threshold"]) == targets).double().mean())
        return found

    def _blimp_scores(self, job: ClassificationJob) -> dict[str, float]:
        pairs, model = blimp_pairs(), job.text_model.model
        labels = ["1"] * len(pairs)
        good, bad = (
            margins(model, self._encoded(job, Examples(side, labels, "blimp")))
            for side in (pairs.first, pairs.second)
        )
        found = {"accuracy": higher(good, bad)}
        for phenomenon, n in sorted(Counter(pairs.labels).items()):
            if n < MIN_PAIRS:
                continue
            rows = torch.from_numpy(np.array(pairs.labels) == phenomenon)
            found[phenomenon] = higher(good[rows], bad[rows])
        return found

    def table(self) -> ResultTable:
        """A line for each row: validation and test scores, size and training time."""
        names, columns = ["accuracy"], ["validation accuracy", "BLiMP accuracy"]
        if self.data != "blimp":
            names = ["matthews", "dev", "dev_out_of_domain", "accuracy"]
            columns = ["validation Matthews", "dev Matthews", "in domain", "out of domain"]
            columns.append("dev accuracy")
        columns += [name.replace("_", " ") for name in self.search]
        columns = ["sentence vector", *columns, "best epoch", "parameters", "CPU seconds"]
        return ResultTable(
            self.data, _TITLES[self.data], columns, self.lines(names), notes=[_NOTES[self.data]]
        )

    def phenomena(self) -> ResultTable:
        """BLiMP by phenomenon: a line for each, a column for each row."""
        records = [r for r in self.tests.records() if r["data"] == "blimp"]
        rows = [row for row in ROWS if any(r["row"] == row for r in records)]
        names = [n for n in (records[0]["test"] if records else {}) if n != "accuracy"]
        lines: list[list[Content]] = []
        for name in names:
            scores = [fmean(r["test"][name] for r in records if r["row"] == row) for row in rows]
            lines.append([name, *scores])
        note = (
            "The share of pairs whose grammatical sentence has the higher score, mean over seeds. "
            "Of most phenomena there are 1,000 pairs of the same words."
        )
        columns = ["phenomenon", *rows]
        return ResultTable("blimp-phenomena", "BLiMP by phenomenon", columns, lines, notes=[note])


_SEARCHED = (
    "Mean and standard deviation over seeds. What was searched was chosen on the validation "
    "sentences, one setting after the other, the epoch too."
)
_COLA = (
    "CoLA: trained on nine tenths of its 8,551 training sentences, the others are for validation. "
    "GLUE's validation part, 527 sentences in and 516 out of domain, is scored once. The threshold "
    "of Matthews' correlation was chosen on the validation sentences. "
)
_TITLES = {
    "cola": "CoLA",
    "cola-vectors": "CoLA, word vectors of GoogleNews",
    "cola-pretrained": "CoLA, pretrained to recognize reordered sentences",
    "blimp": "BLiMP, pairs of the same words, zero-shot",
}
_NOTES = {
    "cola": _COLA + _SEARCHED,
    "cola-vectors": "Word vectors begin as those of word2vec, width 300. " + _COLA + _SEARCHED,
    "cola-pretrained": "Weights begin as those of the same row of the BLiMP table. "
    + _COLA
    + _SEARCHED,
    "blimp": f"Trained on {N_SENTENCES:,} sentences of Wikipedia and Tatoeba and a reordering of "
    "each, once; validation: how often a held-out sentence has a higher score than its reordering. "
    "Mean and standard deviation over seeds. Marks that end a sentence are left out.",
}
