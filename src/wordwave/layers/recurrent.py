"""RNN and LSTM over batches of sentences of different lengths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from wordwave import complex as cx
from wordwave.errors import WordwaveError
from wordwave.layers.norm import Dropout
from wordwave.layers.weight import (
    Bias,
    Field,
    Weight,
    WeightOptions,
    check_input,
    n_parts,
    side_by_side,
)
from wordwave.limits import DEPTH, check_limit


def checked_lengths(lengths: Tensor, x: Tensor) -> Tensor:
    cx.check_tensor("lengths", lengths)
    is_whole = not (lengths.is_floating_point() or lengths.is_complex())
    if lengths.shape != x.shape[:1] or not is_whole or lengths.dtype == torch.bool:
        raise WordwaveError(
            f"lengths must be {x.shape[0]} integers, one per sentence, "
            f"got shape {tuple(lengths.shape)} of {lengths.dtype}"
        )
    if (bad := cx.outside(lengths, x.shape[1])) is not None:
        raise WordwaveError(f"lengths must be in [0, L={x.shape[1]}], got {bad}")
    return lengths.to(device=x.device, dtype=torch.long)


def word_mask(lengths: Tensor, length: int) -> Tensor:
    """True for words, false for padding. Shape: (B,) -> (B, L)"""
    return torch.arange(length, device=lengths.device) < lengths.unsqueeze(1)


def last_word(out: Tensor, start: Tensor, lengths: Tensor) -> Tensor:
    """The output at each sentence's last word, the initial state for an empty one.

    Shape: out (B, L, W), start (1, B, W), lengths (B,) -> (1, B, W)
    """
    index = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, out.shape[-1])
    last = out.gather(1, index).transpose(0, 1)
    return torch.where((lengths > 0).view(1, -1, 1), last, start)


def reversed_words(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sentence from its last word to its first; padding stays at the end.

    Shape: (B, L, W) -> (B, L, W)
    """
    if lengths is None:
        return x.flip(1)
    index = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    mirrored = lengths.unsqueeze(1) - 1 - index
    order = torch.where(mirrored >= 0, mirrored, index)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


class _Direction(nn.Module):
    """The weights of one layer in one direction."""

    def __init__(
        self, in_dim: int, hidden_dim: int, n_gates: int, **options: Unpack[WeightOptions]
    ) -> None:
        super().__init__()
        self.from_input = Weight(hidden_dim, in_dim, n_stacked=n_gates, **options)
        self.from_hidden = Weight(hidden_dim, hidden_dim, n_stacked=n_gates, **options)
        self.bias = Bias(self.from_input)
        if n_gates == 4:
            nn.init.ones_(self.bias.c[1])  # the forget gate starts open

    def real_weights(self) -> list[Tensor]:
        """As torch's fused kernel takes them: two matrices and a bias for each."""
        bias = self.bias()
        return [self.from_input(), self.from_hidden(), bias, torch.zeros_like(bias)]


class _Recurrent(nn.Module, ABC):
    n_gates: int
    n_states: int

    def __init__(
        self,
        in_dim: int,
        hidden_dim: int,
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        **options: Unpack[WeightOptions],
    ) -> None:
        super().__init__()
        cx.check_at_least_one(in_dim=in_dim, hidden_dim=hidden_dim, n_layers=n_layers)
        check_limit("n_layers", n_layers, DEPTH)
        self.in_dim, self.hidden_dim, self.n_layers = in_dim, hidden_dim, n_layers
        self.n_directions = 2 if bidirectional else 1
        self.out_dim = self.n_directions * hidden_dim
        self.field: Field = options.get("field", "complex")
        self.width = n_parts(self.field) * hidden_dim
        self.dropout = Dropout(dropout, field=self.field)
        self.directions = nn.ModuleList(
            _Direction(in_dim if layer == 0 else self.out_dim, hidden_dim, self.n_gates, **options)
            for layer in range(n_layers)
            for _ in range(self.n_directions)
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs beyond a sentence's length are 0, and its final state is that of its last word.

        Shape:
            x: (B, L, parts·in), lengths: (B,) or None for L each.
            state: tensors (n_layers·n_directions, B, parts·H); h for RNN, h and c for LSTM.
            returns: (B, L, parts·n_directions·H) and the state after the last word.
        """
        check_input("x", x, self.in_dim, self.field, batched=True)
        padding = None
        if lengths is not None:
            lengths = checked_lengths(lengths, x)
            padding = ~word_mask(lengths, x.shape[1]).unsqueeze(-1)
            x = x.masked_fill(padding, 0)  # it may be NaN
        shape = (len(self.directions), x.shape[0], self.width)
        state = (x.new_zeros(shape),) * self.n_states if state is None else state
        got = [tuple(getattr(s, "shape", ())) for s in state]
        if got != [shape] * self.n_states:
            raise WordwaveError(
                f"state must be {self.n_states} tensor(s) of shape {shape}, got {got}"
            )
        if x.shape[1] == 0:
            return x.new_zeros(x.shape[0], 0, self.n_directions * self.width), state
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(self.n_layers):
            outputs: list[Tensor] = []
            for backward in range(self.n_directions):
                start = tuple(s[len(ends)].unsqueeze(0) for s in state)
                inputs = reversed_words(x, lengths) if backward else x
                out, end = self._run(inputs, start, self.directions[len(ends)], lengths)
                outputs.append(reversed_words(out, lengths) if backward else out)
                ends.append(end)
            x = side_by_side(self.field, outputs)
            if padding is not None:
                x = x.masked_fill(padding, 0)
            if layer < self.n_layers - 1:
                x = self.dropout(x)
        return x, tuple(torch.cat(layers) for layers in zip(*ends, strict=True))

    def _run(
        self, x: Tensor, start: tuple[Tensor, ...], direction: Any, lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One layer in one direction."""
        weights = direction.real_weights()
        if lengths is not None and self.n_states == 2:
            x, weights[0] = _hold_cell_after(lengths, x, weights[0])
        x, *states = (t.to(weights[0].dtype) for t in (x, *start))
        with torch.autocast(x.device.type, enabled=False):
            out, *end = self._kernel(x, states, weights)
        if lengths is not None:
            end[0] = last_word(out, start[0], lengths)
        return out, tuple(end)

    @abstractmethod
    def _kernel(self, x: Tensor, states: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        """The outputs and the final states, by torch's fused kernel."""


class RNN(_Recurrent):
    """h_t = tanh(W·z_t + U·h_{t−1} + b), tanh of each part by itself (Eq. 11).

    Args:
        in_dim, hidden_dim: widths, in complex numbers if the field is complex.
        n_layers: number of stacked layers, with `dropout` between them.
        bidirectional: run in both directions and concatenate the outputs.
        field, share, device, dtype: as in `Linear`.
    """

    n_gates, n_states = 1, 1

    def _kernel(self, x: Tensor, states: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.rnn_tanh(x, states[0], weights, True, 1, 0.0, self.training, False, True)


class LSTM(_Recurrent):
    """Long short-term memory whose gates act on each part by itself.

    Args: as `RNN`.
    """

    n_gates, n_states = 4, 2

    def _kernel(self, x: Tensor, states: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        if torch.compiler.is_compiling():
            return _lstm_step_by_step(x, states[0][0], states[1][0], weights)
        return torch.lstm(x, states, weights, True, 1, 0.0, self.training, False, True)


def _lstm_step_by_step(
    x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as the fused kernel, for graphs that have no gradient of it."""
    from_input, from_hidden, bias, _ = weights
    outputs = []
    for step in F.linear(x, from_input, bias).unbind(1):
        i, f, g, o = (step + F.linear(h, from_hidden)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, dim=1), h.unsqueeze(0), c.unsqueeze(0)


def _hold_cell_after(lengths: Tensor, x: Tensor, from_input: Tensor) -> tuple[Tensor, Tensor]:
    """Hold each cell at its value once its sentence has ended.

    The fused kernel takes no lengths. An additional input, 1 on padding, closes the input gate
    (−1000) and opens the forget gate (+1000) there, so that c_t = c_{t−1} exactly.
    """
    gate = from_input.new_tensor([-1000.0, 1000.0, 0.0, 0.0])  # torch's order: i, f, g, o
    column = gate.repeat_interleave(from_input.shape[0] // 4).unsqueeze(1)
    ended = ~word_mask(lengths, x.shape[1]).unsqueeze(-1)
    return torch.cat([x, ended.to(x.dtype)], dim=-1), torch.cat([from_input, column], dim=1)
