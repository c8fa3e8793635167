"""Rearranged sentences: for each new place, which of the old places its word comes from."""

from __future__ import annotations

import torch
from torch import Tensor


def without(words: Tensor, n: int) -> Tensor:
    """Sentences of n words with one left out. Shape: words (N,) -> (N, n − 1)"""
    places = torch.arange(n - 1)
    return places + (places >= words.unsqueeze(1)).long()


def moved(moves: Tensor, n: int) -> Tensor:
    """Sentences of n words with one taken out and put back so that it stands at another place.

    Shape: moves (N, 2), the word's place and the new one, from 0 -> (N, n)
    """
    word, to = moves[:, :1], moves[:, 1:]
    place = torch.arange(n)
    back = ((place >= word) & (place < to)).long()
    forth = ((place <= word) & (place > to)).long()
    return torch.where(place == to, word, place + back - forth)


def moves_to_try(n: int, most: int) -> Tensor:
    """All moves of single words, or where these are more than `most`, those of each word to the
    next place and to places spread evenly from the first to the last.

    Shape: (N, 2), the word's place and the new one, from 0
    """
    if n * (n - 1) <= most:
        places = torch.arange(n)
    else:
        places = torch.linspace(0, n - 1, max(most // n, 3)).round().long().unique()
    word = torch.arange(n)
    pairs = torch.cartesian_prod(word, places)
    swaps = torch.stack([word[:-1], word[1:]], dim=1)
    pairs = torch.cat([pairs, swaps]).unique(dim=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]
