"""What models of any kind share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from wordwave.layers import FeedForward, Field, MultiHeadAttention, TransformerLayer
from wordwave.models.config import ModelConfig, TransformerXLConfig, TranslationModelConfig
from wordwave.models.ngrams import NgramLogits


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def count_fitted(model: nn.Module) -> int:
    """Number of trainable parameters and of fitted coefficients of n-grams, as results report it;
    models are matched by their trainable parameters."""
    ngrams = (part for part in model.modules() if isinstance(part, NgramLogits))
    return count_parameters(model) + sum(part.n_coefficients for part in ngrams)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[torch.device]:
    """Switch off dropout and gradients for a while; yields the device of the model."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield next(model.parameters()).device
    finally:
        model.train(was_training)


def transformer_layer(
    config: ModelConfig | TranslationModelConfig | TransformerXLConfig,
    attention: MultiHeadAttention | None = None,
    *,
    cross_attention: bool = False,
    hidden: Field | None = None,
) -> TransformerLayer:
    """The Transformer layer of a config, by default with self-attention as its embedding needs."""
    shared: dict[str, Any] = {"field": config.embedding.field, "share": config.share}
    attend = partial(MultiHeadAttention, config.dim, config.n_heads, score=config.score, **shared)
    return TransformerLayer(
        attention or attend(position=config.embedding.in_attention),
        FeedForward(
            config.dim, config.feed_forward_dim, hidden=hidden, dropout=config.dropout, **shared
        ),
        # Without a position encoding: positions in two languages do not correspond.
        cross_attention=attend() if cross_attention else None,
        norm_first=isinstance(config, ModelConfig) or config.norm_first,
        normalization=config.normalization if isinstance(config, ModelConfig) else "layer",
        dropout=config.dropout,
    )
