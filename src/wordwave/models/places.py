"""Where characters stand: in the text, in a segment of it, or in their words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.models.xl_config import XLConfig


class Places(nn.Module):
    """Counts characters, on from what was read before.

    Args:
        config: says what positions count within.
        vocab_size: number V of characters.
        letters: which characters words are made of, where positions count within words.

    Shape: letters (V,) bool
    """

    letters: Tensor | None

    def __init__(self, config: XLConfig, vocab_size: int, letters: Tensor | None) -> None:
        super().__init__()
        self.counts, self.highest = config.counts, config.wave_period
        if self.counts == "segment":
            self.highest = config.segment_length
        if self.counts != "word":
            letters = None
        elif letters is None or letters.shape != (vocab_size,):
            got = None if letters is None else tuple(letters.shape)
            raise ValueError(f"positions within words need letters {(vocab_size,)}, got {got}")
        self.register_buffer("letters", letters, persistent=False)

    def positions(self, ids: Tensor, n_read: Tensor | int) -> Tensor:
        """Of characters in the text, or in their words, from 1. Shape: (B, L) -> (L,) or (B, L)"""
        if self.letters is not None:
            return places_in_words(self.letters[ids], n_read)
        return torch.arange(1, ids.shape[1] + 1, device=ids.device) + n_read

    def of_embedding(self, ids: Tensor, n_read: Tensor | int) -> Tensor | None:
        """What the embedding is told: none where it does not look, or shall count 1, 2, … by
        itself, which tells it that angles are small. Shape: (B, L) -> (L,) or (B, L)"""
        if self.counts is None:
            return None
        if self.counts == "word":
            return self.positions(ids, n_read).clamp(max=self.highest)
        if isinstance(n_read, int) and n_read % self.highest == 0 and ids.shape[1] <= self.highest:
            return None
        return (self.positions(ids, n_read) - 1) % self.highest + 1

    def counted(self, ids: Tensor, n_read: Tensor | int) -> Tensor | int:
        """What `n_read` is for the text that follows. Shape: (B, L) -> (B, 1), or one for all"""
        if self.letters is None:
            return n_read + ids.shape[1]
        letters = self.letters[ids[:, -1:]]
        return torch.where(letters, self.positions(ids, n_read)[:, -1:], 0)


def places_in_words(letters: Tensor, n_before: Tensor | int) -> Tensor:
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
