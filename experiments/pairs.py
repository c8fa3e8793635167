"""`python -m experiments pairs`: what a sentence vector keeps of the order of words.

Rows are ways to turn a sentence into a vector; the head that compares two of them is the same. Each
row gets the same search, four trainings that are compared on the validation pairs, and three seeds
of the best. Test pairs are read with `--score-test` only, once for each of these.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor, nn

from wordwave.config_io import with_settings
from wordwave.data.pairs import PairSplits, hold_out, load_part
from wordwave.embedding import WordEmbedding
from wordwave.embedding.wave import Table
from wordwave.errors import WordwaveError
from wordwave.grid import Count, Grid, Positive, Record, Store, fits
from wordwave.models.classifier import PairNetwork
from wordwave.models.utils import count_parameters
from wordwave.tables import Content, ResultTable, Score
from wordwave.tasks.config import IN_MEMORY, MatchingConfig
from wordwave.tasks.matcher import pair_logits
from wordwave.tasks.matching import MatchingJob, metrics
from wordwave.tensor_files import TensorFile, check_like, write_tensors

if TYPE_CHECKING:
    from experiments.pair_commands import PairSet

VALIDATION_SHARE = 0.1875
"""1,500 of the 8,000 pairs of PAWS-Wiki's validation part, and as many of PAWS-QQP."""
N_BIGRAMS = 200_000
N_COSINES = 6
N_SEEDS = 3


class HashedBigrams(WordEmbedding):
    """A vector per word and, beside it, one of the bigram that ends with it, from `N_BIGRAMS` rows
    that bigrams are hashed into, as in fastText."""

    def __init__(self, vocab_size: int, dim: int, **options: Any) -> None:
        super().__init__(vocab_size, dim, **options)
        self.out_dim = 2 * dim
        rows = torch.randn(N_BIGRAMS + 1, dim) / math.sqrt(dim)
        sparse = self.words.sparse
        self.bigrams = Table(rows, vocab_size=len(rows), padding_idx=0, sparse=sparse)

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (B, L) -> (B, L, 2·D)"""
        before = nn.functional.pad(ids, (1, 0))[:, :-1]
        mixed = (before * 2_654_435_761 + ids * 40_503) % N_BIGRAMS + 1
        bigrams = self.bigrams(torch.where((before > 0) & (ids > 0), mixed, 0))
        return torch.cat([super().forward(ids, positions), bigrams], dim=-1)


class CosineTransform(WordEmbedding):
    """DCT sentence embeddings (Almarwani et al., EMNLP 2019): word j times cos(πk·(j − ½)/L) for
    k = 0, 1, …, so that sums are the first coefficients of a discrete cosine transform."""

    def __init__(self, vocab_size: int, dim: int, **options: Any) -> None:
        super().__init__(vocab_size, dim, **options)
        self.out_dim = N_COSINES * dim

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (B, L) -> (B, L, `N_COSINES`·D)"""
        words = super().forward(ids, positions)
        place = torch.arange(ids.shape[1], device=ids.device) + 0.5
        length = (ids != 0).sum(1, keepdim=True).clamp(min=1)
        cosines = [torch.cos(math.pi * k * place / length) for k in range(N_COSINES)]
        return torch.cat([words * cosine.unsqueeze(-1) for cosine in cosines], dim=-1)


class BigramNetwork(PairNetwork):
    words: type[WordEmbedding] = HashedBigrams

    def _build_embedding(self, vocab_size: int, **options: Any) -> WordEmbedding:
        embedding = self.words(vocab_size, self.config.dim, **options)
        with torch.no_grad():
            embedding.vectors.mul_(self.config.dim**-0.5)
        return embedding


class CosineNetwork(BigramNetwork):
    words = CosineTransform


@dataclass(frozen=True)
class Row:
    """A way to turn a sentence into a vector."""

    settings: dict[str, Any]
    network: type[PairNetwork] = PairNetwork


def _bag(embedding: str, *views: str, **settings: Any) -> dict[str, Any]:
    given = {"views": views} if views else {}
    return {"encoder": "fasttext", "embedding": embedding, **given, **settings}


_VIEWS = ("start", "end", "relative")
ROWS = {
    "sum of words": Row(_bag("none")),
    "sum with learned positions": Row(_bag("pe")),
    "sum with sinusoids": Row(_bag("tpe")),
    "sum of words and hashed bigrams": Row(_bag("none"), BigramNetwork),
    "DCT": Row(_bag("none"), CosineNetwork),
    "sum of waves": Row(_bag("complex-order", "start")),
    "sum of waves, 3 views": Row(_bag("complex-order", *_VIEWS)),
    "sum of waves, 3 views and context": Row(_bag("complex-order", *_VIEWS, "context")),
    "sum of waves, relative ×3 and context": Row(
        _bag("complex-order", *["relative"] * 3, "context")
    ),
    "CNN": Row({"encoder": "cnn", "embedding": "none"}),
    "BiLSTM": Row({"encoder": "lstm", "embedding": "none", "pooling": "max"}),
    "Transformer with RoPE": Row({"encoder": "transformer", "embedding": "rope"}),
}
SEARCH: dict[str, tuple[Any, Any]] = {
    "word_renaming": (0.5, 0.0),
    "learning_rate": (2e-3, 1e-3),
    "dim": (256, 128),
}
"""What is searched, one after the other: the first value, and another one."""
ABLATION: dict[str, dict[str, Any]] = {
    "3 views and context": {},
    "start": {"views": ("start",)},
    "end": {"views": ("end",)},
    "relative": {"views": ("relative",)},
    "start, end": {"views": ("start", "end")},
    "start, relative": {"views": ("start", "relative")},
    "3 views": {"views": _VIEWS},
    "relative ×3": {"views": ("relative",) * 3},
    "start, context": {"views": ("start", "context")},
    "start, frequencies per word": {"views": ("start",), "share_frequency": None},
    "3 views, frequencies per word": {"views": _VIEWS, "share_frequency": None},
    "start, damped": {"views": ("start",), "damping": True},
    "start, phases": {"views": ("start",), "phase": True},
    "start, phases, |z|": {"views": ("start",), "phase": True, "readout": "magnitude"},
    "frequencies not trained": {"freeze_frequency": True},
    "no word renaming": {"word_renaming": 0.0},
    "word renaming 0.8": {"word_renaming": 0.8},
    "one vector for unknown words": {"unknown_words": "shared"},
    "no hidden layer": {"hidden_dim": 0},
    "BPE tokens": {"tokenizer": "bpe"},
    "trained on PAWS-QQP too": {},
}
"""One change at a time of the best bag of waves, on the validation pairs."""


@dataclass(frozen=True)
class PairCell:
    """One training."""

    data: PairSet
    row: str
    seed: int = 0
    word_renaming: float = SEARCH["word_renaming"][0]
    learning_rate: float = SEARCH["learning_rate"][0]
    dim: int = SEARCH["dim"][0]
    change: str = ""
    """A key of `ABLATION`."""

    @property
    def name(self) -> str:
        return "-".join(str(value).replace(" ", "_") for value in asdict(self).values())

    def config(self) -> MatchingConfig:
        searched = {name: getattr(self, name) for name in SEARCH}
        fixed = {"epochs": 12, "precision": "fp32", "seed": self.seed}
        sizes = {"n_filters": self.dim // 2, "feed_forward_dim": 2 * self.dim}
        of_data = {"data": IN_MEMORY, "similarity": "score" if has_scores(self.data) else None}
        settings = {**of_data, **fixed, **sizes, **searched, **ROWS[self.row].settings}
        return with_settings(MatchingConfig(), **settings | ABLATION.get(self.change, {}))


KEY = tuple(asdict(PairCell("paws-wiki", "")))


class _Validation(TypedDict):
    data: str
    row: str
    seed: int
    score: float
    best_epoch: Count
    seconds: Positive
    parameters: Count


class _Test(TypedDict):
    data: str
    row: str
    seed: int
    validation: float
    test: dict[str, float]


def has_scores(data: PairSet) -> bool:
    """Whether pairs have a similarity, not a class."""
    return data in ("sts-b", "sick")


def load_splits(data: PairSet, *, with_test: bool = False, with_qqp: bool = False) -> PairSplits:
    """Training and validation pairs, and the test pairs if asked for; none share a sentence.

    PAWS-Wiki's training part is not at hand: training pairs are those of its validation part that
    are not held out. The test pairs of PAWS-QQP are its validation part; training pairs that share
    a sentence with it are left out.
    """
    train, dev = load_part(data, "dev" if data == "paws-wiki" else "train"), None
    test = load_part(data, "dev" if data == "paws-qqp" else "test") if with_test else None
    if data == "paws-qqp":
        held = test or load_part(data, "dev")
        groups = train.joined(held).groups()
        shared = set(groups[len(train) :])
        rows = [row for row in range(len(train)) if groups[row] not in shared]
        train = train.subset(rows, train.name)
    if has_scores(data):
        dev = load_part(data, "dev")
    else:
        train, dev = hold_out(train, share=VALIDATION_SHARE)
    if with_qqp and data == "paws-wiki":
        train = train.joined(load_part("paws-qqp", "train"))
    return PairSplits(train, dev, test)


def prepared(cell: PairCell, data: PairSplits) -> MatchingJob:
    job = MatchingJob(cell.config())
    job.network_class = ROWS[cell.row].network
    return job.prepare(data)


@dataclass(frozen=True)
class PairTable:
    """The trainings of a data set: records in `out`, weights in `weights`."""

    data: PairSet
    out: Path
    weights: Path
    rows: tuple[str, ...] = tuple(ROWS)

    @property
    def store(self) -> Store:
        return Store(self.out / "validation.jsonl", KEY, lambda record: fits(record, _Validation))

    @property
    def tests(self) -> Store:
        key = ("data", "row", "seed")
        return Store(self.out / "test.jsonl", key, lambda record: fits(record, _Test))

    def grid(self, cells: Sequence[PairCell]) -> Grid[PairCell]:
        return Grid(self.store, cells, asdict, self.run, "trainings")

    def rounds(self) -> list[list[PairCell]]:
        """The trainings whose settings are known by now: two, then one for each further setting,
        then seeds; each round needs the records of those before it."""
        scores = {self.store.key_of(r): r["score"] for r in self.store.records()}
        best = {row: PairCell(self.data, row) for row in self.rows}
        found = [[*best.values()]]
        for name, (_, other) in SEARCH.items():
            tried = {row: replace(cell, **{name: other}) for row, cell in best.items()}
            found.append([*tried.values()])
            for row, cell in tried.items():
                old, new = (scores.get(self.store.key_of(asdict(c))) for c in (best[row], cell))
                if old is None or new is None:
                    del best[row]
                elif new > old:
                    best[row] = cell
        seeds = range(1, N_SEEDS)
        found.append([replace(cell, seed=seed) for seed in seeds for cell in best.values()])
        return found

    def chosen(self) -> dict[str, PairCell]:
        """The best settings of each row whose search is complete."""
        return {cell.row: replace(cell, seed=0) for cell in self.rounds()[-1]}

    def run(self, cell: PairCell) -> Record:
        """Train on one core, and keep the best weights for `score`."""
        torch.set_num_threads(1)
        with_qqp = cell.change == "trained on PAWS-QQP too"
        job = prepared(cell, load_splits(cell.data, with_qqp=with_qqp))
        training = job.training()
        start = time.process_time()
        for _ in training.run():
            pass
        seconds = time.process_time() - start
        model = job.text_model.model
        write_tensors(self.weights / f"{cell.name}.safetensors", model.state_dict(), of="pairs")
        return {
            **asdict(cell),
            "score": training.progress.best_score,
            "best_epoch": training.progress.best_epoch,
            "epochs": training.progress.epoch,
            "seconds": round(seconds, 1),
            "parameters": count_parameters(model),
            "pairs": len(job.task.train.targets),
            "torch": torch.__version__,
        }

    def score_test(self) -> list[Record]:
        """Score the test pairs once for each seed of the settings that were chosen."""
        known, scored = self.tests.done(), []
        validation = {self.store.key_of(r): r for r in self.store.records()}
        data = load_splits(self.data, with_test=True)
        for cell in self.chosen().values():
            for one in (replace(cell, seed=seed) for seed in range(N_SEEDS)):
                record = validation.get(self.store.key_of(asdict(one)))
                if record is None or self.tests.key_of(asdict(one)) in known:
                    continue
                job = prepared(one, data)
                model, path = job.text_model.model, self.weights / f"{one.name}.safetensors"
                if not path.exists():
                    raise WordwaveError(f"there is no '{path}': train this row again to score it")
                file = TensorFile(path)
                check_like(file.meta, model.state_dict())
                model.load_state_dict(file.load())
                assert job.test is not None
                logits = pair_logits(model, job.test.first, job.test.second)
                test = metrics(logits, job.test.targets, job.text_model.labels)
                split = "dev" if self.data == "paws-qqp" else "test"
                record_look(self.out, f"{self.data} {split}", f"{one.row}, seed {one.seed}", test)
                self.tests.append({**asdict(one), "validation": record["score"], "test": test})
                scored.append({**asdict(one), "test": test})
        return scored

    def table(self) -> ResultTable:
        """A line for each row: validation and test scores, size and training time."""
        names = ("spearman", "pearson") if has_scores(self.data) else ("auc", "accuracy")
        tests, rows = self.tests.records(), list[list[Content]]()
        records = {self.store.key_of(r): r for r in self.store.records()}
        for row, cell in self.chosen().items():
            keys = (asdict(replace(cell, seed=seed)) for seed in range(N_SEEDS))
            found = [r for key in keys if (r := records.get(self.store.key_of(key)))]
            scored = [r for r in tests if (r["data"], r["row"]) == (self.data, row)]
            line: list[Content] = [row, _mean([r["score"] for r in found])]
            line += [_mean([r["test"][name] for r in scored]) for name in names]
            line += [cell.dim, f"{cell.word_renaming:g}", f"{cell.learning_rate:g}"]
            line += [round(fmean(r["best_epoch"] for r in found)), found[0]["parameters"]]
            rows.append([*line, round(fmean(r["seconds"] for r in found))])
        columns = ["sentence vector", f"validation {names[0]}", *(f"test {n}" for n in names)]
        columns += ["width", "renaming", "learning rate", "best epoch", "parameters", "CPU seconds"]
        return ResultTable(
            self.data, f"Sentence pairs: {self.data}", columns, rows, notes=[_NOTES[self.data]]
        )

    def ablation(self) -> ResultTable:
        """What each part of the best bag brings, on the validation pairs."""
        rows: list[list[Content]] = []
        for change in ABLATION:
            found = [
                r for r in self.store.records() if (r["data"], r["change"]) == (self.data, change)
            ]
            if found:
                seconds = round(fmean(r["seconds"] for r in found))
                rows.append([change, _mean([r["score"] for r in found]), seconds])
        name = "spearman" if has_scores(self.data) else "auc"
        columns = ["bag of waves", f"validation {name}", "CPU seconds"]
        return ResultTable(f"{self.data}-ablation", f"Bags of waves: {self.data}", columns, rows)


def record_look(folder: Path, name: str, model: str, scores: Mapping[str, float]) -> None:
    """List a look at a test set: every one is in one file."""
    look: Record = {"date": date.today().isoformat(), "set": name, "model": model, **scores}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "test-looks.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**look, "why": "chosen on validation pairs"}) + "\n")


def _mean(values: Sequence[float]) -> Score | None:
    """The mean over seeds, ± the standard deviation."""
    if not values:
        return None
    spread = stdev(values) if len(values) > 1 else None
    return Score(fmean(values), spread, len(values))


_SEARCHED = (
    "Mean and standard deviation over seeds. Of each row, word renaming, learning rate and width "
    "were chosen one after the other on the validation pairs, the epoch too."
)
_NOTES: dict[str, str] = {
    "paws-wiki": "Trained on 6,500 pairs of PAWS-Wiki's validation part; the 1,500 validation "
    "pairs are the rest of it and share no sentence with them. " + _SEARCHED,
    "paws-qqp": "Trained without the pairs that share a sentence with the test pairs, which are "
    "PAWS-QQP's validation part. " + _SEARCHED,
    "sts-b": _SEARCHED,
    "sick": _SEARCHED,
}
