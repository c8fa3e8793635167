"""A text classifier, composed: embedding → encoder → read-out → head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import Embedding, build_embedding
from wordwave.errors import WordwaveError
from wordwave.layers import Dropout, Field, n_parts
from wordwave.models.config import IN_ATTENTION, ModelConfig
from wordwave.models.encoders import CNN, Bag, Recurrent, Transformer

PADDING = 0
WAVE_OPTIONS = (
    "share_frequency",
    "share_amplitude",
    "phase",
    "damping",
    "frequency_init",
    "frequency_range",
    "freeze_frequency",
)


def embedding_from(config: ModelConfig, vocab_size: int, **options: Any) -> Embedding:
    """The embedding of a config; options such as `vectors` are passed on."""
    kind = "none" if config.embedding in IN_ATTENTION else config.embedding
    if kind == "complex-order":
        options |= {name: getattr(config, name) for name in WAVE_OPTIONS}
    vectors: Tensor | None = options.get("vectors")
    if kind in ("pe", "tpe"):
        # A position that drowns the words, or is drowned, makes a poor baseline.
        size = config.word_scale if vectors is None else float(vectors.square().mean().sqrt())
        options["position_scale"] = config.position_scale * size
    if kind == "pe":
        options["max_length"] = config.max_length
    embedding = build_embedding(kind, vocab_size, config.dim, padding_idx=PADDING, **options)
    if vectors is None:
        with torch.no_grad():
            embedding.meaning.mul_(config.word_scale)
    return embedding


def encoder_from(config: ModelConfig, dim: int, field: Field) -> nn.Module:
    """The encoder of a config, over the field that the embedding is in."""
    if config.encoder == "fasttext":
        return Bag(config, n_parts(field) * dim)
    encoders = {"cnn": CNN, "lstm": Recurrent, "transformer": Transformer}
    return encoders[config.encoder](config, dim, field)


class ReadOut(nn.Module):
    """From the field to real numbers: both parts side by side, or magnitudes."""

    def __init__(self, config: ModelConfig, width: int, field: Field) -> None:
        super().__init__()
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        self.out_dim = width // 2 if self.by_magnitude else width

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., out)"""
        return cx.magnitude(x) if self.by_magnitude else x


class Head(nn.Sequential):
    """From real features to classes, through a hidden layer if there is one."""

    def __init__(self, config: ModelConfig, width: int, n_classes: int) -> None:
        hidden: list[nn.Module] = [nn.Dropout(config.dropout)]
        if config.hidden_dim:
            hidden += [nn.Linear(width, config.hidden_dim), nn.ReLU(), nn.Dropout(config.dropout)]
            width = config.hidden_dim
        super().__init__(*hidden, nn.Linear(width, n_classes))


class Classifier(nn.Module):
    """Logits for sentences of word ids, padded with 0.

    Args:
        config: what it is made of.
        vocab_size: number of word ids, padding included.
        n_classes: how many classes.
        options: for the embedding, such as `vectors`.
    """

    def __init__(
        self, config: ModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        super().__init__()
        self.config, self.n_classes = config, n_classes
        self.embedding = embedding_from(config, vocab_size, **options)
        field = self.embedding.field
        self.dropout = Dropout(config.dropout, field=field)
        self.encoder = encoder_from(config, config.dim, field)
        self.readout = ReadOut(config, self.encoder.out_dim, field)  # type: ignore[arg-type]
        self.head = Head(config, self.readout.out_dim, n_classes)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, n_classes)"""
        mask = ids != PADDING
        x = self.dropout(self.embedding(ids, positions))
        return self.head(self.readout(self.encoder(x, mask, positions)))


class Tagger(Classifier):
    """Logits at every word of a sentence, for encoders that keep words apart."""

    def __init__(
        self, config: ModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        if config.encoder not in ("lstm", "transformer"):
            raise WordwaveError(
                f"a tagger needs the encoder 'lstm' or 'transformer', got {config.encoder!r}"
            )
        super().__init__(config, vocab_size, n_classes, **options)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, L, n_classes)"""
        mask = ids != PADDING
        x = self.dropout(self.embedding(ids, positions))
        states: Tensor = self.encoder.states(x, mask, positions)  # type: ignore[operator]
        return self.head(self.readout(states))


def count_parameters(model: nn.Module) -> int:
    """Trainable numbers of a model."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
