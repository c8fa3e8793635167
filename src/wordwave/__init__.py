"""wordwave: every word is a wave.

The names below are imported on first use, so that `import wordwave` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wordwave import complex as complex
    from wordwave import layers as layers
    from wordwave import positions as positions
    from wordwave.embedding import EMBEDDINGS as EMBEDDINGS
    from wordwave.embedding import WaveEmbedding as WaveEmbedding
    from wordwave.embedding import build_embedding as build_embedding
    from wordwave.embedding.pretrained import Vectors as Vectors
    from wordwave.embedding.pretrained import read_vectors as read_vectors
    from wordwave.errors import WordwaveError as WordwaveError
    from wordwave.huggingface import enrich as enrich
    from wordwave.huggingface import load_enriched as load_enriched
    from wordwave.positions import ALiBi as ALiBi
    from wordwave.positions import RoPE as RoPE
    from wordwave.sklearn import WaveClassifier as WaveClassifier
    from wordwave.sklearn_pairs import PairClassifier as PairClassifier
    from wordwave.tasks.classifier import TextClassifier as TextClassifier
    from wordwave.tasks.language_model import LanguageModel as LanguageModel
    from wordwave.tasks.matcher import TextMatcher as TextMatcher
    from wordwave.tasks.sentence_encoder import SentenceEncoder as SentenceEncoder
    from wordwave.tasks.sentence_encoder import (
        SentenceTransformersModule as SentenceTransformersModule,
    )
    from wordwave.tasks.translator import Translator as Translator
    from wordwave.training.optim import RowAdam as RowAdam

__version__ = "0.1.0"

_MODULES = {
    "layers": "wordwave.layers",
    "positions": "wordwave.positions",
    "EMBEDDINGS": "wordwave.embedding",
    "WaveEmbedding": "wordwave.embedding",
    "build_embedding": "wordwave.embedding",
    "Vectors": "wordwave.embedding.pretrained",
    "read_vectors": "wordwave.embedding.pretrained",
    "ALiBi": "wordwave.positions",
    "RoPE": "wordwave.positions",
    "RowAdam": "wordwave.training.optim",
    "TextClassifier": "wordwave.tasks.classifier",
    "TextMatcher": "wordwave.tasks.matcher",
    "SentenceEncoder": "wordwave.tasks.sentence_encoder",
    "SentenceTransformersModule": "wordwave.tasks.sentence_encoder",
    "Translator": "wordwave.tasks.translator",
    "LanguageModel": "wordwave.tasks.language_model",
    "WaveClassifier": "wordwave.sklearn",
    "PairClassifier": "wordwave.sklearn_pairs",
    "enrich": "wordwave.huggingface",
    "load_enriched": "wordwave.huggingface",
    "WordwaveError": "wordwave.errors",
}

__all__ = [*_MODULES, "__version__"]  # without `complex`, which would shadow the builtin


def __getattr__(name: str) -> Any:
    if name == "complex":
        return importlib.import_module("wordwave.complex")
    if name not in _MODULES:
        raise AttributeError(f"module 'wordwave' has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as missing:
        from wordwave.errors import missing_extra

        if (line := missing_extra(missing)) is None:
            raise
        raise ModuleNotFoundError(f"wordwave.{name}: {line}", name=missing.name) from None
    return module if _MODULES[name] == f"wordwave.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "complex"])
