"""Word embeddings that encode positions; all but the config are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wordwave.embedding.config import EmbeddingConfig

if TYPE_CHECKING:
    from wordwave.embedding.positional import (
        EMBEDDINGS,
        ComplexEmbedding,
        Embedding,
        LearnedPositionEmbedding,
        SinusoidalPositionEmbedding,
        WordEmbedding,
        build,
        build_embedding,
    )
    from wordwave.embedding.wave import WaveEmbedding

__all__ = [
    "EMBEDDINGS",
    "ComplexEmbedding",
    "Embedding",
    "EmbeddingConfig",
    "LearnedPositionEmbedding",
    "SinusoidalPositionEmbedding",
    "WaveEmbedding",
    "WordEmbedding",
    "build",
    "build_embedding",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("wordwave.embedding.positional"), name)
