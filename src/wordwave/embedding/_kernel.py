"""The fast path of `WaveEmbedding`: lookup and wave in one differentiable function.

On a CPU in eager mode a wave costs memory traffic, a sine and a cosine. This computes each once
(autograd of the formula computes them twice), gathers only the rows in use, and returns row-sparse
gradients of the tables if `sparse`.
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


class WaveRows(torch.autograd.Function):
    """r·e^{i(ω·pos + θ)} for the words `ids`, from full tables.

    Shape: ids (..., L), tables (V, D), position broadcastable to (..., L, 1) -> (..., L, 2·D)
    """

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
        position = position.expand(*ids.shape, 1).reshape(-1, 1)
        r, angles = amplitude.index_select(0, rows), frequency.index_select(0, rows)
        angles = angles.mul_(position) if short else angle(angles, position)
        if phase is not None:
            angles.add_(phase.index_select(0, rows))
        cos, sin = angles.cos(), angles.sin_()
        # The output is neither a view nor saved: it may be modified in place.
        z = r.new_empty(*ids.shape, 2 * r.shape[1])
        for part, wave in zip(cx.split(z.view(len(rows), z.shape[-1])), (cos, sin), strict=True):
            torch.mul(r, wave, out=part)
        ctx.save_for_backward(rows, r, cos, sin, position.to(r.dtype))
        ctx.n_words, ctx.padding_idx, ctx.sparse = amplitude.shape[0], padding_idx, sparse
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, r, cos, sin, position = ctx.saved_tensors
        _, needs_amplitude, needs_frequency, needs_phase, *_ = ctx.needs_input_grad
        grad_cos, grad_sin = cx.split(grad.reshape(-1, grad.shape[-1]))
        to_table = _sparse_rows if ctx.sparse else _dense_rows
        amplitude = frequency = phase = None
        if needs_amplitude:
            values = (grad_cos * cos).addcmul_(grad_sin, sin)
            amplitude = to_table(values, rows, ctx.n_words, ctx.padding_idx)
        if needs_frequency or needs_phase:
            values = (grad_sin * cos).addcmul_(grad_cos, sin, value=-1).mul_(r)
            if needs_phase:
                phase = to_table(values, rows, ctx.n_words, ctx.padding_idx)
            if needs_frequency:
                values = values * position if needs_phase else values.mul_(position)
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
