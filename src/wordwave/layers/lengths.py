"""Sentences of different lengths in one batch."""

from __future__ import annotations

import torch
from torch import Tensor

from wordwave import complex as cx


def checked_lengths(lengths: Tensor, x: Tensor) -> Tensor:
    cx.check_tensor("lengths", lengths)
    is_whole = not (lengths.is_floating_point() or lengths.is_complex())
    if lengths.shape != x.shape[:1] or not is_whole or lengths.dtype == torch.bool:
        raise ValueError(
            f"lengths must be {x.shape[0]} integers, one per sentence, "
            f"got shape {tuple(lengths.shape)} of {lengths.dtype}"
        )
    if not torch.compiler.is_compiling() and lengths.numel():
        low, high = (int(v) for v in torch.aminmax(lengths))
        if low < 0 or high > x.shape[1]:
            bad = low if low < 0 else high
            raise ValueError(f"lengths must be in [0, L={x.shape[1]}], got {bad}")
    return lengths.to(device=x.device, dtype=torch.long)


def word_mask(lengths: Tensor, length: int) -> Tensor:
    """True where a word is, false where padding is. Shape: (B,) -> (B, L)"""
    return torch.arange(length, device=lengths.device) < lengths.unsqueeze(1)


def last_word(out: Tensor, start: Tensor, lengths: Tensor) -> Tensor:
    """The output at each sentence's last word, the starting state for an empty one.

    Shape: out (B, L, W), start (1, B, W), lengths (B,) -> (1, B, W)
    """
    index = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, out.shape[-1])
    last = out.gather(1, index).transpose(0, 1)
    return torch.where((lengths > 0).view(1, -1, 1), last, start)


def reversed_words(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sentence read from its last word to its first; padding stays where it is.

    Shape: (B, L, W) -> (B, L, W)
    """
    if lengths is None:
        return x.flip(1)
    place = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    mirrored = lengths.unsqueeze(1) - 1 - place
    order = torch.where(mirrored >= 0, mirrored, place)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))
