"""Translation models by their config, and what decoding asks of them."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from wordwave.models.aed import RecurrentTranslator
from wordwave.models.seq2seq import TransformerTranslator
from wordwave.models.translation_config import TranslationModelConfig

TranslationModel = TransformerTranslator | RecurrentTranslator


class State(Protocol):
    """What a decoder keeps of sources, and of the words written so far, in rows of their own."""

    def pick(self, rows: Tensor, sources: Tensor | None = None) -> Any:
        """Some rows of words, in another order, and some of the sources, or all."""


class Decoder(Protocol):
    """Writes word by word."""

    def begin(self, source: Tensor) -> Any:
        """Read the source. Shape: (B, S) -> a `State`"""

    def step(self, written: Any, words: Tensor) -> tuple[Tensor, Any]:
        """Logits of the word after these, and the state with them. Shape: (B,) -> (B, V)"""


def translation_model(config: TranslationModelConfig, vocab_size: int) -> TranslationModel:
    """The model of a config."""
    if config.architecture == "aed":
        return RecurrentTranslator(config, vocab_size)
    return TransformerTranslator(config, vocab_size)
