"""Transformer-XL, a character-level language model (Dai et al., 2019), over either field."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build
from wordwave.embedding.wave import check_ids
from wordwave.errors import WordwaveError
from wordwave.layers import Dropout, KVCache, LayerNorm, MultiHeadAttention, RelativeAttention
from wordwave.models.config import TransformerXLConfig
from wordwave.models.utils import transformer_layer


class XLState(NamedTuple):
    """What is kept of the text so far, to score or generate what follows."""

    caches: tuple[KVCache, ...]
    """Keys and values of each layer."""
    offset: Tensor | int
    """Position offset of what follows, see `PositionCounter`. Shape: (B, 1), or one for all"""


class TransformerXL(nn.Module):
    """Logits of the next of V characters after each character of a text.

    Shape: letters (V,) bool, which characters are part of words, if positions count within words
    """

    def __init__(
        self, config: TransformerXLConfig, vocab_size: int, letters: Tensor | None = None
    ) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size
        self.counter = PositionCounter(config, vocab_size, letters)
        # By default the squares of a row add up to 1, so that tied logits are small at first.
        self.embedding = build(
            config.embedding, vocab_size, config.dim, max_length=0, padding_idx=None
        )
        field = self.embedding.field
        self.dropout = Dropout(config.dropout, field=field)
        hidden = config.hidden_units if field == "complex" else None
        self.layers = nn.ModuleList(
            transformer_layer(config, _attention(config), hidden=hidden)
            for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(config.dim, field=field) if config.norm_first else nn.Identity()
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        is_concat = field == "complex" and not self.by_magnitude
        self.readout = nn.Linear(2 * config.dim, config.dim) if is_concat else nn.Identity()
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.untied = None if config.tied else nn.Linear(config.dim, vocab_size, bias=False)

    def forward(
        self, ids: Tensor, memory: Tensor | None = None, offset: Tensor | int = 0
    ) -> tuple[Tensor, Tensor]:
        """Logits of a segment that attends to itself and to the whole memory.

        Shape:
            ids: (B, L).
            memory: (n_layers, B, M, W), as returned for the segment before.
            offset: position offset, see `next_offset`; (B, 1) or a number.
            returns: logits (B, L, V) and the memory, (n_layers, B, ≤ memory_length, W), detached.
        """
        n_memory = 0 if memory is None else memory.shape[2]
        # Only encodings inside attention use these positions.
        positions = torch.arange(1 - n_memory, ids.shape[1] + 1, device=ids.device) + offset
        x = self._embed(ids, self.counter(ids, offset)[0])
        inputs = []
        for i, layer in enumerate(self.layers):
            before = None if memory is None or not n_memory else memory[i].to(x.dtype)
            attended = x if before is None else torch.cat([before, x], dim=1)
            start = max(attended.shape[1] - self.config.memory_length, 0)
            inputs.append(attended[:, start:].detach())
            x, _ = layer(x, causal=True, positions=positions, memory=before)
        return self._logits(x), torch.stack(inputs)

    @torch.no_grad()
    def forward_cached(
        self,
        ids: Tensor,
        state: XLState | None = None,
        *,
        memory_length: int | None = None,
        offset: Tensor | int = 0,
    ) -> tuple[Tensor, XLState]:
        """Logits for scoring and generation: each character attends to `memory_length` before it.

        Shape:
            ids: (B, L).
            state: as returned for the text before.
            memory_length: the config's `eval_memory_length` if None.
            offset: position offset if there is no state; (B, 1) or a number.
            returns: logits (B, L, V), and the state for what follows.
        """
        window = self.config.eval_memory_length if memory_length is None else memory_length
        pasts: list[KVCache | None] = [None] * len(self.layers)
        if state is not None:
            pasts, offset = [*state.caches], state.offset
        positions = torch.arange(1, ids.shape[1] + 1, device=ids.device) + offset
        wave_positions, next_offset = self.counter(ids, offset)
        x = self._embed(ids, wave_positions)
        caches = []
        for layer, past in zip(self.layers, pasts, strict=True):
            x, cache = layer(x, causal=True, positions=positions, past=past, window=window)
            caches.append(cache.last(window))
        return self._logits(x), XLState(tuple(caches), next_offset)

    def next_offset(self, ids: Tensor, offset: Tensor | int = 0) -> Tensor | int:
        """The position offset of the text that follows these characters.

        Shape: (B, L) -> (B, 1), or one number for all
        """
        return self.counter(ids, offset)[1]

    def _embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        return self.dropout(self.config.dim**0.5 * self.embedding(ids, positions))

    def _logits(self, x: Tensor) -> Tensor:
        """Shape: (B, L, W) -> (B, L, V)"""
        x = self.norm(x)
        x = cx.magnitude(x) if self.by_magnitude else self.readout(x)
        weight = self.embedding.vectors if self.untied is None else self.untied.weight
        return F.linear(F.dropout(x, self.config.dropout, self.training), weight, self.bias)


def _attention(config: TransformerXLConfig) -> MultiHeadAttention:
    attention: Callable[..., MultiHeadAttention]
    if config.position == "relative":
        attention = partial(RelativeAttention, clamp_len=config.clamp_len)
    else:
        position = None if config.position == "none" else config.position
        attention = partial(MultiHeadAttention, position=position, bias=False)
    return attention(
        config.dim,
        config.n_heads,
        score=config.score,
        dropout=config.attention_dropout,
        field=config.embedding.field,
        share=config.share,
    )


class PositionCounter(nn.Module):
    """Positions of characters for the embedding, in a text that is given segment by segment.

    They count within words, within segments or through the whole text. The offset is the number of
    characters before a segment, or of letters right before it if positions count within words.
    """

    letters: Tensor | None

    def __init__(
        self, config: TransformerXLConfig, vocab_size: int, letters: Tensor | None
    ) -> None:
        super().__init__()
        self.counts, self.highest = config.counts, config.max_wave_position
        if self.counts == "segment":
            self.highest = config.segment_length
        if self.counts != "word":
            letters = None
        elif letters is None or letters.shape != (vocab_size,):
            got = None if letters is None else tuple(letters.shape)
            raise WordwaveError(f"positions within words need letters {(vocab_size,)}, got {got}")
        self.register_buffer("letters", letters, persistent=False)

    def forward(self, ids: Tensor, offset: Tensor | int) -> tuple[Tensor | None, Tensor | int]:
        """Positions, and the offset of the text that follows.

        Positions are None where the embedding ignores them, or where they are 1, 2, …, which it
        counts itself and then takes its fast path for small angles.

        Shape: ids (B, L), offset (B, 1) or a number for all -> (L,) or (B, L), and as offset
        """
        if self.letters is not None:
            check_ids(ids, len(self.letters))
            letters = self.letters[ids]
            positions = positions_in_words(letters, offset)
            after = torch.where(letters[:, -1:], positions[:, -1:], 0) if ids.shape[1] else offset
            return positions.clamp(max=self.highest), after
        length, after = ids.shape[1], offset + ids.shape[1]
        from_start = isinstance(offset, int) and offset % self.highest == 0
        if self.counts is None or (from_start and length <= self.highest):
            return None, after
        running = torch.arange(length, device=ids.device) + offset
        return running % self.highest + 1, after


def positions_in_words(letters: Tensor, n_before: Tensor | int) -> Tensor:
    """1, 2, … from the start of each word; a separator is one position after the last letter.

    Shape:
        letters: (B, L), true where a character is part of a word.
        n_before: (B, 1), letters right before, or a number for all.
        returns: (B, L)
    """
    n = torch.arange(1, letters.shape[1] + 1, device=letters.device)
    ends = torch.where(letters, 0, n).cummax(dim=1).values
    last_end = F.pad(ends, (1, 0))[:, :-1]
    return n - last_end + torch.where(last_end == 0, n_before, 0)
