"""Waves whose positions are counted in several ways, side by side."""

from __future__ import annotations

import copy
import math
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.embedding.config import View
from wordwave.embedding.table import Table, normal
from wordwave.embedding.wave import (
    WaveEmbedding,
    check_ids,
    count_positions,
    has_no_values,
)
from wordwave.errors import WordwaveError

RELATIVE_RANGE = (0.0, 8 * math.pi)
"""Initial frequencies of relative positions: up to four turns from the start to the end."""
CONTEXT_RANGE = (0.0, 1.5)
"""Initial frequencies of distances to the words before."""
CONTEXT_DAMPING = (-4.0, 2.0)
"""Initial ρ of the damping e^{−softplus(ρ)} per position: half of a word's wave is left after 38
positions, or after a third of one."""
CONTEXT_DOUBLINGS = 5
WINDOW = 2**CONTEXT_DOUBLINGS
"""The context of a word is the 32 tokens before it."""
CONTEXT_BANDS = 16
"""Dimensions share the frequency and damping of their contexts in as many groups, at most."""


class WaveViews(WaveEmbedding):
    """r_j·e^{i(ω_v·p_v + θ_j)} for each view v: waves of one amplitude at positions p_v that are
    counted in several ways, with frequencies ω_v of their own.

    start: p = 1, 2, …, L, as in Eq. 5. end: p = L, …, 2, 1. relative: p = 1/(L + 1), …, L/(L + 1).
    With positions of your own, L is the highest of a sentence; relative ones are at least 0.

    context: positions are counted from each of the 32 words k before, as damped waves with
    amplitudes c_k of their own, Σ_k √D·r_j·c_k·(r₁·e^{iω})^(p_j − p_k)·e^{iθ_j}. Summed over a
    sentence, these are its ordered pairs of words. ω and r₁ are shared by all words, and by groups
    of dimensions; positions must not fall within a sentence.

    Args:
        views: in the order of the output, which is 2·D wide for each; context is not the first.
        options: as for `WaveEmbedding`, except `damping`.
    """

    def __init__(
        self, vocab_size: int, dim: int, *, views: tuple[View, ...], **options: Any
    ) -> None:
        if not views or not set(views) <= set(get_args(View)):
            known = ", ".join(map(repr, get_args(View)))
            raise WordwaveError(f"views must be one or more of {known}, got {views!r}")
        if views[0] == "context":
            raise WordwaveError("views must begin with start, end or relative, got context first")
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
        self.context: Table | None = None
        if "context" in views:
            self._add_context(views.index("context") - 1, self.amplitude.weight)

    def _add_context(self, at: int, like: Tensor) -> None:
        """The tables of the context; its frequencies replace those made for one more view."""
        made: dict[str, Any] = {"vocab_size": self.vocab_size, "dtype": like.dtype}
        shared = like.new_empty(1, math.gcd(self.dim, CONTEXT_BANDS))
        frozen = not self.frequency.weight.requires_grad
        frequency = torch.empty_like(shared).uniform_(*CONTEXT_RANGE)
        self.more_frequencies[at] = Table(frequency, share="word", frozen=frozen, **made)
        self.context_damping = Table(shared.uniform_(*CONTEXT_DAMPING), share="word", **made)
        words = normal(self.vocab_size, self.dim, like.device) / math.sqrt(self.dim)
        made |= {"padding_idx": self.padding_idx, "sparse": self.sparse}
        self.context = Table(words, **made)

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
        real, imag = [], []
        for view, frequency in zip(self.views, self._frequencies(), strict=True):
            if view == "context":
                wave = self._contexts(ids, position, frequency)
            else:
                wave = self._phasors(view, ids, position, frequency)
            if self.phase is not None:
                wave = cx.multiply(wave, cx.phasor(self.phase(ids)).to(wave.dtype))
            x, y = cx.split(wave.to(amplitude.dtype))
            real.append(amplitude * x)
            imag.append(amplitude * y)
        return torch.cat(real + imag, dim=-1)

    def summed(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """The sum over the words of each sentence, without a vector for each of them.

        Shape: ids (..., L), positions broadcastable to ids -> (..., 2·D·views)
        """
        counted = count_positions(ids, positions)
        tables = (self.amplitude, *self._frequencies())
        is_plain = self.phase is None and ids.dim() == 2 and ids.numel() > 0
        is_plain = is_plain and not torch.compiler.is_compiling()  # which needs one path for all
        is_counted = positions is None or "context" not in self.views
        shared = [not table.per_word for table in tables]
        if not (is_plain and is_counted and shared == [False] + [True] * len(self.views)):
            return self(ids, positions).sum(dim=-2)
        check_ids(ids, self.vocab_size)
        amplitude, end = self.amplitude(ids), self._end(ids, counted)
        real, imag = [], []
        for view, table in zip(self.views, tables[1:], strict=True):
            if view == "context":
                x, y = self._summed_contexts(ids, amplitude, table)
                real.append(x)
                imag.append(y)
                continue
            if view == "relative":
                phasors = self._relative_phasors(counted, end, table.weight)
            else:
                phasors = cx.phasor(angle(table.weight, counted)).to(amplitude.dtype)
            x, y = ((amplitude * part).sum(dim=-2) for part in cx.split(phasors))
            if view == "end":  # e^{iω(n + 1 − p)} = e^{iω(n + 1)}·e^{−iωp}
                turn = cx.phasor(angle(table.weight, end.squeeze(-1))).to(amplitude.dtype)
                u, v = cx.split(turn)
                x, y = x * u + y * v, x * v - y * u
            real.append(x)
            imag.append(y)
        return torch.cat(real + imag, dim=-1)

    def _relative_phasors(self, position: Tensor, end: Tensor, omega: Tensor) -> Tensor:
        """e^{iω·p/(n + 1)}, computed once for all sentences of the same length n.

        Shape: position (..., L, 1), end (B, 1, 1), omega (1, D) -> (B, L, 2·D)
        """
        wide = torch.promote_types(omega.dtype, torch.float32)
        ends, which = end.flatten(), None
        if position.dim() == 2 and not has_no_values(position):
            ends, which = ends.unique(return_inverse=True)
        fraction = position.to(wide) / ends.view(-1, 1, 1).clamp(min=1)
        found = cx.phasor(omega * fraction).to(omega.dtype)
        if which is None:
            return found
        return F.embedding(which, found.flatten(1)).unflatten(1, found.shape[1:])

    def _phasors(self, view: View, ids: Tensor, position: Tensor, frequency: Table) -> Tensor:
        """e^{iω·p} at positions as a view counts them.

        Shape: ids (..., L), position broadcastable to (..., L, 1) -> broadcastable to (..., L, 2·D)
        """
        omega = frequency(ids)
        if view == "start" or ids.numel() == 0:
            return cx.phasor(angle(omega, position))
        end = self._end(ids, position)
        if view == "relative":  # less than a few turns, so that nothing is lost by rounding
            wide = torch.promote_types(omega.dtype, torch.float32)
            return cx.phasor(omega * (position.to(wide) / end.clamp(min=1)))
        if frequency.per_word:
            return cx.phasor(angle(omega, end - position))
        # With shared frequencies, angles of all ends and of all positions are far fewer.
        backward = cx.conj(cx.phasor(angle(omega, position)))
        return cx.multiply(cx.phasor(angle(omega, end)), backward)

    def _contexts(self, ids: Tensor, position: Tensor, frequency: Table) -> Tensor:
        """√D·Σ_k c_k·(r₁·e^{iω})^(p_j − p_k) over the 2ⁿ words k before word j, in n steps: the
        words up to 2·m before are the m before, and the m before the word m places back.

        Shape: ids (..., L), position broadcastable to (..., L, 1) -> (..., L, 2·D)
        """
        assert self.context is not None
        position = position.expand(*position.shape[:-2], ids.shape[-1], 1)
        words = math.sqrt(self.dim) * self.context(ids)

        def turned(step: int) -> tuple[Tensor, Tensor]:
            """(r₁·e^{iω})^d at the distance d of each word from the one `step` places back."""
            powers = self._powers(position - _moved(position, step), frequency).to(words.dtype)
            n = self.dim // frequency.weight.shape[1]
            x, y = (part.repeat_interleave(n, dim=-1) for part in cx.split(powers))
            return x, y

        last = _moved(words, 1)
        x, y = (last * factor for factor in turned(1))
        for step in (2**n for n in range(CONTEXT_DOUBLINGS)):
            (u, v), a, b = turned(step), _moved(x, step), _moved(y, step)
            x, y = x + a * u - b * v, y + a * v + b * u
        return cx.join(x, y)

    def _powers(self, distance: Tensor, frequency: Table) -> Tensor:
        """(r₁·e^{iω})^d. Shape: (..., 1) -> (..., 2·bands)"""
        size = torch.exp(-F.softplus(self.context_damping.weight) * distance.abs())
        return cx.scale(cx.phasor(angle(frequency.weight, distance)), size)

    def _summed_contexts(
        self, ids: Tensor, amplitude: Tensor, frequency: Table
    ) -> tuple[Tensor, Tensor]:
        """The sum of a sentence's contexts at positions 1 … L, real and imaginary part.

        Contexts are products with a Toeplitz matrix of powers of r₁·e^{iω}, which has no more than
        two windows of columns: longer sentences are cut into windows.

        Shape: ids (B, L), amplitude (B, L, D) -> two (B, D)
        """
        assert self.context is not None
        words = math.sqrt(self.dim) * self.context(ids)
        n, length = len(ids), ids.shape[1]
        if length > 2 * WINDOW:
            more = (0, 0, 0, -length % WINDOW)
            words, amplitude = F.pad(words, more), F.pad(amplitude, more)
            blocks = F.pad(words, (0, 0, WINDOW, 0)).unflatten(1, (-1, WINDOW))
            words = torch.cat([blocks[:, :-1], blocks[:, 1:]], dim=2).flatten(0, 1)
            amplitude = amplitude.unflatten(1, (-1, WINDOW)).flatten(0, 1)
        rows = torch.arange(amplitude.shape[1], device=ids.device)
        columns = torch.arange(words.shape[1], device=ids.device)
        distance = rows.unsqueeze(1) - columns + len(columns) - len(rows)
        bands = frequency.weight.shape[1]
        powers = self._powers(
            torch.arange(1, WINDOW + 1, device=ids.device).unsqueeze(1), frequency
        )
        table = F.pad(powers.to(words.dtype), (0, 0, 1, 0))  # a word is not in its own context
        matrix = F.embedding(distance.clamp(min=0) * (distance <= WINDOW), table)
        matrix = matrix.unflatten(-1, (2, bands)).permute(3, 2, 0, 1).flatten(1, 2)
        # (bands, places, sentences · dimensions of a band)
        before, here = (
            x.unflatten(-1, (bands, -1)).permute(2, 1, 0, 3).flatten(2) for x in (words, amplitude)
        )
        contexts = (matrix @ before).unflatten(1, (2, -1))
        total = (contexts * here.unsqueeze(1)).sum(dim=2).unflatten(-1, (n, -1, self.dim // bands))
        x, y = total.sum(dim=3).permute(1, 2, 0, 3).flatten(2)
        return x, y

    def _end(self, ids: Tensor, position: Tensor) -> Tensor:
        """The position after the last word. Shape: broadcastable to (..., 1, 1)"""
        words = position.expand(*ids.shape, 1)
        if self.padding_idx is not None:
            is_word = (ids != self.padding_idx).unsqueeze(-1)
            words = words.where(is_word, words.amin(dim=-2, keepdim=True))
        return words.amax(dim=-2, keepdim=True) + 1

    def resize(self, vocab_size: int) -> None:
        super().resize(vocab_size)
        for table in self.more_frequencies:
            table.resize(vocab_size)  # type: ignore[operator]
        if self.context is not None:
            self.context.resize(vocab_size)

    def shift(self, ids: Tensor, z: Tensor, n: Tensor | int) -> Tensor:
        raise WordwaveError("a shift changes only positions that are counted from the start")


def _moved(x: Tensor, n: int) -> Tensor:
    """Each row n places later, after n zeros. Shape: (..., L, W) -> (..., L, W)"""
    return F.pad(x, (0, 0, n, 0))[..., : x.shape[-2], :]
