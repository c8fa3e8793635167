"""`python -m experiments enrich`: a pretrained encoder with waves, fine-tuned on PAWS pairs.

The paper suggests to enrich the input features of pretrained Transformers. Here MiniLM is compared
with itself: as it is, with waves added to its word vectors (`ww.enrich`), with waves in place of
its position table, and frozen. The sentence vector is the mean of the last hidden states; the
comparison of two of them is that of wordwave's matchers. Learning rate and epoch are selected by
the AUC of validation pairs; the test pairs are scored by `--score-test` alone.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from transformers import AutoModel, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from experiments.long_table import FLOPS
from experiments.sentence_rows import record_look
from wordwave.data.pairs import PairSplits, TextPairs, hold_out, read_pairs
from wordwave.data.registry import dataset_named
from wordwave.data.tables import class_cell
from wordwave.errors import WordwaveError
from wordwave.grid import Count, Grid, Positive, Record, Share, Store, fits
from wordwave.huggingface import enrich
from wordwave.models.classifier import PairNetwork
from wordwave.models.config import PairModelConfig
from wordwave.tables import Content, ResultTable, Score
from wordwave.tasks.classifier import vectors_of
from wordwave.tasks.config import MatchingTrainingConfig
from wordwave.tasks.matcher import pair_logits
from wordwave.tasks.matching import EncodedPairs, MatchingTask, metrics
from wordwave.tensor_files import TensorFile, check_like, write_tensors
from wordwave.text.batching import Sentences
from wordwave.text.vocabulary import PADDING_ID
from wordwave.training.devices import has_native_bf16
from wordwave.training.loop import Training
from wordwave.training.run import train_in_folder

Part = Literal["validation", "test"]
WITH_QQP = "paws-wiki-qqp"
VARIANTS = {
    "frozen": "frozen",
    "plain": "as it is",
    "enriched": "waves added",
    "replaced": "waves for positions",
}
KEY = ("part", "data", "model", "variant", "learning_rate", "pairs", "epochs", "max_length", "seed")
DEV_SHARE, SPLIT_SEED = 0.1875, 0
"""About 1,500 of the 8,000 validation pairs of PAWS-Wiki select; the others are trained on."""
NEW_LAYERS = 20
"""Learning rate of the head and the waves, relative to that of the pretrained weights."""
FREQUENCIES = 0.1
"""Learning rate of frequencies relative to that of other new weights, as in training by default."""
FROZEN_EPOCHS = 20
"""Epochs of a head on vectors that do not change, which takes seconds."""
BATCH_SIZE, DROPOUT = 32, 0.1
BF16_FLOPS = 2e11
"""Floating-point operations per second of a core that has bf16 instructions, as the CPU seconds in
results/pairs/enrich.jsonl give them; `FLOPS` for others."""
CURVE = ("epoch", "loss", "dev_auc")
"""What records keep of each evaluation."""


class _Record(TypedDict):
    """The fields that every record must have."""

    part: str
    data: str
    model: str
    variant: str
    learning_rate: Positive
    pairs: int
    epochs: Count
    max_length: Count
    seed: int
    n: Count
    auc: Share
    accuracy: Share
    parameters: Count
    best_epoch: Count


@dataclass(frozen=True)
class EnrichCell:
    """One training, or the evaluation of one on the test pairs."""

    part: Part
    data: str
    model: str
    variant: str
    learning_rate: float
    pairs: int
    """A random subset of the training pairs; 0 for all."""
    epochs: int
    max_length: int
    seed: int

    @property
    def name(self) -> str:
        """Of its run folder."""
        sizes = f"{self.data}-{self.pairs}-{self.epochs}-{self.max_length}"
        return f"{self.model}-{self.variant}-{self.learning_rate:g}-{sizes}-{self.seed}"

    def __str__(self) -> str:
        return f"{self.variant}, learning rate {self.learning_rate:g}, seed {self.seed}"


@dataclass(frozen=True)
class Enrich:
    """The comparison.

    Args:
        out: folder of the records, the run folders and the table.
        weights: folder of the pretrained encoder and its tokenizer, or its name on the hub.
    """

    out: Path
    data: str
    model: str
    weights: str
    variants: tuple[str, ...] = tuple(VARIANTS)
    learning_rates: tuple[float, ...] = (5e-5, 1e-4)
    pairs: int = 0
    epochs: int = 2
    max_length: int = 64
    seeds: int = 1

    @property
    def store(self) -> Store:
        return Store(
            self.out / "enrich.jsonl",
            KEY,
            lambda record: fits(record, _Record),
            upgrade=lambda record: {"data": WITH_QQP, **record},  # the only one of the first
        )

    def cells(self) -> list[EnrichCell]:
        sizes = self.pairs, self.epochs, self.max_length
        return [
            EnrichCell("validation", self.data, self.model, variant, rate, *sizes, seed)
            for seed in range(self.seeds)
            for rate in self.learning_rates
            for variant in self.variants
        ]

    @property
    def grid(self) -> Grid[EnrichCell]:
        return Grid(self.store, self.cells(), asdict, self.train, "trainings")

    @property
    def test_grid(self) -> Grid[EnrichCell]:
        """The test pairs, scored by each variant with the learning rate that was selected."""
        if incomplete := self.grid.incomplete():
            raise WordwaveError(f"{incomplete} Train all before the test pairs are scored.")
        chosen = selected(self.grid.records())
        cells = [
            replace(cell, part="test")
            for cell in self.cells()
            if cell.learning_rate == chosen[cell.variant]
        ]
        return Grid(self.store, cells, asdict, self.score_test, "evaluations")

    def folder(self, cell: EnrichCell) -> Path:
        return self.out / "runs" / cell.name

    def estimated_seconds(self, cells: Sequence[EnrichCell]) -> float:
        """One multiplication and addition per weight and token, once forward, twice backward."""
        train, dev = (
            int(part.first.lengths.sum() + part.second.lengths.sum())
            for part in self._train_and_dev
        )
        layers = (p for name, p in self._encoder().named_parameters() if "embeddings" not in name)
        n = sum(p.numel() for p in layers)
        tokens = [
            train + dev if cell.variant == "frozen" else cell.epochs * (3 * train + dev)
            for cell in cells
        ]
        return 2 * n * sum(tokens) / (BF16_FLOPS if has_native_bf16() else FLOPS)

    def train(self, cell: EnrichCell) -> Record:
        """Train in the cell's run folder, resuming what is there, and return its record."""
        torch.set_num_threads(1)
        torch.manual_seed(cell.seed)
        model, (train, dev) = self._network(cell.variant), self._train_and_dev
        if cell.variant == "frozen":
            model, (train, dev) = frozen(model, train, dev)
        task = MatchingTask(train, dev, rare=range(0))
        settings = MatchingTrainingConfig(
            epochs=FROZEN_EPOCHS if cell.variant == "frozen" else cell.epochs,
            batch_size=BATCH_SIZE,
            learning_rate=cell.learning_rate,
            weight_decay=0.01,
            word_renaming=0.0,
            seed=cell.seed,
        )
        examples = paws_splits(self.data, self.pairs).fingerprint()
        training = Training(model, task, settings, examples=examples)
        training.optimizers = [AdamW(groups(model, settings), fused=True)]
        folder, start = self.folder(cell), time.process_time()
        curve = train_in_folder(folder, training, save_every=300.0)
        seconds = time.process_time() - start
        write_tensors(folder / "model.safetensors", model.state_dict(), task="enrich")
        shutil.rmtree(folder / "state", ignore_errors=True)
        gates = [p for name, p in model.named_parameters() if name.endswith("wordwave.gate")]
        return {
            **asdict(cell),
            **self._scores(model, dev),
            "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "best_epoch": training.progress.best_epoch,
            "curve": [{k: point[k] for k in CURVE} for point in curve],
            "gate": [float(gate.detach().square().mean().sqrt()) for gate in gates],
            "cpu_seconds": round(seconds),
        }

    def score_test(self, cell: EnrichCell) -> Record:
        """Score the test pairs by the weights of a training."""
        trained = replace(cell, part="validation")
        known = {self.store.key_of(record): record for record in self.grid.records()}
        record = known[self.store.key_of(asdict(trained))]
        path = self.folder(trained) / "model.safetensors"
        if not path.exists():
            raise WordwaveError(
                f"'{path}' is missing, the weights of {cell}: score where they were trained"
            )
        torch.set_num_threads(1)
        model, test = self._network(cell.variant), self._encoded(read_paws("paws-wiki", "test"))
        if cell.variant == "frozen":
            model, (test,) = frozen(model, test)
        file = TensorFile(path)
        check_like(file.meta, model.state_dict())
        model.load_state_dict(file.load())
        about = {name: record[name] for name in ("parameters", "best_epoch")}
        scores = self._scores(model, test)
        record_look(self.out, "paws-wiki test", f"{cell.model}, {cell.variant}", scores)
        return {**asdict(cell), **scores, **about}

    def _scores(self, model: EncoderPairs, pairs: EncodedPairs) -> Record:
        logits = pair_logits(model, pairs.first, pairs.second)
        return metrics(logits, pairs.targets, list(dataset_named("paws-wiki").classes))

    @property
    def _train_and_dev(self) -> tuple[EncodedPairs, EncodedPairs]:
        splits = paws_splits(self.data, self.pairs)
        assert splits.dev is not None
        return self._encoded(splits.train), self._encoded(splits.dev)

    def _encoder(self) -> nn.Module:
        disable_progress_bar()
        encoder: nn.Module = AutoModel.from_pretrained(self.weights)
        if encoder.config.pad_token_id != PADDING_ID:  # type: ignore[union-attr]
            raise WordwaveError(f"'{self.weights}' must pad with the id {PADDING_ID}, as BERT does")
        return encoder

    def _network(self, variant: str) -> EncoderPairs:
        """The model of a variant, before training."""
        encoder: Any = self._encoder()
        if variant == "enriched":
            enrich(encoder)
        elif variant == "replaced":
            enrich(encoder, replace_positions=True, gate=1.0)
        return EncoderPairs(encoder, encoder.config.hidden_size)

    def _encoded(self, pairs: TextPairs) -> EncodedPairs:
        tokenizer = _tokenizer(self.weights)
        first, second = (
            Sentences.from_lists(
                tokenizer(part, truncation=True, max_length=self.max_length)["input_ids"]
            )
            for part in (pairs.first, pairs.second)
        )
        classes = dataset_named("paws-wiki").classes
        targets = torch.tensor([classes.index(label) for label in pairs.labels])
        return EncodedPairs(first, second, targets)


class EncoderPairs(PairNetwork):
    """Pairs of sentences by a pretrained encoder, compared as wordwave's matchers do."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        nn.Module.__init__(self)  # without an embedding and an encoder of wordwave's
        self.config = PairModelConfig(dropout=DROPOUT)
        self.encoder = encoder
        self.sentence_dim = self.block = width
        self.n_classes, self.symmetric = 2, True
        self.head = self._head(3 * width, self.n_classes)

    def sentence_vectors(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """The mean of the last hidden states. Shape: (B, L) -> (B, W)"""
        mask = (ids != PADDING_ID).unsqueeze(-1)
        states = self.encoder(input_ids=ids, attention_mask=mask.squeeze(-1).long())[0]
        return (states * mask).sum(dim=1) / mask.sum(dim=1)


class FrozenPairs(EncoderPairs):
    """Pairs of sentences whose vectors are known: the ids are their numbers."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__(nn.Identity(), vectors.shape[1])
        self.register_buffer("vectors", vectors, persistent=False)

    def sentence_vectors(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: (B, 1) -> (B, W)"""
        vectors: Tensor = self.vectors  # type: ignore[assignment]
        return vectors[ids.squeeze(1) - 1]  # 0 is padding


def frozen(model: EncoderPairs, *parts: EncodedPairs) -> tuple[FrozenPairs, list[EncodedPairs]]:
    """A model of computed vectors, and pairs of their numbers."""
    sides = [side for part in parts for side in (part.first, part.second)]
    vectors = [vectors_of(model, model.sentence_vectors, side) for side in sides]
    numbers = torch.arange(1, sum(map(len, vectors)) + 1).split([len(v) for v in vectors])
    numbered = [Sentences(n, torch.ones_like(n)) for n in numbers]
    pairs = zip(numbered[::2], numbered[1::2], parts, strict=True)
    return FrozenPairs(torch.cat(vectors)), [EncodedPairs(a, b, p.targets) for a, b, p in pairs]


def groups(model: nn.Module, settings: MatchingTrainingConfig) -> list[dict[str, Any]]:
    """Parameters by learning rate: pretrained ones, new ones, and frequencies."""
    found: dict[float, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = settings.learning_rate
        if name.startswith("head.") or ".wordwave." in name:
            rate *= NEW_LAYERS * (FREQUENCIES if ".frequency." in name else 1.0)
        group = {"params": [], "lr": rate, "peak": rate, "weight_decay": settings.weight_decay}
        found.setdefault(rate, group)["params"].append(parameter)
    return list(found.values())


def read_paws(name: str, split: str) -> TextPairs:
    """One file of a PAWS data set; the others are not opened."""
    dataset = dataset_named(name, "matching")
    columns: dict[str, Any] = {"text_a": "text_a", "text_b": "text_b", "label": "label"}
    pairs = read_pairs(
        dataset.path(dataset.file(split)), **columns, checked=class_cell(dataset.classes)
    )
    return replace(pairs, name=f"{name} {split}")


@cache
def paws_splits(data: str, n: int) -> PairSplits:
    """Training pairs of PAWS-Wiki, and of PAWS-QQP if asked for, n of them or all (0), and
    validation pairs."""
    train, dev = hold_out(read_paws("paws-wiki", "dev"), share=DEV_SHARE, seed=SPLIT_SEED)
    if data == WITH_QQP:
        train = train.joined(read_paws("paws-qqp", "train"))
    if n > len(train):
        raise WordwaveError(f"pairs must be at most {len(train):,}, got {n:,}")
    if n:
        rows = random.Random(SPLIT_SEED).sample(range(len(train)), n)
        train = train.subset(sorted(rows), "PAWS")
    return PairSplits(train, dev, None)


@cache
def _tokenizer(weights: str) -> Any:
    return AutoTokenizer.from_pretrained(weights)


def selected(records: Sequence[Record]) -> dict[str, float]:
    """The learning rate of each variant that has the highest mean validation AUC."""
    found: dict[str, dict[float, list[float]]] = {}
    for record in records:
        if record["part"] == "validation":
            rates = found.setdefault(record["variant"], {})
            rates.setdefault(record["learning_rate"], []).append(record["auc"])
    means = {
        variant: {rate: fmean(aucs) for rate, aucs in rates.items()}
        for variant, rates in found.items()
    }
    return {variant: max(rates, key=lambda rate: rates[rate]) for variant, rates in means.items()}


def enrich_table(table: Enrich) -> ResultTable:
    """A row for each variant and learning rate, with test scores of those that were selected."""
    cells = set(map(table.grid.key_of, table.cells()))
    tests = {table.store.key_of({**r, "part": "validation"}): r for r in table.store.records()
             if r["part"] == "test"}  # fmt: skip
    records = [r for r in table.store.records() if table.store.key_of(r) in cells]
    chosen = selected(records)
    rows: list[list[Content]] = []
    for variant, about in VARIANTS.items():
        for rate in sorted({r["learning_rate"] for r in records if r["variant"] == variant}):
            runs = [r for r in records if (r["variant"], r["learning_rate"]) == (variant, rate)]
            of_test = [tests[key] for r in runs if (key := table.store.key_of(r)) in tests]
            is_best = chosen[variant] == rate
            rows.append(
                [about, f"{rate:g}", " ".join(str(r["best_epoch"]) for r in runs)]
                + [_mean(runs, name, is_best) for name in ("auc", "accuracy")]
                + [_mean(of_test, name, is_best) for name in ("auc", "accuracy")]
                + [runs[0]["parameters"], len(runs)]
            )
    columns = ["encoder", "learning rate", "best epoch", "dev AUC", "dev accuracy"]
    columns += ["test AUC", "test accuracy", "trained parameters", "seeds"]
    n_pairs = f"{table.pairs:,} random" if table.pairs else "all"
    sets = "PAWS-Wiki (validation file)" + " and PAWS-QQP" * (table.data == WITH_QQP)
    notes = [
        f"{table.model} trained on {n_pairs} training pairs of {sets} for {table.epochs} epochs "
        f"(frozen: the head alone, for {FROZEN_EPOCHS}), texts of at most "
        f"{table.max_length} subwords.",
        f"Epoch and learning rate are selected by the AUC of "
        f"{records[0]['n'] if records else 0:,} validation pairs, which share no sentence with "
        "training pairs of PAWS-Wiki. In bold: the learning rate selected for each encoder.",
        f"The head and the waves have {NEW_LAYERS} times the learning rate of pretrained weights.",
    ]
    title = "A pretrained encoder with waves: paraphrases of the same words"
    wide = frozenset(["best epoch", "trained parameters", "seeds"])
    name = "enrich-qqp" if table.data == WITH_QQP else "enrich"
    return ResultTable(name, title, columns, rows, notes, only_in_files=wide)


def _mean(records: Sequence[Mapping[str, Any]], name: str, is_best: bool) -> Score | None:
    if not records:
        return None
    return Score(fmean(r[name] for r in records), n=len(records), is_best=is_best)
