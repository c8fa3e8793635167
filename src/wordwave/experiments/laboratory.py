"""The order laboratory: what each embedding knows about word order, cell by cell.

A cell is a task, an embedding, an encoder and a seed, trained on short sentences under the same
budget as all others and tested on sentences of every length.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wordwave.models.config import ENCODERS, IN_ATTENTION, PAPER_EMBEDDINGS, ModelConfig
from wordwave.training.settings import TrainingSettings

if TYPE_CHECKING:
    from pathlib import Path

    from wordwave.data.probes import Probe
    from wordwave.experiments.store import Record

KEY = ("task", "embedding", "encoder", "recipe", "seed", "budget")

LEARNING_RATES = {"fasttext": 3e-2, "cnn": 1e-2, "lstm": 1e-2, "transformer": 1e-2}
"""The same for every embedding under an encoder."""

Lengths = tuple[int, int]


@dataclass(frozen=True)
class Budget:
    """What every cell may spend."""

    dim: int = 32
    """Width of the embedding and of the hidden layer."""
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


@dataclass(frozen=True)
class Cell:
    """One run of the laboratory."""

    task: str
    embedding: str
    encoder: str
    seed: int
    recipe: Literal["plain", "long"] = "plain"
    """`plain`: positions 1 … L. `long`: made for sentences longer than those of training, with
    random positions and a rising penalty on amplitudes or word vectors for every embedding; waves
    get log-spaced frequencies shared by all words, and in a bag phases and magnitudes."""


def cells(
    tasks: list[str],
    embeddings: list[str],
    encoders: list[str],
    seeds: int,
    recipe: Literal["plain", "long"],
) -> list[Cell]:
    """All combinations that make sense: RoPE and ALiBi act inside attention only, and tasks with
    an answer of several words need an encoder that keeps words apart."""
    from wordwave.data.sequences import SEQUENCE_TASKS

    return [
        Cell(task, embedding, encoder, seed, recipe)
        for seed in range(seeds)
        for task in tasks
        for encoder in encoders
        for embedding in embeddings
        if not (embedding in IN_ATTENTION and encoder != "transformer")
        and not (task in SEQUENCE_TASKS and encoder in ("fasttext", "cnn"))
    ]


def model_config(cell: Cell, budget: Budget) -> ModelConfig:
    """The model of a cell; only the embedding differs between the rows of a comparison."""
    options: dict[str, Any] = {}
    if cell.recipe == "long" and cell.embedding == "complex-order":
        options = {
            "frequency_init": "log-spaced",
            "frequency_range": (math.pi / (2 * budget.highest), 1.0),
            "share_frequency": "word",
        }
        if cell.encoder == "fasttext":
            options |= {"phase": True, "readout": "magnitude"}
    return ModelConfig(
        embedding=cell.embedding,  # type: ignore[arg-type]
        encoder=cell.encoder,  # type: ignore[arg-type]
        dim=budget.dim,
        hidden_dim=budget.dim,
        pooling="sum" if cell.encoder == "fasttext" else "mean",
        dropout=0.0,
        n_filters=budget.dim,
        feed_forward_dim=2 * budget.dim,
        max_length=max(budget.highest, 2048),
        **options,
    )


def settings(cell: Cell, budget: Budget) -> TrainingSettings:
    return TrainingSettings(
        epochs=budget.epochs,
        seed=cell.seed,
        learning_rate=LEARNING_RATES[cell.encoder],
        random_positions=budget.highest if cell.recipe == "long" else 0,
        amplitude_penalty=10.0 if cell.recipe == "long" else 0.0,
    )


def run_cell(
    cell: Cell, budget: Budget, test_lengths: list[Lengths], text: Path | None = None
) -> Record:
    """Train and test one cell, on one thread."""
    import torch

    from wordwave.data.probes import probe
    from wordwave.models.classifier import Classifier, Tagger, count_parameters
    from wordwave.training.loop import accuracy, train

    torch.set_num_threads(1)
    torch.manual_seed(cell.seed)
    task = probe(cell.task, text)
    kind = Tagger if task.is_sequence else Classifier
    model = kind(model_config(cell, budget), len(task.words), task.n_classes)
    data = task.examples(budget.n_train, budget.train_lengths, seed=cell.seed)
    start = time.perf_counter()
    train(model, data.ids, data.targets, settings(cell, budget), group=1 if task.is_sequence else 2)
    seconds = time.perf_counter() - start
    scores = {}
    for low, high in test_lengths:
        fresh = task.examples(budget.n_test, (low, high), seed=cell.seed, test=True)
        scores[f"{low}-{high}"] = accuracy(model, fresh.ids, fresh.targets)
    return {
        **dataclasses.asdict(cell),
        "budget": dataclasses.asdict(budget),
        "learning_rate": LEARNING_RATES[cell.encoder],
        "accuracy": scores,
        "train_accuracy": accuracy(model, data.ids, data.targets),
        "parameters": count_parameters(model),
        "seconds": round(seconds, 2),
        "sensitivity": _sensitivity(model, task),
        "torch": torch.__version__,
    }


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


__all__ = ["ENCODERS", "KEY", "PAPER_EMBEDDINGS", "Budget", "Cell", "cells", "run_cell"]
