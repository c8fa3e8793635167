"""Whole training steps of text classifiers, on generated sentences of the size of MR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Contender
from wordwave.embedding import EmbeddingConfig
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.text.batching import Sentences
from wordwave.training.config import Precision, TrainingConfig
from wordwave.training.loop import Step, Training

N_CLASSES, BATCH, LONGEST = 2, 50, 59
STEPS_AT_ONCE = 10
"""Steps per turn: batches differ in length, so the time of one step varies."""


def sentences_like_mr(n_words: int, n: int = 4000) -> LabelledSentences:
    """Lengths as in MR (mean 21, longest 59), words by Zipf's law, labels by chance."""
    lengths = (torch.randn(n) * 9.3 + 21).clamp(2, LONGEST).long()
    weights = 1 / torch.arange(n_words).float()
    weights[:2] = 0
    ids = torch.multinomial(weights, int(lengths.sum()), replacement=True)
    return LabelledSentences(Sentences(ids, lengths), torch.randint(0, N_CLASSES, (n,)))


def ours(name: str, n_words: int, config: ModelConfig, precision: Precision = "auto") -> Contender:
    """Steps of the training loop: row-sparse updates and batches of like lengths."""
    model = Classifier(config, n_words, N_CLASSES, sparse=True)
    settings = TrainingConfig(
        epochs=1000,
        batch_size=BATCH,
        learning_rate=1e-3,
        precision=precision,
        eval_every=STEPS_AT_ONCE,  # which steps that are taken at once do not cross
    )
    training = Training(model, ClassificationTask(sentences_like_mr(n_words)), settings)
    ran_in = "bf16" if training.bf16 else "fp32"
    return Contender(name, lambda: None, partial(_steps, training.run()), ran_in)


def _steps(reports: Iterator[object]) -> None:
    done = 0
    while done < STEPS_AT_ONCE:
        done += isinstance(next(reports), Step)


def dense_and_padded(name: str, n_words: int, config: ModelConfig, **options: object) -> Contender:
    """The usual way: Adam over the whole tables, every sentence padded to the longest."""
    model = Classifier(config, n_words, N_CLASSES).train()
    data = sentences_like_mr(n_words)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **options)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for rows in torch.randperm(len(data.sentences)).split(BATCH):
                ids = data.sentences.padded(rows)
                yield F.pad(ids, (0, LONGEST - ids.shape[1])), data.targets[rows]

    source = batches()

    def step() -> None:
        for _ in range(STEPS_AT_ONCE):
            ids, targets = next(source)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(ids), targets).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return Contender(name, lambda: None, step)


def fasttext(n_words: int, dim: int) -> list[Contender]:
    config = ModelConfig(dim=dim, hidden_dim=128, dropout=0.5)
    return [
        ours("row-sparse + bucketed", n_words, config),
        dense_and_padded("dense Adam + padded", n_words, config),
        dense_and_padded("dense Adam(fused) + padded", n_words, config, fused=True),
    ]


def with_equal_layers(n_words: int, waves: ModelConfig, tpe: ModelConfig) -> list[Contender]:
    """complex-order and tpe with the same number of parameters in the layers."""
    return [ours("complex-order", n_words, waves), ours("tpe", n_words, tpe)]


def pairs(dim: int) -> dict[str, tuple[ModelConfig, ModelConfig]]:
    """A complex weight is two real numbers: half the filters, or a width smaller by √2."""
    tpe = EmbeddingConfig("tpe", word_scale=0.1)
    narrow = 8 * max(round(256 / 2**0.5 / 8), 1)
    cnn = partial(ModelConfig, encoder="cnn", dim=dim, hidden_dim=0, dropout=0.5, padding="narrow")
    transformer = partial(ModelConfig, encoder="transformer", n_heads=8, hidden_dim=0, dropout=0.3)
    return {
        "cnn": (cnn(n_filters=50), cnn(n_filters=100, embedding=tpe)),
        "transformer": (
            transformer(dim=narrow, feed_forward_dim=2 * narrow),
            transformer(dim=256, feed_forward_dim=512, embedding=tpe),
        ),
    }


def precisions(n_words: int, config: ModelConfig) -> list[Contender]:
    """`--precision auto` beside fp32."""
    return [
        ours("auto", n_words, config),
        ours("fp32", n_words, config, precision="fp32"),
    ]


def precision_builders(n_words: int, dim: int) -> dict[str, Callable[[], list[Contender]]]:
    """By encoder, complex-order each."""
    return {
        encoder: partial(precisions, n_words, waves) for encoder, (waves, _) in pairs(dim).items()
    }


def builders(n_words: int, dim: int) -> dict[str, Callable[[], list[Contender]]]:
    """By encoder."""
    equal = {
        encoder: partial(with_equal_layers, n_words, *pair) for encoder, pair in pairs(dim).items()
    }
    return {"fasttext": partial(fasttext, n_words, dim), **equal}
