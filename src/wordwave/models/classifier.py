"""A text classifier, composed: embedding → encoder → read-out → head."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build
from wordwave.errors import WordwaveError
from wordwave.layers import (
    LSTM,
    Conv1d,
    Dropout,
    Field,
    LayerNorm,
    n_parts,
    side_by_side,
    word_mask,
)
from wordwave.models.config import ModelConfig
from wordwave.models.utils import transformer_layer
from wordwave.text.vocabulary import PADDING_ID


def pool_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return (x * mask.unsqueeze(-1)).sum(dim=1)


def pool_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L), true at least once in each row -> (B, W)"""
    return x.masked_fill(~mask.unsqueeze(-1), -math.inf).amax(dim=1)


class Bag(nn.Module):
    """A sum or mean of embeddings: word order counts only as far as the embedding encodes it."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.pool = pool_sum if config.pooling == "sum" else pool_mean
        self.out_dim = n_parts(field) * config.dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is pooled, a vector a word. Shape: x (B, L, W), mask (B, L) -> (B, L, out)"""
        return x

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return self.pool(self.hidden_states(x, mask, positions), mask)


class Recurrent(Bag):
    """A bidirectional LSTM and mean pooling."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.lstm = LSTM(
            config.dim,
            config.state_dim or config.dim,
            n_layers=config.n_layers,
            bidirectional=True,
            dropout=config.dropout,
            field=field,
            share=config.share,
        )
        self.pool = pool_mean
        self.out_dim = n_parts(field) * self.lstm.out_dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.lstm(x, mask.sum(1))[0]


class Transformer(Bag):
    """Pre-norm Transformer layers, a final norm, and a sum or mean."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.layers = nn.ModuleList(transformer_layer(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.dim, field=field)

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x, _ = layer(x, mask=mask, positions=positions)
        return self.norm(x)


class CNN(nn.Module):
    """Convolutions of several widths, ReLU and max pooling over the sentence."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.field: Field = field
        self.widths = config.widths
        self.convolutions = nn.ModuleList(
            Conv1d(config.dim, config.n_filters, width, field=field, share=config.share)
            for width in config.widths
        )
        self.out_dim = n_parts(field) * config.n_filters * len(config.widths)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, parts·filters·widths)"""
        lengths = mask.sum(1)
        x = F.pad(x, (0, 0, 0, max(max(self.widths) - x.shape[1], 0)))
        pooled = []
        for convolution, width in zip(self.convolutions, self.widths, strict=True):
            y = F.relu(convolution(x))
            # A sentence shorter than the filter still has one window, padded with zeros.
            windows = (lengths - width + 1).clamp(min=1)
            pooled.append(pool_max(y, word_mask(windows, y.shape[1])))
        return side_by_side(self.field, pooled)


_ENCODERS: dict[str, Any] = {
    "fasttext": Bag,
    "cnn": CNN,
    "lstm": Recurrent,
    "transformer": Transformer,
}


class Classifier(nn.Module):
    """Logits for sentences of word ids, padded with 0; options are passed on to the embedding."""

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
        self.encoder = _ENCODERS[config.encoder](config, field)
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        width = self.encoder.out_dim // 2 if self.by_magnitude else self.encoder.out_dim
        hidden: list[nn.Module] = [nn.Dropout(config.dropout)]
        if config.hidden_dim:
            hidden += [nn.Linear(width, config.hidden_dim), nn.ReLU(), nn.Dropout(config.dropout)]
        self.head = nn.Sequential(*hidden, nn.Linear(config.hidden_dim or width, n_classes))

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, n_classes)"""
        x = self.dropout(self.embedding(ids, positions))
        x = self._encode(x, ids != PADDING_ID, positions)
        return self.head(cx.magnitude(x) if self.by_magnitude else x)

    def _encode(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        return self.encoder(x, mask, positions)


class Tagger(Classifier):
    """Logits of every word of a sentence, (B, L, n_classes), from its hidden state."""

    def __init__(self, config: ModelConfig, *sizes: int, **options: Any) -> None:
        if config.encoder not in ("lstm", "transformer"):
            raise WordwaveError(
                f"a tagger needs the encoder 'lstm' or 'transformer', got {config.encoder!r}"
            )
        super().__init__(config, *sizes, **options)

    def _encode(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        return self.encoder.hidden_states(x, mask, positions)
