"""Sentence vectors without layers: a sum of token vectors, and a sum of waves for word order."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.angle import angle
from wordwave.embedding.views import RELATIVE_RANGE
from wordwave.models.config import SentenceEncoderConfig

TABLE_WORDS = 64
"""Sentences of at most this many words take the phases of their positions from a table."""
SMOOTHING = 1e-3
"""Probability of a token that begins with half of the highest weight."""
EPS = 1e-12
"""Norms below this are not divided by."""


class TokenBatch(NamedTuple):
    """Sentences of tokens, one after the other, without padding.

    Shape: ids (T,), positions (T,), lengths (B,), n_words (B,)
    """

    ids: Tensor
    positions: Tensor
    """The position of each token's word in its sentence, from 1."""
    lengths: Tensor
    """Tokens of each sentence; they add up to T."""
    n_words: Tensor
    """The highest position of each sentence."""

    def to(self, device: torch.device) -> TokenBatch:
        return TokenBatch(*(part.to(device) for part in self))

    @property
    def rows(self) -> Tensor:
        """The number of each token's sentence. Shape: (T,)"""
        return torch.arange(len(self.lengths)).repeat_interleave(self.lengths)


class SentenceNetwork(nn.Module):
    """A unit vector for each sentence, in two parts of constant weight.

    meaning: Σ_t r(w_t), the sum of token vectors, whose lengths are the weights of tokens.
    order: Σ_t r'(w_t)·e^{iω_v·p_v(t)} for each view v, sums of waves whose frequencies are shared
    by all tokens, at the positions of the tokens' words.

    Both are L2-normalized and scaled by √(1 − α) and √α, so that the dot product of two vectors is
    (1 − α)·cos(meaning) + α·cos(order), where α is `order_weight`.

    Args:
        config: widths, views and α.
        vocab_size: number of tokens.
        sparse: tables with row-sparse gradients.
    """

    def __init__(
        self, config: SentenceEncoderConfig, vocab_size: int, *, sparse: bool = False
    ) -> None:
        super().__init__()
        self.config = config
        self.order_weight = config.order_weight
        dim, order_dim, n_views = config.dim, config.order_dim, len(config.views)
        meaning = nn.EmbeddingBag(vocab_size, dim, mode="sum", sparse=sparse)
        order = nn.Embedding(vocab_size, order_dim, sparse=sparse)
        frequency = nn.Embedding(n_views, order_dim)
        for table in (meaning, order):
            nn.init.normal_(table.weight, std=table.weight.shape[1] ** -0.5)
            table.row_sparse = sparse  # type: ignore[assignment]
        low, high = (math.log(limit) for limit in config.frequencies)
        with torch.no_grad():
            for row, view in zip(frequency.weight, config.views, strict=True):
                if view == "relative":
                    row.copy_(torch.linspace(*RELATIVE_RANGE, order_dim + 1)[1:])
                else:
                    row.copy_(torch.linspace(low, high, order_dim).exp())
        self.embedding = nn.ModuleDict({"meaning": meaning, "order": order})
        self.embedding["frequency"] = frequency
        self.sentence_dim = dim + 2 * n_views * order_dim
        self._table: tuple[int, Tensor] | None = None

    @property
    def frequency(self) -> Tensor:
        """ω of each view, in radians per word. Shape: (views, order_dim)"""
        weight: Tensor = self.embedding["frequency"].weight  # type: ignore[assignment]
        return weight

    @torch.no_grad()
    def weigh(self, information: Tensor) -> None:
        """Scale the token vectors, so that frequent tokens begin with a low weight.

        Shape: information (V,), −log p of each token
        """
        weights = SMOOTHING / (SMOOTHING + (-information).exp())
        for name in ("meaning", "order"):
            table: Tensor = self.embedding[name].weight  # type: ignore[assignment]
            table.mul_(weights.unsqueeze(1))

    def forward(self, words: TokenBatch, ordered: TokenBatch) -> tuple[Tensor, Tensor]:
        """The normalized meaning of some sentences, and the normalized order of others.

        Shape: (B, dim), (B', 2·order_dim·views)
        """
        return self.meaning(words), self.order(ordered)

    def vectors(self, tokens: TokenBatch) -> Tensor:
        """Shape: (B, sentence_dim), of length 1"""
        alpha = self.order_weight
        parts = (self.meaning(tokens), 1 - alpha), (self.order(tokens), alpha)
        return torch.cat([part * math.sqrt(weight) for part, weight in parts], dim=-1)

    def meaning(self, tokens: TokenBatch) -> Tensor:
        """Shape: (B, dim), of length 1"""
        return F.normalize(self.embedding["meaning"](tokens.ids, _offsets(tokens)), eps=EPS)

    def order(self, tokens: TokenBatch) -> Tensor:
        """[real | imag] of each view, side by side. Shape: (B, 2·order_dim·views), of length 1"""
        phasors = self._phasors(tokens).unflatten(-1, (-1, self.config.order_dim))
        words = self.embedding["order"](tokens.ids).unsqueeze(1)
        # Without gradients, the product takes the place of the phasors: less memory is written.
        waves = (words * phasors if torch.is_grad_enabled() else phasors.mul_(words)).flatten(1)
        places = torch.arange(len(waves), device=waves.device)
        return F.normalize(F.embedding_bag(places, waves, _offsets(tokens), mode="sum"), eps=EPS)

    def _phasors(self, tokens: TokenBatch) -> Tensor:
        """e^{iω·p} of each token in each view. Shape: (T, 2·order_dim·views)"""
        frequency = self.frequency
        n_words = tokens.n_words.repeat_interleave(tokens.lengths)
        longest = int(tokens.n_words.max()) if len(tokens.n_words) else 0
        if longest > TABLE_WORDS:
            return self._computed(tokens.positions, n_words)
        places = n_words * (n_words - 1) // 2 + tokens.positions - 1
        if not torch.is_grad_enabled():
            if self._table is None or self._table[0] != frequency._version:
                self._table = frequency._version, self._triangle(TABLE_WORDS)
            return F.embedding(places, self._table[1].to(frequency.device))
        return F.embedding(places, self._triangle(longest))

    def _triangle(self, longest: int) -> Tensor:
        """e^{iω·p} of position 1 of 1 word, 1 and 2 of 2 words, … Shape: (n·(n + 1)/2, width)"""
        lengths = torch.arange(1, longest + 1, device=self.frequency.device)
        n_words = lengths.repeat_interleave(lengths)
        before = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        places = torch.arange(len(n_words), device=before.device)
        return self._computed(places - before + 1, n_words)

    def _computed(self, positions: Tensor, n_words: Tensor) -> Tensor:
        """e^{iω·p} in each view. Shape: (T,), (T,) -> (T, 2·order_dim·views)"""
        end = n_words + 1
        counted = {"start": positions, "end": end - positions, "relative": positions / end}
        angles = [
            angle(row, counted[view].unsqueeze(-1))
            for view, row in zip(self.config.views, self.frequency, strict=True)
        ]
        return torch.cat([part for a in angles for part in (a.cos(), a.sin())], dim=-1)


def _offsets(tokens: TokenBatch) -> Tensor:
    """Where each sentence begins. Shape: (B,)"""
    return tokens.lengths.cumsum(0) - tokens.lengths
