"""Word embeddings that encode positions; the names below are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wordwave.embedding.config import EmbeddingConfig as EmbeddingConfig

if TYPE_CHECKING:
    from wordwave.embedding.positional import ComplexEmbedding as ComplexEmbedding
    from wordwave.embedding.positional import LearnedPositionEmbedding as LearnedPositionEmbedding
    from wordwave.embedding.positional import (
        SinusoidalPositionEmbedding as SinusoidalPositionEmbedding,
    )
    from wordwave.embedding.positional import WordEmbedding as WordEmbedding
    from wordwave.embedding.registry import EMBEDDINGS as EMBEDDINGS
    from wordwave.embedding.registry import Embedding as Embedding
    from wordwave.embedding.registry import build as build
    from wordwave.embedding.registry import build_embedding as build_embedding
    from wordwave.embedding.wave import WaveEmbedding as WaveEmbedding

_HOMES = {
    "EMBEDDINGS": "registry",
    "ComplexEmbedding": "positional",
    "Embedding": "registry",
    "LearnedPositionEmbedding": "positional",
    "SinusoidalPositionEmbedding": "positional",
    "WaveEmbedding": "wave",
    "WordEmbedding": "positional",
    "build": "registry",
    "build_embedding": "registry",
}
__all__ = [*_HOMES, "EmbeddingConfig"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
