"""Real baselines with as many parameters as the waves they stand beside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wordwave.models.config import ModelConfig

if TYPE_CHECKING:
    from wordwave.tasks.classify import PreparedClassifier
    from wordwave.tasks.config import ClassifyConfig

WIDEST = 8.0


def scaled(model: ModelConfig, factor: float) -> ModelConfig:
    """All widths of a model times a factor."""
    # Attention needs heads of the same width, and trigonometric positions pairs of numbers.
    step = 2 * model.n_heads if model.encoder == "transformer" else 2

    def times(n: int, step: int = 1) -> int:
        return max(step, round(n * factor / step) * step)

    return replace(
        model,
        dim=times(model.dim, step),
        hidden_dim=times(model.hidden_dim) if model.hidden_dim else 0,
        n_filters=times(model.n_filters),
        state_dim=None if model.state_dim is None else times(model.state_dim),
        feed_forward_dim=times(model.feed_forward_dim),
    )


def nearest(model: ModelConfig, n_parameters: int, vocab_size: int, n_classes: int) -> ModelConfig:
    """The model, wider, with that many parameters as nearly as can be."""
    low, high = 1.0, WIDEST
    best, missed = model, abs(count(model, vocab_size, n_classes) - n_parameters)
    for _ in range(16):
        middle = (low + high) / 2
        tried = scaled(model, middle)
        n = count(tried, vocab_size, n_classes)
        if abs(n - n_parameters) < missed:
            best, missed = tried, abs(n - n_parameters)
        low, high = (middle, high) if n < n_parameters else (low, middle)
    return best


def count(model: ModelConfig, vocab_size: int, n_classes: int) -> int:
    """Trainable numbers of a model, which is drawn up but takes no memory."""
    import torch

    from wordwave.models.classifier import Classifier, count_parameters

    with torch.device("meta"):
        return count_parameters(Classifier(model, vocab_size, n_classes))


def widened(prepared: PreparedClassifier, waves: ClassifyConfig) -> PreparedClassifier:
    """A prepared real model made as large as the wave model of `waves`.

    Pretrained vectors keep their place; the numbers added to them start as noise of their size,
    but for words that training never meets, whose noise would stay: theirs are zero.
    """
    import torch

    from wordwave.models.classifier import Classifier
    from wordwave.tasks.classifier import TextClassifier

    old = prepared.classifier
    sizes = len(old.encoder.vocabulary), len(old.labels)
    wanted = count(replace(waves.model, dim=old.config.model.dim), *sizes)
    config = replace(old.config, model=nearest(old.config.model, wanted, *sizes))
    options: dict[str, Any] = {"sparse": config.training.row_sparse}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        if config.text.vectors is not None:
            vectors = old.model.embedding.meaning.detach()
            more = config.model.dim - vectors.shape[1]
            noise = torch.randn(len(vectors), more) * vectors.std()
            met = torch.zeros(len(vectors), 1, dtype=torch.bool)
            met[prepared.task.train.sentences.ids.long().unique()] = True
            noise *= met
            options["vectors"] = torch.cat([vectors, noise], dim=1)
        model = Classifier(config.model, *sizes, **options)
    return replace(prepared, classifier=TextClassifier(model, old.encoder, old.labels, config))
