"""The attentional encoder-decoder of LSTMs, the classic before the Transformer, over either field.

The decoder's state asks the source after each word (Luong et al., 2015), and the answer does not
go back into the LSTM: so all words of a target are learnt from at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wordwave.layers import LSTM, KVCache, Linear, side_by_side
from wordwave.models.config import TranslationModelConfig
from wordwave.models.encoder_decoder import (
    PADDING,
    EncoderDecoder,
    TransformerEncoderDecoder,
    ask_source,
    attention,
    rows_of,
)


@dataclass(frozen=True)
class LSTMDecoderState:
    """What the decoder keeps of the sources and of the words written so far.

    Several rows of words one after the other may be about the same source.

    Shape: mask (B, S), state h and c (layers, n·B, W)
    """

    source: KVCache
    mask: Tensor
    state: tuple[Tensor, ...]
    n_words: int = 0

    def pick(self, rows: Tensor, sources: Tensor | None = None) -> LSTMDecoderState:
        """Some rows of words, in another order, and some of the sources, or all."""
        picked = replace(self, state=tuple(s.index_select(1, rows) for s in self.state))
        if sources is None:
            return picked
        return replace(picked, source=rows_of(self.source, sources), mask=self.mask[sources])


class LSTMEncoderDecoder(EncoderDecoder[LSTMDecoderState]):
    """Logits of target words given source words; called as `TransformerEncoderDecoder` is.

    Args:
        config: what it is made of.
        vocab_size: number of ids of both languages together, specials included.
    """

    def __init__(self, config: TranslationModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        dim, read = config.dim, config.state_dim or config.dim

        def lstm(hidden: int, n_layers: int, both_ways: bool) -> LSTM:
            return LSTM(
                dim,
                hidden,
                n_layers=n_layers,
                bidirectional=both_ways,
                dropout=config.dropout,
                field=config.field,
                share=config.share,
            )

        def linear(width: int) -> Linear:
            return Linear(width, dim, field=config.field, share=config.share)

        self.encoder = lstm(read, config.encoder_layers, True)
        self.decoder = lstm(dim, config.decoder_layers, False)
        self.to_source = attention(config)
        self.narrow = linear(2 * read)
        self.bridges = nn.ModuleList(linear(2 * read) for _ in range(config.decoder_layers))
        self.combine = linear(2 * dim)

    def begin(self, source: Tensor, positions: Tensor | None = None) -> LSTMDecoderState:
        """Read the source. Shape: (B, S)"""
        mask = source != PADDING
        read, (ends, _) = self.encoder(self.embed(source, positions), mask.sum(1))
        both = side_by_side(self.config.field, ends[-2:])
        hidden = torch.stack([torch.tanh(bridge(both)) for bridge in self.bridges])
        memory = self.to_source.read(self.dropout(self.narrow(read)))
        return LSTMDecoderState(memory, mask, (hidden, torch.zeros_like(hidden)))

    @torch.no_grad()
    def attention_map(self, source: Tensor, target: Tensor) -> Tensor:
        """How much each target word hears of each source word, mean over heads.

        Shape: source (B, S), target (B, T) -> (B, 1, T, S)
        """
        written = self.begin(source)
        states, _ = self.decoder(self.embed(target), None, written.state)
        weights = self.to_source.weights(states, written.source, mask=written.mask)
        return weights.mean(1, keepdim=True)

    def _write(
        self, target: Tensor, written: LSTMDecoderState, positions: Tensor | None
    ) -> tuple[Tensor, LSTMDecoderState]:
        n = written.n_words
        if positions is None:
            positions = torch.arange(n + 1, n + target.shape[1] + 1, device=target.device)
        states, state = self.decoder(self.embed(target, positions), None, written.state)
        heard = ask_source(self.to_source, states, written.source, written.mask)
        both = torch.tanh(self.combine(side_by_side(self.config.field, [states, heard])))
        return self.dropout(both), replace(written, state=state, n_words=n + target.shape[1])


TranslationModel = TransformerEncoderDecoder | LSTMEncoderDecoder


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
        return LSTMEncoderDecoder(config, vocab_size)
    return TransformerEncoderDecoder(config, vocab_size)
