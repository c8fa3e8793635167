"""Functional interpolation for relative positions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.complex import Device, parameter_dtype
from wordwave.positions.base import PositionEncoding, check_above, per_head, relative

CHUNK = 2**20
"""Scores at once without gradients: each takes `hidden` numbers."""


class FIRE(PositionEncoding):
    """A bias that a small network computes from the relative distance (Li et al., ICLR 2024).

        a_mn = q_m·k_n/√d + f(ψ(m − n) / ψ(max(m, X))),   ψ(x) = log(c·x + 1)

    f is a network with one hidden layer, c and the threshold X are learned. The argument stays
    within [0, 1] however long a text is (progressive interpolation). For m ≤ X the bias depends on
    m − n only. Published for causal attention; keys after the query have the argument
    −ψ(n − m) / ψ(max(n, X)).

    Args:
        hidden: units of the hidden layer.
        threshold: initial X.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        hidden: int = 32,
        threshold: float = 512.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        cx.check_at_least_one(hidden=hidden)
        check_above(0, threshold=threshold)
        made: dict[str, Any] = {"device": device, "dtype": parameter_dtype(dtype)}
        self.inner = nn.Linear(1, hidden, **made)
        self.outer = nn.Linear(hidden, n_heads, **made)
        self.log_c = nn.Parameter(torch.tensor(0.1, **made).log())
        self.log_threshold = nn.Parameter(torch.tensor(float(threshold), **made).log())

    def psi(self, distance: Tensor) -> Tensor:
        """log(c·x + 1)"""
        return torch.log1p(self.log_c.exp() * distance)

    def argument(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """What f is applied to. Shape: positions -> (…, 1, L, M)"""
        dtype = torch.promote_types(self.log_threshold.dtype, torch.float32)
        difference = relative(query_positions, key_positions).to(dtype)
        m, n = (per_head(p).abs().to(dtype) for p in (query_positions, key_positions))
        last = torch.maximum(m.unsqueeze(-1), n.unsqueeze(-2))
        # Memory before the first position has negative numbers, and may be further away.
        last = torch.maximum(torch.maximum(last, difference.abs()), self.log_threshold.exp())
        return torch.sign(difference) * self.psi(difference.abs()) / self.psi(last)

    def _bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        argument = self.argument(query_positions, key_positions).squeeze(-3).unsqueeze(-1)
        argument = argument.to(self.inner.weight.dtype)
        return self.outer(F.relu(self.inner(argument))).movedim(-1, -3)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self._bias(query_positions, key_positions)
        rows = max(CHUNK // max(key_positions.numel(), 1), 1)
        chunks = query_positions.split(rows, dim=-1)
        return torch.cat([self._bias(chunk, key_positions) for chunk in chunks], dim=-2)
