"""A classifier as a graph for ONNX, for batches and sentences of any size.

All is traced as it is but the LSTM: traced, it would become as many steps as the example has words.
Here it is one operator, which ONNX has too.
"""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from wordwave.layers import LSTM
from wordwave.models.classifier import Classifier
from wordwave.models.lstm import Recurrent


class ProbabilityGraph(nn.Module):
    """Probabilities from word ids, with the weights of a classifier, on the CPU in float32."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = deepcopy(model).cpu().float().eval().requires_grad_(False)
        if isinstance(self.model.encoder, Recurrent):
            self.model.encoder.lstm = _OneOperatorLSTM(self.model.encoder.lstm)

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (B, L), padded with 0 -> (B, n_classes), rows of sum 1"""
        return self.model(ids).softmax(-1)


class _OneOperatorLSTM(LSTM):
    """An LSTM for its outputs alone: the state after the last word is not given.

    So nothing need be done about padding: it is read after the words, whichever way one goes.
    """

    def __init__(self, lstm: LSTM) -> None:
        super().__init__(
            lstm.in_dim,
            lstm.hidden_dim,
            n_layers=lstm.n_layers,
            bidirectional=lstm.n_directions == 2,
            field=lstm.field,
        )
        self.directions = lstm.directions

    def _run(
        self, x: Tensor, start: tuple[Tensor, ...], way: Any, lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from_input, from_hidden, bias, _ = way.real_weights()
        return torch.ops.wordwave.lstm(x, from_input, from_hidden, bias), start


def _lstm(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    """Shape: (B, L, in), (4·H, in), (4·H, H), (4·H,) -> (B, L, H)"""
    start = x.new_zeros(1, x.shape[0], from_hidden.shape[1])
    weights = [from_input, from_hidden, bias, torch.zeros_like(bias)]
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]


def _lstm_shape(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], from_hidden.shape[1])


_operator = torch.library.custom_op("wordwave::lstm", _lstm, mutates_args=())
_operator.register_fake(_lstm_shape)


def onnx_operators() -> dict[Any, Any]:
    """How the exporter is to write what it does not know."""
    op: Any = import_module("onnxscript").opset18

    def lstm(x: Any, from_input: Any, from_hidden: Any, bias: Any) -> Any:
        n = from_hidden.shape[1]
        # torch stacks the gates as i, f, g, o and ONNX as i, o, f, g.
        order = [*range(n), *range(3 * n, 4 * n), *range(n, 3 * n)]
        rows = op.Constant(value_ints=order)
        zeros = op.Constant(value_floats=[0.0] * (4 * n))
        y, _, _ = op.LSTM(
            op.Transpose(x, perm=[1, 0, 2]),
            op.Unsqueeze(op.Gather(from_input, rows, axis=0), [0]),
            op.Unsqueeze(op.Gather(from_hidden, rows, axis=0), [0]),
            op.Unsqueeze(op.Concat(op.Gather(bias, rows, axis=0), zeros, axis=0), [0]),
            hidden_size=n,
        )
        return op.Transpose(op.Squeeze(y, [1]), perm=[1, 0, 2])

    return {torch.ops.wordwave.lstm.default: lstm}
