"""Where characters stand: in the text, in a segment of it, or in their words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.embedding.inputs import check_ids
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
        places = places_in_words(letters, n_read)
        after = torch.where(letters[:, -1:], places[:, -1:], 0) if ids.shape[1] else n_read
        return places.clamp(max=self.highest), after


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
