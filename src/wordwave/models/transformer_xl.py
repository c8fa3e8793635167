"""Where characters stand: in the text, in a segment of it, or in their words."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import build_embedding
from wordwave.embedding.inputs import check_ids
from wordwave.errors import WordwaveError
from wordwave.layers import Dropout, FeedForward, Field, KVCache, LayerNorm
from wordwave.layers.relative_attention import RelativeAttention
from wordwave.models.config import TransformerXLConfig


class PositionCounter(nn.Module):
    """Counts characters, on from what was read before.

    Args:
        config: says what positions count within.
        vocab_size: number V of characters.
        letters: which characters words are made of, where positions count within words.

    Shape: letters (V,) bool
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

    def forward(self, ids: Tensor, n_read: Tensor | int) -> tuple[Tensor | None, Tensor | int]:
        """Positions for the embedding, and what `n_read` is for the text that follows.

        There are none where the embedding does not look, or is to count 1, 2, … by itself, which
        tells it that angles are small. Within words, letters right before are what was read.

        Shape: ids (B, L), n_read (B, 1) or a number for all -> (L,) or (B, L), and as n_read
        """
        if self.letters is not None:
            return self._in_words(ids, n_read)
        length, after = ids.shape[1], n_read + ids.shape[1]
        from_start = isinstance(n_read, int) and n_read % self.highest == 0
        if self.counts is None or (from_start and length <= self.highest):
            return None, after
        running = torch.arange(length, device=ids.device) + n_read
        return running % self.highest + 1, after

    def _in_words(self, ids: Tensor, n_read: Tensor | int) -> tuple[Tensor, Tensor | int]:
        assert self.letters is not None
        check_ids(ids, len(self.letters))
        letters = self.letters[ids]
        places = positions_in_words(letters, n_read)
        after = torch.where(letters[:, -1:], places[:, -1:], 0) if ids.shape[1] else n_read
        return places.clamp(max=self.highest), after


def positions_in_words(letters: Tensor, n_before: Tensor | int) -> Tensor:
    """1, 2, … from the start of each word; what ends a word stands after its last letter.

    Shape:
        letters: (B, L), true where a character is part of a word.
        n_before: (B, 1), letters right before, or a number for all.
        returns: (B, L)
    """
    n = torch.arange(1, letters.shape[1] + 1, device=letters.device)
    ends = torch.where(letters, 0, n).cummax(dim=1).values
    last_end = F.pad(ends, (1, 0))[:, :-1]
    return n - last_end + torch.where(last_end == 0, n_before, 0)


class XLState(NamedTuple):
    """What a model knows of a text that it has read so far."""

    memories: tuple[KVCache, ...]
    """Keys and values of each layer."""
    distances: tuple[Tensor | None, ...]
    """What each layer makes of distances, worked out once."""
    n_read: Tensor | int
    """Characters read, see `TransformerXL.counted`. Shape: (B, 1), or a number for all"""


class XLLayer(nn.Module):
    """Attention, then feed-forward, each around a shortcut and with a norm of its own."""

    def __init__(self, config: TransformerXLConfig, field: Field) -> None:
        super().__init__()
        self.attention = RelativeAttention(
            config.dim,
            config.n_heads,
            field=field,
            share=config.share,
            score=config.score,
            position=config.position,
            clamp_len=config.clamp_len,
            dropout=config.attention_dropout,
        )
        self.feed_forward = FeedForward(
            config.dim,
            config.feed_forward_dim,
            field=field,
            share=config.share,
            hidden=config.hidden_units if field == "complex" else None,
            dropout=config.dropout,
        )
        self.norms = nn.ModuleList(LayerNorm(config.dim, field=field) for _ in range(2))
        self.dropout = Dropout(config.dropout, field=field)
        self.norm_first = config.norm_first

    def recall(self, states: Tensor, positions: Tensor) -> KVCache:
        """Keys and values of remembered states. Shape: (B, M, W), positions (M,) or (B, M)"""
        return self.attention.read(
            self.norms[0](states) if self.norm_first else states, positions=positions
        )

    def forward(
        self,
        x: Tensor,
        past: KVCache | None,
        positions: Tensor,
        *,
        window: int | None = None,
        distances: Tensor | None = None,
    ) -> tuple[Tensor, KVCache]:
        """Shape: x (B, L, W), positions (L,) or (B, L) -> (B, L, W), and all keys and values"""
        first, second = self.norms
        source = first(x) if self.norm_first else x
        memory = self.attention.read(source, past, positions)
        y = self.attention.look_back(source, memory, window=window, distances=distances)
        x = x + self.dropout(y)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(second(x))), memory
        x = first(x)
        return second(x + self.dropout(self.feed_forward(x))), memory


OF_WAVES = ("share_frequency", "phase", "frequency_init", "frequency_range", "freeze_frequency")
"""Settings that the embedding knows by the same name."""


class TransformerXL(nn.Module):
    """What character comes next, after each character of a text.

    Args:
        config: what it is made of.
        vocab_size: number V of characters.
        letters: which characters words are made of, if positions count within words.

    Shape: letters (V,) bool
    """

    def __init__(
        self, config: TransformerXLConfig, vocab_size: int, letters: Tensor | None = None
    ) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size
        self.places = PositionCounter(config, vocab_size, letters)
        options: dict[str, Any] = {"padding_idx": None}
        if config.embedding == "complex-order":
            options |= {name: getattr(config, name) for name in OF_WAVES}
        if config.embedding == "tpe":  # as large as the words
            options["position_scale"] = config.dim**-0.5
        self.embedding = build_embedding(config.embedding, vocab_size, config.dim, **options)
        with torch.no_grad():  # so that tied predictions start small; what is read is scaled up
            self.meaning.mul_(config.dim**-0.5)
        field = self.embedding.field
        self.dropout = Dropout(config.dropout, field=field)
        self.layers = nn.ModuleList(XLLayer(config, field) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.dim, field=field) if config.norm_first else nn.Identity()
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        self.readout: nn.Module = nn.Identity()
        if field == "complex" and config.readout == "concat":
            self.readout = nn.Linear(2 * config.dim, config.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.untied = None if config.tied else nn.Linear(config.dim, vocab_size, bias=False)

    @property
    def meaning(self) -> Tensor:
        """Vectors or amplitudes of the characters. Shape: (V, D)"""
        return self.embedding.meaning

    def forward(
        self, ids: Tensor, states: Tensor | None = None, n_read: Tensor | int = 0
    ) -> tuple[Tensor, Tensor]:
        """Read a segment after remembered states; all of them are looked back to.

        Shape:
            ids: (B, L).
            states: (n_layers, B, M, W), what this gave for the segment before.
            n_read: what `counted` says of the text before; (B, 1) or a number.
            returns: logits (B, L, V) and states to remember, (n_layers, B, ≤ memory_length, W).
        """
        positions = self._positions(ids, n_read)
        n_past = 0 if states is None else states.shape[2]
        before = torch.arange(1 - n_past, 1, device=ids.device) + n_read
        places, _ = self.places(ids, n_read)
        x = self._embedded(ids, places)
        kept = []
        for i, layer in enumerate(self.layers):
            past = states[i] if states is not None and n_past else None
            known = x if past is None else torch.cat([past.to(x.dtype), x], dim=1)
            kept.append(known[:, max(known.shape[1] - self.config.memory_length, 0) :].detach())
            x, _ = layer(x, None if past is None else layer.recall(past, before), positions)  # type: ignore[operator]
        return self._predicted(x), torch.stack(kept)

    @torch.no_grad()
    def read(
        self,
        ids: Tensor,
        past: XLState | None = None,
        *,
        memory_length: int | None = None,
        n_read: Tensor | int = 0,
    ) -> tuple[Tensor, XLState]:
        """Read on, for scoring and writing: each character looks back to `memory_length` others.

        Shape:
            ids: (B, L).
            memory_length: the config's `eval_memory_length` if None.
            n_read: without a past, what `counted` says of the text before; (B, 1) or a number.
            returns: logits (B, L, V), and the past of what comes next.
        """
        window = self.config.eval_memory_length if memory_length is None else memory_length
        if past is None:
            distances: tuple[Tensor | None, ...] = (None,) * len(self.layers)
            memories: list[KVCache | None] = [None] * len(self.layers)
            n_keys = ids.shape[1]
        else:
            distances, n_read, memories = past.distances, past.n_read, [*past.memories]
            n_keys = ids.shape[1] + past.memories[0].keys.shape[2]
        if distances[0] is None or distances[0].shape[1] < n_keys:
            reach = min(2 * n_keys, window + ids.shape[1])  # doubled, to be worked out seldom
            distances = tuple(layer.attention.distances(reach) for layer in self.layers)  # type: ignore[union-attr, operator]
        positions = self._positions(ids, n_read)
        places, n_after = self.places(ids, n_read)
        x = self._embedded(ids, places)
        kept = []
        for layer, memory, far in zip(self.layers, memories, distances, strict=True):
            x, known = layer(x, memory, positions, window=window, distances=far)
            start = max(known.keys.shape[2] - window, 0)
            kept.append(
                KVCache(
                    known.keys[:, :, start:],
                    known.values[:, :, start:],
                    known.positions[..., start:],
                )
            )
        return self._predicted(x), XLState(tuple(kept), distances, n_after)

    def counted(self, ids: Tensor, n_read: Tensor | int = 0) -> Tensor | int:
        """How many characters were read after some more; where positions count within words, only
        those of the word that has begun.

        Shape: (B, L) -> (B, 1), or a number for all
        """
        return self.places(ids, n_read)[1]

    def _positions(self, ids: Tensor, n_read: Tensor | int) -> Tensor:
        """For attention, where only RoPE looks at them. Shape: (L,) or (B, L), from 1"""
        return torch.arange(1, ids.shape[1] + 1, device=ids.device) + n_read

    def _embedded(self, ids: Tensor, places: Tensor | None) -> Tensor:
        return self.dropout(self.config.dim**0.5 * self.embedding(ids, places))

    def _predicted(self, x: Tensor) -> Tensor:
        """Shape: (B, L, W) -> (B, L, V)"""
        x = self.norm(x)
        x = cx.magnitude(x) if self.by_magnitude else self.readout(x)
        weight = self.meaning if self.untied is None else self.untied.weight
        return F.linear(F.dropout(x, self.config.dropout, self.training), weight, self.bias)
