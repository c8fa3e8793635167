"""A text classifier, composed: embedding → encoder → read-out → head."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build
from wordwave.errors import WordwaveError
from wordwave.layers import Dropout
from wordwave.models.config import ModelConfig
from wordwave.models.encoders import CNN, Bag, Recurrent, Transformer
from wordwave.text.vocabulary import PADDING_ID

_ENCODERS: dict[str, Any] = {
    "fasttext": Bag,
    "cnn": CNN,
    "lstm": Recurrent,
    "transformer": Transformer,
}


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

    def __init__(
        self, config: ModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        if config.encoder not in ("lstm", "transformer"):
            raise WordwaveError(
                f"a tagger needs the encoder 'lstm' or 'transformer', got {config.encoder!r}"
            )
        super().__init__(config, vocab_size, n_classes, **options)

    def _encode(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        return self.encoder.hidden_states(x, mask, positions)
