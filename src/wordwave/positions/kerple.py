"""Kernelized relative position bias."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from wordwave.complex import Device, parameter_dtype
from wordwave.errors import unknown
from wordwave.positions.base import PositionEncoding, relative

Kernel = Literal["log", "power"]


class KERPLE(PositionEncoding):
    """A bias from a conditionally positive definite kernel (Chi et al., KERPLE, NeurIPS 2022).

        log:    a_mn = q_m·k_n/√d − r₁·log(1 + r₂·|m − n|),   r₁, r₂ > 0
        power:  a_mn = q_m·k_n/√d − r₁·|m − n|^r₂,            r₁ > 0, 0 < r₂ < 2

    r₁ and r₂ are learned for each head, and, as published for causal attention only, also for keys
    after the query: with the same numbers for both sides a sentence and its mirror image would get
    the same output. The power kernel with r₂ = 1 is ALiBi with learned slopes.

    Args:
        kernel: `"log"`, the best in the paper, or `"power"`.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        kernel: Kernel = "log",
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        if kernel not in get_args(Kernel):
            raise unknown("kernel", kernel, get_args(Kernel))
        self.kernel = kernel
        # The initial r₁ and r₂ are uniform in (0, 2) and (0, 1), as in the authors' experiments.
        drawn = torch.rand(2, 2, n_heads, device=device, dtype=parameter_dtype(dtype))
        r1, r2 = drawn.clamp(min=0.01, max=0.99).unbind()
        self.log_r1 = nn.Parameter((2 * r1).log())
        self.raw_r2 = nn.Parameter(r2.log() if kernel == "log" else (r2 / (2 - r2)).log())
        """Of keys up to the query, then of keys after it. Shape: (2, H)"""

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """r₁ and r₂ of keys up to the query, then of keys after it. Shape: two (2, H)"""
        wide = torch.promote_types(self.log_r1.dtype, torch.float32)
        r1, r2 = self.log_r1.to(wide).exp(), self.raw_r2.to(wide)
        return r1, r2.exp() if self.kernel == "log" else 2 * r2.sigmoid()

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        r1, r2 = (r[..., None, None] for r in self.coefficients())
        difference = relative(query_positions, key_positions)
        distance = difference.abs().to(r1.dtype)
        after = difference < 0
        scale, shape = torch.where(after, r1[1], r1[0]), torch.where(after, r2[1], r2[0])
        if self.kernel == "log":
            return -scale * torch.log1p(shape * distance)
        # log 0 would have the gradient NaN, also where it is not used.
        power = torch.exp(shape * torch.where(distance > 0, distance, 1.0).log())
        return -scale * torch.where(distance > 0, power, 0.0)
