"""What wordwave is measured against, each in its fastest honest configuration.

Written here: the listing of the paper's App. C, and an LSTM and an attention on torch's complex64,
which has neither. complextorch wraps torch's complex layers and keeps a variant with three real
products (`gauss`). complexPyTorch has a linear and a 2-D convolution, torchcvnn an attention;
neither has the rest.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from complexPyTorch.complexLayers import ComplexConv2d, ComplexLinear
from complextorch import nn as ctnn
from torch import Tensor, nn
from torchcvnn.nn import MultiheadAttention

complex64 = torch.complex64

Peers = dict[str, tuple[nn.Module, Tensor]]
"""Layers by name, each with its input in the shape it wants."""


class AppendixC(nn.Module):
    """The listing of the paper's App. C, with its initial phase an ordinary parameter."""

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.word, self.frequency, self.initial_phase = (
            nn.Embedding(vocab_size, dim) for _ in range(3)
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (B, L) -> (B, L, 2·D)"""
        amplitude, frequency = self.word(ids), self.frequency(ids)
        position = torch.arange(1, ids.shape[-1] + 1, 1.0)[None, :, None]
        position = position.repeat(ids.shape[0], 1, amplitude.shape[-1])
        phase = torch.mul(position, frequency) + self.initial_phase(ids)
        return torch.cat([amplitude * torch.cos(phase), amplitude * torch.sin(phase)], dim=-1)


def linears(z: Tensor) -> Peers:
    """Linear layers for z (B, L, D)."""
    dim = z.shape[-1]
    return {
        "torch complex64": (nn.Linear(dim, dim, dtype=complex64), z),
        "complextorch": (ctnn.Linear(dim, dim), z),
        "complextorch gauss": (ctnn.gauss.Linear(dim, dim), z),
        "complexPyTorch": (ComplexLinear(dim, dim), z),
    }


def convolutions(z: Tensor, kernel_size: int) -> Peers:
    """Convolutions over L for z (B, L, D), which these libraries take as (B, D, L)."""
    dim, z = z.shape[-1], z.mT.contiguous()
    # An image of height 1: of width 1 it would take 2.6 times as long.
    flat = ComplexConv2d(dim, dim, (1, kernel_size))
    return {
        "torch complex64": (nn.Conv1d(dim, dim, kernel_size, dtype=complex64), z),
        "complextorch": (ctnn.Conv1d(dim, dim, kernel_size), z),
        "complextorch gauss": (ctnn.gauss.Conv1d(dim, dim, kernel_size), z),
        "complexPyTorch 2-D": (flat, z.unsqueeze(2)),
    }


class Complex64LSTM(nn.Module):
    """An LSTM whose gates act on each part by itself, as ours do; a loop over complex matmuls."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(dim, 4 * dim, dtype=complex64)
        self.from_hidden = nn.Parameter(self.from_input.weight.detach().T.clone())

    def forward(self, z: Tensor) -> Tensor:
        """Shape: (L, B, D) -> (L, B, D)"""
        cell = torch.zeros(*z.shape[1:], 2)
        hidden, outputs = torch.zeros_like(z[0]), []
        for step in self.from_input(z):
            gates = torch.view_as_real(torch.addmm(step, hidden, self.from_hidden))
            enter, keep, new, leave = gates.chunk(4, dim=1)
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = torch.view_as_complex(leave.sigmoid() * cell.tanh())
            outputs.append(hidden)
        return torch.stack(outputs)


def lstms(z: Tensor) -> Peers:
    """LSTMs for z (B, L, D); complextorch multiplies by its gates as complex numbers."""
    dim, z = z.shape[-1], z.transpose(0, 1).contiguous()
    return {
        "torch complex64": (Complex64LSTM(dim), z),
        "complextorch": (ctnn.LSTM(dim, dim), z),
    }


class Complex64Attention(nn.Module):
    """Self-attention with one packed projection and complex matmuls, by either score."""

    def __init__(self, dim: int, n_heads: int, score: str) -> None:
        super().__init__()
        self.n_heads, self.score = n_heads, score
        self.project = nn.Linear(dim, 3 * dim, dtype=complex64)
        self.merge = nn.Linear(dim, dim, dtype=complex64)

    def forward(self, z: Tensor) -> Tensor:
        """Shape: (B, L, D) -> (B, L, D)"""
        heads = self.project(z).unflatten(-1, (3, self.n_heads, -1))
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        product = (queries / math.sqrt(queries.shape[-1])) @ keys.mH
        scores = product.real if self.score == "real" else product.abs()
        answers = scores.softmax(-1).to(values.dtype) @ values
        return self.merge(answers.transpose(1, 2).flatten(-2))


class _SelfAttention(nn.Module):
    def __init__(self, attention: nn.Module, **options: Any) -> None:
        super().__init__()
        self.attention, self.options = attention, options

    def forward(self, z: Tensor) -> Tensor:
        return self.attention(z, z, z, **self.options)


class _MagnitudeSoftmax(ctnn.MagSoftMax):
    """complextorch's own gives real weights, and its attention cannot multiply values by them."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).to(input.dtype)


def attentions(z: Tensor, n_heads: int, score: str) -> Peers:
    """Self-attentions for z (B, L, D) that score as asked: by real part or magnitude of q·k†.

    What peers do beyond attention (norms, dropout of nothing) is taken out. torchcvnn scores by
    the real part alone.
    """
    dim, head_dim = z.shape[-1], z.shape[-1] // n_heads
    softmax = {"softmax_on": "real"} if score == "real" else {"SoftMaxClass": _MagnitudeSoftmax}
    by_complextorch = ctnn.MultiheadAttention(n_heads, dim, head_dim, head_dim, **softmax)
    by_complextorch.layer_norm = by_complextorch.dropout = nn.Identity()
    by_complextorch.attention.dropout = nn.Identity()
    peers: Peers = {
        "torch complex64": (Complex64Attention(dim, n_heads, score), z),
        "complextorch": (_SelfAttention(by_complextorch), z),
    }
    if score == "real":
        by_torchcvnn = MultiheadAttention(dim, n_heads, norm_layer=lambda _: nn.Identity())
        lengthwise = z.transpose(0, 1).contiguous()
        peers["torchcvnn"] = (_SelfAttention(by_torchcvnn, need_weights=False), lengthwise)
    return peers
