"""The fast path of `WaveEmbedding`: look-up and wave in one differentiable step.

On a CPU in eager mode the cost of a wave is memory traffic and the sine and cosine. This computes
each of them once (autograd of the plain formula computes them twice), gathers only the rows in
use, and hands the gradient of each table over as it is: the rows themselves when `sparse`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from wordwave import complex as cx
from wordwave.angle import angle

SHORT = 128
"""Up to this position float32 is exact enough for ω·pos + θ: 2·128·2π·2⁻²⁴ ≤ 1e-4, |ω| ≤ 2π."""


class _WaveRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        ids: Tensor,
        amplitude: Tensor,
        frequency: Tensor,
        phase: Tensor | None,
        position: Tensor,
        short: bool,
        padding_idx: int | None,
        sparse: bool,
    ) -> Tensor:
        rows = ids.reshape(-1)
        place = position.expand(*ids.shape, 1).reshape(-1, 1)
        r, turning = amplitude.index_select(0, rows), frequency.index_select(0, rows)
        turning = turning.mul_(place) if short else angle(turning, place)
        if phase is not None:
            turning.add_(phase.index_select(0, rows))
        cos, sin = turning.cos(), turning.sin_()
        # The output is neither a view nor saved, so that what follows may change it in place.
        z = r.new_empty(*ids.shape, 2 * r.shape[1])
        for part, turned in zip(cx.split(z.view(len(rows), z.shape[-1])), (cos, sin), strict=True):
            torch.mul(r, turned, out=part)
        ctx.save_for_backward(rows, r, cos, sin, place.to(r.dtype))
        ctx.n_words, ctx.padding_idx, ctx.sparse = amplitude.shape[0], padding_idx, sparse
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, r, cos, sin, place = ctx.saved_tensors
        _, wants_amplitude, wants_frequency, wants_phase, *_ = ctx.needs_input_grad
        grad_cos, grad_sin = cx.split(grad.reshape(-1, grad.shape[-1]))
        to_table = _sparse_rows if ctx.sparse else _dense_rows
        amplitude = frequency = phase = None
        if wants_amplitude:
            values = (grad_cos * cos).addcmul_(grad_sin, sin)
            amplitude = to_table(values, rows, ctx.n_words, ctx.padding_idx)
        if wants_frequency or wants_phase:
            values = (grad_sin * cos).addcmul_(grad_cos, sin, value=-1).mul_(r)
            if wants_phase:
                phase = to_table(values, rows, ctx.n_words, ctx.padding_idx)
            if wants_frequency:
                values = values * place if wants_phase else values.mul_(place)
                frequency = to_table(values, rows, ctx.n_words, ctx.padding_idx)
        return None, amplitude, frequency, phase, None, None, None, None


def _dense_rows(values: Tensor, rows: Tensor, n_words: int, padding_idx: int | None) -> Tensor:
    table = values.new_zeros(n_words, values.shape[1]).index_add_(0, rows, values)
    if padding_idx is not None:
        table[padding_idx] = 0
    return table


def _sparse_rows(values: Tensor, rows: Tensor, n_words: int, padding_idx: int | None) -> Tensor:
    if padding_idx is not None:
        keep = rows != padding_idx
        if not bool(keep.all()):
            rows, values = rows[keep], values[keep]
    size = (n_words, values.shape[1])
    return torch.sparse_coo_tensor(rows[None], values, size, check_invariants=False)


def wave_rows(
    ids: Tensor,
    amplitude: Tensor,
    frequency: Tensor,
    phase: Tensor | None,
    position: Tensor,
    *,
    short: bool,
    padding_idx: int | None,
    sparse: bool,
) -> Tensor:
    """r·e^{i(ω·pos + θ)} for the words `ids`, from full tables.

    Shape: ids (..., L), tables (V, D), position broadcastable to (..., L, 1) -> (..., L, 2·D)
    """
    return _WaveRows.apply(  # type: ignore[no-untyped-call]
        ids, amplitude, frequency, phase, position, short, padding_idx, sparse
    )
