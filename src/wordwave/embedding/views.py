"""Waves whose positions are counted in several ways, side by side."""

from __future__ import annotations

import copy
import math
from typing import Any, get_args

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.embedding.config import View
from wordwave.embedding.wave import Table, WaveEmbedding, check_ids, count_positions
from wordwave.errors import WordwaveError

RELATIVE_RANGE = (0.0, 8 * math.pi)
"""Initial frequencies of relative positions: up to four turns from the start to the end."""


class WaveViews(WaveEmbedding):
    """r_j·e^{i(ω_v·p_v + θ_j)} for each view v: waves of one amplitude at positions p_v that are
    counted in several ways, with frequencies ω_v of their own.

    start: p = 1, 2, …, L, as in Eq. 5. end: p = L, …, 2, 1. relative: p = 1/(L + 1), …, L/(L + 1).
    With positions of your own, L is the highest of a sentence; relative ones are at least 0.

    Args:
        views: in the order of the output, which is 2·D wide for each.
        options: as for `WaveEmbedding`, except `damping`.
    """

    def __init__(
        self, vocab_size: int, dim: int, *, views: tuple[View, ...], **options: Any
    ) -> None:
        if not views or not set(views) <= set(get_args(View)):
            known = ", ".join(map(repr, get_args(View)))
            raise WordwaveError(f"views must be one or more of {known}, got {views!r}")
        if options.get("damping"):
            raise WordwaveError("damping goes with a single view, the start")
        super().__init__(vocab_size, dim, **options)
        self.views = views
        self.out_dim = 2 * dim * len(views)
        self.more_frequencies = nn.ModuleList(copy.deepcopy(self.frequency) for _ in views[1:])
        for view, table in zip(views, self._frequencies(), strict=True):
            if view == "relative":
                nn.init.uniform_(table.weight, *RELATIVE_RANGE)
                table.zero_padding()

    def _frequencies(self) -> list[Table]:
        return [self.frequency, *self.more_frequencies]

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (..., L), positions broadcastable to ids -> (..., L, 2·D·views)"""
        check_ids(ids, self.vocab_size)
        return self.formula(ids, count_positions(ids, positions))

    def formula(self, ids: Tensor, position: Tensor) -> Tensor:
        """Shape: ids (..., L), position broadcastable to (..., L, 1) -> (..., L, 2·D·views)"""
        amplitude = self.amplitude(ids).expand(*ids.shape, self.dim)
        if self.padding_idx is not None and not self.amplitude.per_word:
            amplitude = amplitude * (ids != self.padding_idx).unsqueeze(-1)
        waves = []
        for view, frequency in zip(self.views, self._frequencies(), strict=True):
            angles = angle(frequency(ids), self._counted(view, ids, position))
            if self.phase is not None:
                angles = angles + self.phase(ids)
            waves.append(cx.scale(cx.phasor(angles).to(amplitude.dtype), amplitude))
        return cx.concat(waves)

    def _counted(self, view: View, ids: Tensor, position: Tensor) -> Tensor:
        """Positions as a view counts them. Shape: broadcastable to (..., L, 1)"""
        if view == "start" or ids.numel() == 0:
            return position
        words = position.expand(*ids.shape, 1)
        if self.padding_idx is not None:
            is_word = (ids != self.padding_idx).unsqueeze(-1)
            words = words.where(is_word, words.amin(dim=-2, keepdim=True))
        end = words.amax(dim=-2, keepdim=True) + 1
        if view == "end":
            return end - position
        wide = torch.float32 if position.device.type == "mps" else torch.float64  # as in `angle`
        return position.to(wide) / end.clamp(min=1)

    def resize(self, vocab_size: int) -> None:
        super().resize(vocab_size)
        for table in self.more_frequencies:
            table.resize(vocab_size)  # type: ignore[operator]

    def shift(self, ids: Tensor, z: Tensor, n: Tensor | int) -> Tensor:
        raise WordwaveError("a shift changes only positions that are counted from the start")
