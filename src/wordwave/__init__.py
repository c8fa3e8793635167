"""wordwave: every word is a wave.

The names below are imported on first use, so that `import wordwave` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wordwave import complex as complex
    from wordwave import layers as layers
    from wordwave.embedding import EMBEDDINGS as EMBEDDINGS
    from wordwave.embedding import WaveEmbedding as WaveEmbedding
    from wordwave.embedding import build_embedding as build_embedding
    from wordwave.embedding.pretrained import Vectors as Vectors
    from wordwave.embedding.pretrained import read_vectors as read_vectors
    from wordwave.sklearn import WaveClassifier as WaveClassifier
    from wordwave.tasks.classifier import TextClassifier as TextClassifier

__version__ = "0.1.0"

_HOMES = {
    "complex": "wordwave.complex",
    "layers": "wordwave.layers",
    "EMBEDDINGS": "wordwave.embedding",
    "WaveEmbedding": "wordwave.embedding",
    "build_embedding": "wordwave.embedding",
    "Vectors": "wordwave.embedding.pretrained",
    "read_vectors": "wordwave.embedding.pretrained",
    "WaveClassifier": "wordwave.sklearn",
    "TextClassifier": "wordwave.tasks.classifier",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wordwave' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    return home if _HOMES[name] == f"wordwave.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
