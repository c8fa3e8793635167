"""Embeddings by name, all called alike: `embedding(ids, positions=None)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wordwave.embedding.config import EmbeddingConfig
from wordwave.embedding.positional import (
    ComplexEmbedding,
    LearnedPositionEmbedding,
    SinusoidalPositionEmbedding,
    WordEmbedding,
)
from wordwave.embedding.wave import WaveEmbedding
from wordwave.errors import unknown

Embedding: TypeAlias = WordEmbedding | WaveEmbedding
"""A vector per word, to which a position vector may be added, or a wave."""
EMBEDDINGS: dict[str, Callable[..., Embedding]] = {
    "none": WordEmbedding,
    "pe": LearnedPositionEmbedding,
    "tpe": SinusoidalPositionEmbedding,
    "complex-vanilla": ComplexEmbedding,
    "complex-order": WaveEmbedding,
}
"""The kinds the paper compares, under its own names."""
NOT_OF_WAVES = ("kind", "word_scale", "position_scale")
"""Settings that are no options of `WaveEmbedding`."""


def build_embedding(kind: str, vocab_size: int, dim: int, **options: Any) -> Embedding:
    """An embedding of one of the kinds in `EMBEDDINGS`; the options are those of its class.

    Its `field` tells whether the output is real (..., L, D) or complex (..., L, 2·D), and `out_dim`
    how wide it is.
    """
    if kind not in EMBEDDINGS:
        raise unknown("kind", kind, EMBEDDINGS)
    return EMBEDDINGS[kind](vocab_size, dim, **options)


def build(
    config: EmbeddingConfig,
    vocab_size: int,
    dim: int,
    *,
    max_length: int,
    vectors: Tensor | None = None,
    **options: Any,
) -> Embedding:
    """The embedding that a config describes, with its initial values scaled.

    Args:
        max_length: highest position of `pe`.
        vectors: pretrained vectors (V, D), which are not scaled.
        options: more of its class, such as `padding_idx` and `sparse`.
    """
    kind = "none" if config.in_attention else config.kind
    word_scale = dim**-0.5 if config.word_scale is None else config.word_scale
    if kind == "complex-order":
        options |= {k: v for k, v in vars(config).items() if k not in NOT_OF_WAVES}
    if kind in ("pe", "tpe"):
        # A baseline whose positions outweigh its words, or the reverse, is a poor one.
        size = word_scale if vectors is None else float(vectors.square().mean().sqrt())
        options["position_scale"] = config.position_scale * size
    if kind == "pe":
        options["max_length"] = max_length
    embedding = build_embedding(kind, vocab_size, dim, vectors=vectors, **options)
    if vectors is None:
        with torch.no_grad():
            embedding.vectors.mul_(word_scale)
    return embedding
