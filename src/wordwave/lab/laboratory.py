"""The order laboratory: what each embedding knows about word order, cell by cell.

A cell is a task, an embedding, an encoder and a seed, trained on short sentences under the same
budget as all others and tested on sentences of every length.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from wordwave.errors import WordwaveError
from wordwave.grid import Count, Record, Share, fits
from wordwave.models.config import EMBEDDINGS, ENCODERS, ModelConfig, goes_with
from wordwave.training.config import TrainingConfig

if TYPE_CHECKING:
    from wordwave.lab.tasks import Probe


KEY = ("task", "embedding", "encoder", "recipe", "seed", "budget", "lengths", "text", "how")
"""What makes a cell's record; `how` holds all that the laboratory sets of model and training."""

LEARNING_RATES = {"fasttext": 3e-2, "cnn": 1e-2, "lstm": 1e-2, "transformer": 1e-2}
"""The same for every embedding under an encoder."""

SHORTEST = 8
"""Words that every task needs."""

_Deltas = Annotated[list[float], lambda values: len(values) > 1]


class _Sensitivity(TypedDict):
    marked: _Deltas
    others: _Deltas


class _CellRecord(TypedDict):
    """What tables and pictures read of a record."""

    task: str
    embedding: Annotated[str, EMBEDDINGS.__contains__]
    encoder: Annotated[str, ENCODERS.__contains__]
    recipe: Annotated[str, ("plain", "long").__contains__]
    seed: int
    budget: dict[str, Any]
    lengths: list[Annotated[list[int], lambda span: len(span) == 2]]
    accuracy: dict[str, Share]
    parameters: Count
    sensitivity: _Sensitivity | None


def is_record(record: Record) -> bool:
    """Whether it has all that is read of a cell's record, of the right kind."""
    return fits(record, _CellRecord) and set(record["accuracy"]) == {
        f"{low}-{high}" for low, high in record["lengths"]
    }


Lengths = tuple[int, int]
Recipe = Literal["plain", "long"]


def check_lengths(name: str, low: int, high: int) -> None:
    if not SHORTEST <= low <= high:
        raise WordwaveError(
            f"{name} must be shortest and longest, at least {SHORTEST} words, got {low} and {high}"
        )


@dataclass(frozen=True)
class Budget:
    """What every cell may spend."""

    dim: int = 32
    """Complex dimensions of an embedding; real ones get twice as many, the same in real numbers."""
    n_train: int = 8000
    """Training sentences."""
    n_test: int = 1000
    """Test sentences of each length."""
    epochs: int = 10
    """Passes over the training sentences."""
    train_lengths: Lengths = (10, 20)
    """Shortest and longest training sentence, in words."""
    highest: int = 2000
    """Highest position in training with the recipe "long"."""

    def check(self) -> None:
        """Refuse what no cell could run with."""
        for name in ("n_train", "n_test"):
            if getattr(self, name) < 2:
                raise WordwaveError(f"{name} must be at least 2, got {getattr(self, name)}")
        if self.epochs < 1:
            raise WordwaveError(f"epochs must be at least 1, got {self.epochs}")
        if self.dim < 4 or self.dim % 4:
            raise WordwaveError(f"dim must be a multiple of 4 (attention heads), got {self.dim}")
        check_lengths("train_lengths", *self.train_lengths)
        if self.highest < 3 * self.train_lengths[1]:
            raise WordwaveError(
                f"highest must be at least 3 x the longest training sentence, got {self.highest}"
            )


@dataclass(frozen=True)
class Cell:
    """One run of the laboratory."""

    task: str
    embedding: str
    encoder: str
    seed: int
    recipe: Recipe = "plain"
    """`plain`: positions 1 … L. `long`: made for sentences longer than those of training, with
    random positions and a rising penalty on amplitudes or word vectors for every embedding; waves
    get log-spaced frequencies shared by all words, and complex bags magnitudes (waves: phases)."""


@dataclass(frozen=True)
class Laboratory:
    """The terms under which cells run, and how they are told apart in a store."""

    budget: Budget
    lengths: tuple[Lengths, ...]
    text: Path | None = None

    def __post_init__(self) -> None:
        self.budget.check()

    def key(self, cell: Cell) -> Record:
        """What identifies a cell's record."""
        text = None
        if self.text is not None:
            text = hashlib.sha256(self.text.read_bytes()).hexdigest()[:16]
        return {
            **asdict(cell),
            "budget": asdict(self.budget),
            "lengths": [list(span) for span in self.lengths],
            "text": text,
            "how": {"model": self.model(cell), "training": self.training(cell)},
        }

    def model(self, cell: Cell) -> dict[str, Any]:
        """The model of a cell, as arguments of `ModelConfig`; every embedding gives the encoder
        2·dim real numbers a word."""
        budget = self.budget
        is_complex = cell.embedding.startswith("complex")
        options: dict[str, Any] = {}
        if cell.recipe == "long" and cell.embedding == "complex-order":
            options["frequency_init"] = "log-spaced"
            options["frequency_range"] = (math.pi / (2 * budget.highest), 1.0)
            options["share_frequency"] = "word"
            options["phase"] = cell.encoder == "fasttext"
        if cell.recipe == "long" and cell.encoder == "fasttext":
            options["readout"] = "magnitude"
        longest = max(high for _, high in (*self.lengths, budget.train_lengths))
        return {
            "embedding": cell.embedding,
            "encoder": cell.encoder,
            "dim": budget.dim if is_complex else 2 * budget.dim,
            "hidden_dim": budget.dim,
            "pooling": "sum" if cell.encoder == "fasttext" else "mean",
            "dropout": 0.0,
            "n_filters": budget.dim,
            "n_layers": 1,
            "n_heads": 4,
            "feed_forward_dim": 2 * budget.dim if is_complex else 4 * budget.dim,
            "word_scale": 1.0,
            "max_length": max(2 * longest + 1, budget.highest),
            **options,
        }

    def training(self, cell: Cell) -> dict[str, Any]:
        """The training of a cell, as arguments of `TrainingConfig`."""
        is_long = cell.recipe == "long"
        return {
            "epochs": self.budget.epochs,
            "batch_size": 128,
            "learning_rate": LEARNING_RATES[cell.encoder],
            "schedule": "one-cycle",
            "warmup_fraction": 0.1,
            "frequency_lr_scale": 0.1,
            "max_grad_norm": 1.0,
            "row_sparse": False,
            "word_dropout": 0.0,
            "random_positions": self.budget.highest if is_long else 0,
            "amplitude_penalty": 3.0 if is_long else 0.0,
            "seed": cell.seed,
        }

    def run(self, cell: Cell) -> Record:
        """Train and test one cell, on one thread."""
        import torch

        from wordwave.lab.tasks import probe
        from wordwave.models.classifier import Classifier, Tagger, count_parameters
        from wordwave.tasks.classifier import ClassificationTask, LabelledSentences, accuracy
        from wordwave.text.batching import Sentences
        from wordwave.training.loop import Training

        torch.set_num_threads(1)
        torch.manual_seed(cell.seed)
        task = probe(cell.task, self.text)
        kind = Tagger if task.is_sequence else Classifier
        model = kind(ModelConfig(**self.model(cell)), len(task.words), task.n_classes)

        def labelled(n: int, lengths: Lengths, *, test: bool = False) -> LabelledSentences:
            data = task.examples(n, lengths, seed=cell.seed, test=test)
            return LabelledSentences(Sentences.from_padded(data.ids), data.targets)

        data = labelled(self.budget.n_train, self.budget.train_lengths)
        sentences = ClassificationTask(data, group=1 if task.is_sequence else 2)
        start = time.perf_counter()
        for _ in Training(model, sentences, TrainingConfig(**self.training(cell))).run():
            pass
        seconds = time.perf_counter() - start
        scores = {}
        for low, high in self.lengths:
            fresh = labelled(self.budget.n_test, (low, high), test=True)
            scores[f"{low}-{high}"] = accuracy(model, fresh)
        return {
            **self.key(cell),
            "accuracy": scores,
            "train_accuracy": accuracy(model, data),
            "parameters": count_parameters(model),
            "seconds": round(seconds, 2),
            "sensitivity": _sensitivity(model, task),
            "torch": torch.__version__,
        }


def cells(
    tasks: list[str], embeddings: list[str], encoders: list[str], seeds: int, recipe: Recipe
) -> list[Cell]:
    """All combinations that make sense, one seed after the other."""
    return [
        Cell(task, embedding, encoder, seed, recipe)
        for seed in range(seeds)
        for task in dict.fromkeys(tasks)
        for encoder in dict.fromkeys(encoders)
        for embedding in dict.fromkeys(embeddings)
        if makes_sense(task, embedding, encoder)
    ]


def makes_sense(task: str, embedding: str, encoder: str) -> bool:
    """RoPE and ALiBi act inside attention only, and tasks with an answer of several words need an
    encoder that keeps words apart."""
    from wordwave.lab.tasks import SEQUENCE_TASKS

    keeps_words_apart = encoder not in ("fasttext", "cnn")
    return goes_with(embedding, encoder) and (task not in SEQUENCE_TASKS or keeps_words_apart)


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    names = ("task", "embedding", "encoder", "seed", "recipe")
    return Cell(*(record[name] for name in names))


def _sensitivity(model: Any, task: Probe) -> dict[str, list[float]] | None:
    """δ_j of the words whose place decides, and of the others, where words have frequencies."""
    if not task.marked or not hasattr(model.embedding, "sensitivity"):
        return None
    delta = [round(d, 4) for d in model.embedding.sensitivity().tolist()]
    named = list(zip(task.words, delta, strict=True))[2:]
    return {
        "marked": [d for word, d in named if word in task.marked],
        "others": [d for word, d in named if word not in task.marked],
    }
