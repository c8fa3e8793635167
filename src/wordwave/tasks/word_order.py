"""Edits of sentences: other orders of the same words, and fewer words in the same order.

Words are moved by giving their tokens other positions, so that subwords of a word stay together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave.models.sentence_encoder import TokenBatch

N_KINDS = 4
"""Ways of reordering a sentence."""


def reordered(
    tokens: TokenBatch, information: Tensor, *, generator: torch.Generator | None = None
) -> tuple[TokenBatch, Tensor]:
    """Each sentence in another order, and whether it differs from the original.

    With equal probability, two words are exchanged, which are drawn in proportion to their
    information; two neighbours are exchanged; a word is moved; two spans are exchanged.

    Args:
        information: −log p of each token of the vocabulary.

    Shape: information (V,) -> is_changed (B,)
    """
    n = tokens.n_words.unsqueeze(1)
    B, W = len(n), int(n.max())
    cells = _cells(tokens, W)
    places = torch.arange(W)
    is_word = places < n

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=generator)

    # The information of a word is that of its most informative token.
    weights = torch.zeros(B * W).scatter_reduce(0, cells, information[tokens.ids], "amax")
    race = -uniform(B, W).clamp(min=1e-9).log() / weights.view(B, W).clamp(min=1e-3)
    drawn = race.masked_fill(~is_word, float("inf")).topk(min(2, W), largest=False).indices
    one, other = drawn[:, :1], drawn[:, -1:]
    left = (uniform(B, 1) * (n - 1)).long()
    source, target = (uniform(B, 2) * n).long().split(1, dim=1)
    a, b, c, d = (uniform(B, 4) * (n + 1)).long().sort(dim=1).values.split(1, dim=1)

    def exchanged(first: Tensor, second: Tensor) -> Tensor:
        keys = places.where(places != first, second)
        return keys.where(places != second, first).float()

    moved = torch.where(places == source, target + 0.5 * (target - source).sign(), places.float())
    spans = places + torch.where(
        (a <= places) & (places < b),
        d - b,
        torch.where((b <= places) & (places < c), (d - c) - (b - a), 0),
    )
    spans = torch.where((c <= places) & (places < d), places - (c - a), spans).float()
    keys = torch.stack([exchanged(one, other), exchanged(left, left + 1), moved, spans])
    kind = torch.randint(N_KINDS, (B,), generator=generator)
    keys = keys[kind, torch.arange(B)].masked_fill(~is_word, float("inf"))
    order = keys.argsort(dim=1, stable=True)
    new = order.argsort(dim=1)
    spelled = torch.zeros(B * W, dtype=torch.long).index_add(0, cells, _hashed(tokens.ids))
    spelled = spelled.view(B, W)
    is_changed = (spelled.gather(1, order) != spelled).any(dim=1)
    return tokens._replace(positions=new.flatten()[cells] + 1), is_changed


def shortened(tokens: TokenBatch, *, generator: torch.Generator | None = None) -> TokenBatch:
    """Each sentence without one or two of its words; one of two words or less stays as it is."""
    n = tokens.n_words.unsqueeze(1)
    n_dropped = torch.randint(1, 3, n.shape, generator=generator)
    return _kept(tokens, _ranks(n, generator) >= torch.minimum(n_dropped, (n - 2).clamp(min=0)))


def halves(
    tokens: TokenBatch, *, generator: torch.Generator | None = None
) -> tuple[TokenBatch, TokenBatch]:
    """The words of each sentence in two random halves; a single word is in both."""
    n = tokens.n_words.unsqueeze(1)
    ranks = _ranks(n, generator)
    return _kept(tokens, ranks < (n + 1) // 2), _kept(tokens, ranks >= n // 2)


def _ranks(n_words: Tensor, generator: torch.Generator | None) -> Tensor:
    """The words of each sentence in random order, then padding. Shape: (B, 1) -> (B, W)"""
    drawn = torch.rand(len(n_words), int(n_words.max()), generator=generator)
    is_word = torch.arange(drawn.shape[1]) < n_words
    return drawn.masked_fill(~is_word, 2.0).argsort(dim=1).argsort(dim=1)


def _kept(tokens: TokenBatch, kept: Tensor) -> TokenBatch:
    """Sentences of some of their words. Shape: kept (B, W)"""
    B, W = kept.shape
    cells = _cells(tokens, W)
    kept = kept & (torch.arange(W) < tokens.n_words.unsqueeze(1))
    stays = kept.flatten()[cells]
    lengths = torch.zeros(B, dtype=torch.long).index_add(0, tokens.rows, stays.long())
    positions = kept.cumsum(dim=1).flatten()[cells]
    return TokenBatch(tokens.ids[stays], positions[stays], lengths, kept.sum(dim=1))


def concatenated(*batches: TokenBatch) -> TokenBatch:
    """The sentences of several batches, one batch after the other."""
    return TokenBatch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))


def _cells(tokens: TokenBatch, width: int) -> Tensor:
    """The number of each token's word in a matrix of sentences × words. Shape: (T,)"""
    return tokens.rows * width + tokens.positions - 1


def _hashed(ids: Tensor) -> Tensor:
    """Numbers whose sums differ between words that are spelled differently. Shape: (T,)"""
    return (ids + 1) * 6364136223846793005 % 4294967291
