"""The order laboratory: how well each embedding encodes word order, measured cell by cell.

A cell is a task, an embedding, an encoder and a seed: a model trained on short sentences with the
same budget as all others and tested on sentences of several lengths.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from wordwave.config_io import from_dict
from wordwave.embedding.config import EMBEDDING_KINDS
from wordwave.errors import WordwaveError
from wordwave.files import check_regular
from wordwave.grid import Count, Record, Share, fits, key_of
from wordwave.limits import check_limits
from wordwave.models.config import ENCODERS, ModelConfig, goes_with
from wordwave.training.config import TrainingConfig

if TYPE_CHECKING:
    from wordwave.lab.tasks import ProbeTask


KEY = ("task", "embedding", "encoder", "recipe", "seed", "budget", "lengths", "text", "how")
"""What identifies a record; `how` holds the settings of model and training."""

LEARNING_RATES = {"fasttext": 3e-2, "cnn": 1e-2, "lstm": 1e-2, "transformer": 1e-2}
"""The same for every embedding under an encoder."""

SHORTEST = 8
"""The number of words that every task needs."""

_Deltas = Annotated[list[float], lambda values: len(values) > 1]


class _Sensitivity(TypedDict):
    marked: _Deltas
    others: _Deltas


class _ProbeRecord(TypedDict):
    """The fields of a record that tables and figures need."""

    task: str
    embedding: Annotated[str, EMBEDDING_KINDS.__contains__]
    encoder: Annotated[str, ENCODERS.__contains__]
    recipe: Annotated[str, ("plain", "long").__contains__]
    seed: int
    budget: dict[str, Any]
    lengths: list[Annotated[list[int], lambda span: len(span) == 2]]
    accuracy: dict[str, Share]
    parameters: Count
    sensitivity: _Sensitivity | None


def is_record(record: Record) -> bool:
    """Whether a record has all fields that tables and figures need, with the right types."""
    from wordwave.lab.tasks import TASK_NAMES

    if not fits(record, _ProbeRecord) or record["task"] not in TASK_NAMES:
        return False
    return set(record["accuracy"]) == {f"{low}-{high}" for low, high in record["lengths"]}


Lengths = tuple[int, int]
Recipe = Literal["plain", "long"]
Pooling = Literal["sum", "mean", "max"]


def check_lengths(name: str, low: int, high: int) -> None:
    if not SHORTEST <= low <= high:
        raise WordwaveError(
            f"{name} must be shortest and longest, at least {SHORTEST} words, got {low} and {high}"
        )


@dataclass(frozen=True)
class Budget:
    """Sizes of model and data, the same for every cell."""

    dim: int = 32
    """Complex dimensions of an embedding; real embeddings get twice as many real ones."""
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

    def __post_init__(self) -> None:
        check_limits(self, {"n_train": (2, 10**12), "n_test": (2, 10**12), "epochs": (1, 10**12)})
        if self.dim < 4 or self.dim % 4:
            raise WordwaveError(f"dim must be a multiple of 4 (attention heads), got {self.dim}")
        check_lengths("train_lengths", *self.train_lengths)
        if self.highest < 3 * self.train_lengths[1]:
            raise WordwaveError(
                f"highest must be at least 3 x the longest training sentence, got {self.highest}"
            )


@dataclass(frozen=True)
class ProbeCell:
    """One model to train and test."""

    task: str
    embedding: str
    encoder: str
    seed: int
    recipe: Recipe = "plain"
    """`plain`: positions 1 … L. `long`: for test sentences longer than those of training, with
    random positions and a rising penalty on amplitudes or word vectors for every embedding;
    complex-order gets log-spaced frequencies shared by all words (and initial phases in a bag of
    words), and bags of words are read out as magnitudes."""


@dataclass(frozen=True)
class Laboratory:
    """The conditions that all cells share.

    Args:
        lengths: shortest and longest test sentence, in words, of each test set.
        text: sentences for the task `swap-text`.
        learning_rate: in place of that of each encoder.
        pooling: of the words of a sentence, in place of a sum (fasttext) or mean.
    """

    budget: Budget
    lengths: tuple[Lengths, ...]
    text: Path | None = None
    learning_rate: float | None = None
    pooling: Pooling | None = None
    _fingerprint: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.text is not None:
            check_regular(self.text)
            fingerprint = hashlib.sha256(self.text.read_bytes()).hexdigest()[:16]
            object.__setattr__(self, "_fingerprint", fingerprint)

    def key(self, cell: ProbeCell) -> Record:
        """The fields that identify a cell's record."""
        return {
            **asdict(cell),
            "budget": asdict(self.budget),
            "lengths": [list(span) for span in self.lengths],
            "text": self._fingerprint,
            "how": {"model": self.model(cell), "training": self.training(cell)},
        }

    def ran(self, record: Record, recipe: Recipe) -> bool:
        """Whether a record was made under these conditions, with a recipe."""
        names = ("task", "embedding", "encoder", "seed", "recipe")
        cell = ProbeCell(*(record[name] for name in names))
        if cell.recipe != recipe or not combines(cell.task, cell.embedding, cell.encoder):
            return False
        return key_of(record, KEY) == key_of(self.key(cell), KEY)

    def model(self, cell: ProbeCell) -> dict[str, Any]:
        """Arguments of `ModelConfig` for a cell; with every embedding, a word is 2·dim real
        numbers."""
        budget = self.budget
        is_complex = cell.embedding.startswith("complex")
        embedding: dict[str, Any] = {"kind": cell.embedding, "word_scale": 1.0}
        options: dict[str, Any] = {}
        if cell.recipe == "long" and cell.embedding == "complex-order":
            embedding["frequency_init"] = "log-spaced"
            embedding["frequency_range"] = (math.pi / (2 * budget.highest), 1.0)
            embedding["share_frequency"] = "word"
            embedding["phase"] = cell.encoder == "fasttext"
        if cell.recipe == "long" and cell.encoder == "fasttext":
            options["readout"] = "magnitude"
        longest = max(high for _, high in (*self.lengths, budget.train_lengths))
        return {
            "embedding": embedding,
            "encoder": cell.encoder,
            "dim": budget.dim if is_complex else 2 * budget.dim,
            "hidden_dim": budget.dim,
            "pooling": self.pooling or ("sum" if cell.encoder == "fasttext" else "mean"),
            "dropout": 0.0,
            "n_filters": budget.dim,
            "n_layers": 1,
            "n_heads": 4,
            "feed_forward_dim": 2 * budget.dim if is_complex else 4 * budget.dim,
            "max_length": max(2 * longest + 1, budget.highest),
            **options,
        }

    def training(self, cell: ProbeCell) -> dict[str, Any]:
        """Arguments of `TrainingConfig` for a cell."""
        is_long = cell.recipe == "long"
        return {
            "epochs": self.budget.epochs,
            "batch_size": 128,
            "learning_rate": self.learning_rate or LEARNING_RATES[cell.encoder],
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

    def run(self, cell: ProbeCell) -> Record:
        """Train and test a model, on one thread."""
        import torch

        from wordwave.lab.tasks import probe_task
        from wordwave.models.classifier import Classifier, Tagger
        from wordwave.models.utils import count_parameters
        from wordwave.tasks.classification import ClassificationTask, LabelledSentences, accuracy
        from wordwave.text.batching import Sentences
        from wordwave.training.loop import Training

        torch.set_num_threads(1)
        torch.manual_seed(cell.seed)
        task = probe_task(cell.task, self.text)
        kind = Tagger if task.is_sequence else Classifier
        # Wide windows would show a CNN where a sentence begins and ends.
        config = replace(from_dict(ModelConfig, self.model(cell)), padding="narrow")
        model = kind(config, len(task.words), task.n_classes)

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
) -> list[ProbeCell]:
    """All combinations that are possible, one seed after the other."""
    return [
        ProbeCell(task, embedding, encoder, seed, recipe)
        for seed in range(seeds)
        for task in dict.fromkeys(tasks)
        for encoder in dict.fromkeys(encoders)
        for embedding in dict.fromkeys(embeddings)
        if combines(task, embedding, encoder)
    ]


def combines(task: str, embedding: str, encoder: str) -> bool:
    """RoPE and ALiBi need attention, and sequence tasks need an encoder with one output a word."""
    from wordwave.lab.tasks import SEQUENCE_TASKS

    is_tagger = encoder not in ("fasttext", "cnn")
    return goes_with(embedding, encoder) and (task not in SEQUENCE_TASKS or is_tagger)


def _sensitivity(model: Any, task: ProbeTask) -> dict[str, list[float]] | None:
    """δ_j of the words whose position decides the answer, and of all others."""
    if not task.marked or not hasattr(model.embedding, "sensitivity"):
        return None
    delta = [round(d, 4) for d in model.embedding.sensitivity().tolist()]
    named = list(zip(task.words, delta, strict=True))[2:]
    return {
        "marked": [d for word, d in named if word in task.marked],
        "others": [d for word, d in named if word not in task.marked],
    }
