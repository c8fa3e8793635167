"""Embeddings by name, all called alike: `embedding(ids, positions=None)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from wordwave.embedding.positional import (
    ComplexEmbedding,
    LearnedPositionEmbedding,
    SinusoidalPositionEmbedding,
    WordEmbedding,
)
from wordwave.embedding.wave import WaveEmbedding
from wordwave.errors import unknown

Embedding: TypeAlias = WordEmbedding | WaveEmbedding
"""What all of them are: a vector a word to which a position is added, or a wave."""
EMBEDDINGS: dict[str, Callable[..., Embedding]] = {
    "none": WordEmbedding,
    "pe": LearnedPositionEmbedding,
    "tpe": SinusoidalPositionEmbedding,
    "complex-vanilla": ComplexEmbedding,
    "complex-order": WaveEmbedding,
}
"""The kinds the paper compares, under its own names."""


def build_embedding(kind: str, vocab_size: int, dim: int, **options: Any) -> Embedding:
    """An embedding of one of the kinds in `EMBEDDINGS`; the options are those of its class.

    Its `field` says whether the output is real (..., L, D) or complex (..., L, 2·D), and `out_dim`
    how wide it is.
    """
    if kind not in EMBEDDINGS:
        raise unknown("kind", kind, EMBEDDINGS)
    return EMBEDDINGS[kind](vocab_size, dim, **options)


__all__ = [
    "EMBEDDINGS",
    "ComplexEmbedding",
    "Embedding",
    "LearnedPositionEmbedding",
    "SinusoidalPositionEmbedding",
    "WaveEmbedding",
    "WordEmbedding",
    "build_embedding",
]
