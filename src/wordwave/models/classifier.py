"""A text classifier, composed: embedding → encoder → read-out → head."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build
from wordwave.errors import WordwaveError
from wordwave.layers import Dropout, Field, n_parts
from wordwave.models.config import ModelConfig
from wordwave.models.encoders import CNN, Bag, Recurrent, Transformer
from wordwave.text.vocabulary import PADDING_ID


def encoder_from(config: ModelConfig, dim: int, field: Field) -> nn.Module:
    """The encoder of a config, over the field of the embedding."""
    if config.encoder == "fasttext":
        return Bag(config, n_parts(field) * dim)
    encoders = {"cnn": CNN, "lstm": Recurrent, "transformer": Transformer}
    return encoders[config.encoder](config, dim, field)


class ReadOut(nn.Module):
    """From the field to real numbers: real and imaginary parts concatenated, or magnitudes."""

    def __init__(self, config: ModelConfig, width: int, field: Field) -> None:
        super().__init__()
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        self.out_dim = width // 2 if self.by_magnitude else width

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., parts·D) -> (..., out)"""
        return cx.magnitude(x) if self.by_magnitude else x


class Head(nn.Sequential):
    """From real features to logits, with an optional hidden layer."""

    def __init__(self, config: ModelConfig, width: int, n_classes: int) -> None:
        hidden: list[nn.Module] = [nn.Dropout(config.dropout)]
        if config.hidden_dim:
            hidden += [nn.Linear(width, config.hidden_dim), nn.ReLU(), nn.Dropout(config.dropout)]
            width = config.hidden_dim
        super().__init__(*hidden, nn.Linear(width, n_classes))


class Classifier(nn.Module):
    """Logits for sentences of word ids, padded with 0.

    Args:
        config: the architecture.
        vocab_size: number of word ids, padding included.
        n_classes: number of classes.
        options: passed on to the embedding, such as `vectors`.
    """

    def __init__(
        self, config: ModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        super().__init__()
        self.config, self.n_classes = config, n_classes
        self.embedding = build(
            config.embedding,
            vocab_size,
            config.dim,
            max_length=config.max_length,
            padding_idx=PADDING_ID,
            **options,
        )
        field = self.embedding.field
        self.dropout = Dropout(config.dropout, field=field)
        self.encoder = encoder_from(config, config.dim, field)
        self.readout = ReadOut(config, self.encoder.out_dim, field)  # type: ignore[arg-type]
        self.head = Head(config, self.readout.out_dim, n_classes)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, n_classes)"""
        mask = ids != PADDING_ID
        x = self.dropout(self.embedding(ids, positions))
        return self.head(self.readout(self.encoder(x, mask, positions)))


class Tagger(Classifier):
    """Logits of every word of a sentence, for encoders with a hidden state for each word."""

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
        mask = ids != PADDING_ID
        x = self.dropout(self.embedding(ids, positions))
        hidden: Tensor = self.encoder.hidden_states(x, mask, positions)  # type: ignore[operator]
        return self.head(self.readout(hidden))
