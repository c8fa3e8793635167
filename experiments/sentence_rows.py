"""Ways to turn a sentence into a vector, and a search that is the same for all of them.

Each row of a table is one of them. Every row gets the same search, trainings that are compared on
the validation set, and three seeds of the best. Test sets are read with `--score-test` only, once
for each of these.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from wordwave.embedding import WordEmbedding
from wordwave.embedding.table import Table
from wordwave.errors import WordwaveError
from wordwave.grid import Count, Grid, Positive, Record, Store, fits
from wordwave.models.classifier import SentenceModel
from wordwave.models.utils import count_parameters
from wordwave.tables import Content, ResultTable, Score
from wordwave.tensor_files import TensorFile, check_like, write_tensors

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


class _OwnWords(SentenceModel):
    """A network with an embedding that wordwave does not offer."""

    words: ClassVar[type[WordEmbedding]]

    def _build_embedding(self, vocab_size: int, **options: Any) -> WordEmbedding:
        embedding = self.words(vocab_size, self.config.dim, **options)
        if options.get("vectors") is None:
            with torch.no_grad():
                embedding.vectors.mul_(self.config.dim**-0.5)
        return embedding


@dataclass(frozen=True)
class Row:
    """A way to turn a sentence into a vector."""

    settings: dict[str, Any]
    words: type[WordEmbedding] | None = None
    """An embedding in place of that of the settings."""
    outside: str | None = None
    """A model from elsewhere, whose vectors are not trained."""

    def network(self, kind: type[Any]) -> type[Any]:
        """A class of networks, with the embedding of this row."""
        if self.words is None:
            return kind
        return type(kind.__name__, (_OwnWords, kind), {"words": self.words})


def _bag(embedding: str, *views: str, **settings: Any) -> dict[str, Any]:
    given = {"views": views} if views else {}
    return {"encoder": "fasttext", "embedding": embedding, **given, **settings}


VIEWS = ("start", "end", "relative")
ROWS = {
    "sum of words": Row(_bag("none")),
    "sum with learned positions": Row(_bag("pe")),
    "sum with sinusoids": Row(_bag("tpe")),
    "sum of words and hashed bigrams": Row(_bag("none"), HashedBigrams),
    "DCT": Row(_bag("none"), CosineTransform),
    "sum of waves": Row(_bag("complex-order", "start")),
    "sum of waves, 3 views": Row(_bag("complex-order", *VIEWS)),
    "sum of waves, 3 views and context": Row(_bag("complex-order", *VIEWS, "context")),
    "sum of waves, relative ×3 and context": Row(
        _bag("complex-order", *["relative"] * 3, "context")
    ),
    "CNN": Row({"encoder": "cnn", "embedding": "none"}),
    "BiLSTM": Row({"encoder": "lstm", "embedding": "none", "pooling": "max"}),
    "Transformer with RoPE": Row({"encoder": "transformer", "embedding": "rope"}),
    "all-MiniLM-L6-v2, frozen": Row(_bag("none"), outside="all-MiniLM-L6-v2"),
    "WordLlama, frozen": Row(_bag("none"), outside="WordLlama"),
    "fastText, frozen": Row(_bag("none"), outside="fastText"),
}
OWN_ROWS = tuple(row for row in ROWS if not ROWS[row].outside)


class Cell(Protocol):
    """One training: a dataclass of settings."""

    @property
    def row(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def name(self) -> str: ...


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


C = TypeVar("C", bound=Any)


@dataclass(frozen=True)
class RowTable(ABC, Generic[C]):
    """The trainings of a data set: records in `out`, weights in `weights`."""

    data: Any
    out: Path
    weights: Path
    rows: tuple[str, ...] = OWN_ROWS

    key: ClassVar[tuple[str, ...]]
    """The settings of a training."""
    file: ClassVar[str] = "validation.jsonl"
    test_file: ClassVar[str] = "test.jsonl"

    @property
    @abstractmethod
    def search(self) -> dict[str, tuple[Any, Any]]:
        """What is searched, one after the other: the first value, and another one."""

    @property
    @abstractmethod
    def test_split(self) -> str:
        """The part that is scored with `--score-test`."""

    @abstractmethod
    def first_cell(self, row: str) -> C:
        """The training that a search begins with."""

    @abstractmethod
    def prepared(self, cell: C, *, with_test: bool = False) -> Any:
        """The job of a training."""

    @abstractmethod
    def test_scores(self, job: Any, record: Record) -> dict[str, float]:
        """The scores of the test set by a trained model, of which `run` returned a record."""

    @abstractmethod
    def table(self) -> ResultTable:
        """A line for each row."""

    def more(self, job: Any) -> Record:
        """What a record of a trained model also has."""
        return {}

    @property
    def store(self) -> Store:
        return Store(self.out / self.file, self.key, lambda record: fits(record, _Validation))

    @property
    def tests(self) -> Store:
        key = ("data", "row", "seed")
        return Store(self.out / self.test_file, key, lambda record: fits(record, _Test))

    def grid(self, cells: Sequence[C]) -> Grid[C]:
        return Grid(self.store, cells, asdict, self.run, "trainings")

    def rounds(self) -> list[list[C]]:
        """The trainings whose settings are known by now: one, then one for each setting that is
        searched, then seeds; each round needs the records of those before it."""
        scores = {self.store.key_of(r): r["score"] for r in self.store.records()}
        best = {row: self.first_cell(row) for row in self.rows}
        found = [[*best.values()]]
        for name, (_, other) in self.search.items():
            tried = {row: replace(cell, **{name: other}) for row, cell in best.items()}
            found.append([cell for row, cell in tried.items() if cell != best[row]])
            for row, cell in tried.items():
                old, new = (scores.get(self.store.key_of(asdict(c))) for c in (best[row], cell))
                if old is None or new is None:
                    del best[row]
                elif new > old:
                    best[row] = cell
        trained = [c for c in best.values() if self.store.key_of(asdict(c)) in scores]
        found.append([replace(c, seed=seed) for seed in range(1, N_SEEDS) for c in trained])
        return found

    def chosen(self) -> dict[str, C]:
        """The best settings of each row whose search is complete."""
        return {cell.row: replace(cell, seed=0) for cell in self.rounds()[-1]}

    def run(self, cell: C) -> Record:
        """Train on one core, and keep the best weights for `score_test`."""
        torch.set_num_threads(1)
        job = self.prepared(cell)
        training = job.training()
        start = time.process_time()
        for _ in training.run():
            pass
        seconds = time.process_time() - start
        model = job.text_model.model
        write_tensors(self._file(cell), _trained(model, cell.row), of="rows")
        return {
            **asdict(cell),
            "score": training.progress.best_score,
            "best_epoch": training.progress.best_epoch,
            "epochs": training.progress.epoch,
            "seconds": round(seconds, 3),
            "parameters": count_parameters(model),
            **self.more(job),
            "torch": torch.__version__,
        }

    def load(self, cell: C, model: nn.Module) -> None:
        """Read the weights that `run` kept."""
        path = self._file(cell)
        if not path.exists():
            raise WordwaveError(f"there is no '{path}': train this row again to score it")
        file, wanted = TensorFile(path), _trained(model, cell.row)
        check_like(file.meta, wanted)
        model.load_state_dict({**model.state_dict(), **file.load()})

    def _file(self, cell: C) -> Path:
        return self.weights / f"{cell.name}.safetensors"

    def score_test(self) -> list[Record]:
        """Score the test set once for each seed of the settings that were chosen.

        Weights that are not kept, as those of another machine, are trained again: a record of the
        test set has the validation score of the very weights that were tested.
        """
        known, scored = self.tests.done(), []
        validation = {self.store.key_of(r): r for r in self.store.records()}
        for cell in self.chosen().values():
            for one in (replace(cell, seed=seed) for seed in range(N_SEEDS)):
                record = validation.get(self.store.key_of(asdict(one)))
                if record is None or self.tests.key_of(asdict(one)) in known:
                    continue
                if not self._file(one).exists():
                    record = self.run(one)
                job = self.prepared(one, with_test=True)
                self.load(one, job.text_model.model)
                test = self.test_scores(job, record)
                name = f"{one.row}, seed {one.seed}"
                record_look(self.out, f"{self.data} {self.test_split}", name, test)
                self.tests.append({**asdict(one), "validation": record["score"], "test": test})
                scored.append({**asdict(one), "test": test})
        return scored

    def lines(self, test_names: Sequence[str]) -> list[list[Content]]:
        """Of each row whose search is complete: its name, the mean of the validation scores, means
        of test scores, the settings that were chosen, the epoch, parameters and CPU seconds."""
        tests, lines = self.tests.records(), list[list[Content]]()
        records = {self.store.key_of(r): r for r in self.store.records()}
        for row, cell in self.chosen().items():
            keys = (asdict(replace(cell, seed=seed)) for seed in range(N_SEEDS))
            found = [r for key in keys if (r := records.get(self.store.key_of(key)))]
            scored = [r for r in tests if (r["data"], r["row"]) == (self.data, row)]
            line: list[Content] = [row, mean_score([r["score"] for r in found])]
            line += [mean_score([r["test"][name] for r in scored]) for name in test_names]
            line += [f"{getattr(cell, name):g}" for name in self.search]
            line += [round(fmean(r["best_epoch"] for r in found)), found[0]["parameters"]]
            lines.append([*line, round(fmean(r["seconds"] for r in found))])
        return lines


def _trained(model: nn.Module, row: str) -> dict[str, Tensor]:
    """All weights, but for vectors from elsewhere."""
    weights: dict[str, Tensor] = model.state_dict()
    if row in ROWS and ROWS[row].outside:
        return {name: w for name, w in weights.items() if not name.startswith("embedding.")}
    return weights


def record_look(folder: Path, name: str, model: str, scores: Mapping[str, float]) -> None:
    """List a look at a test set: every one is in one file."""
    look: Record = {"date": date.today().isoformat(), "set": name, "model": model, **scores}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "test-looks.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**look, "why": "chosen on validation pairs"}) + "\n")


def mean_score(values: Sequence[float]) -> Score | None:
    """The mean over seeds, ± the standard deviation."""
    if not values:
        return None
    spread = stdev(values) if len(values) > 1 else None
    return Score(fmean(values), spread, len(values))
