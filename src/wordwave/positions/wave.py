"""Wave attention: queries and keys are the paper's waves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from wordwave.complex import Device, parameter_dtype
from wordwave.positions.base import per_head
from wordwave.positions.pope import PoPE


class WaveAttention(PoPE):
    """Queries and keys that are waves r·e^{i(ω·pos + θ)}, with phases θ of their own.

        a_mn = Σ_c softplus(q_c)·softplus(k_c)·cos((n − m)·ω_c + δ_c + θ_c(k) − θ_c(q)) / √d

    The word embedding of Wang et al. (Encoding Word Order in Complex Embeddings, ICLR 2020) has an
    amplitude, a frequency and an initial phase for each word and dimension. Here the amplitude is a
    magnitude as in `PoPE`, and the phase θ(k) = k·A of a word is a linear function of its key, in
    the first layer of its word vector. A starts at 0, where this is `PoPE`. Scores depend on
    differences of positions only.

    Args:
        frequencies: words also have frequencies of their own, ω_c·(1 + (k·B)_c); scores then depend
            on absolute positions, as the paper's embedding does.
        base, phase_range, n_heads, head_dim, device, dtype: as in `PoPE`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        frequencies: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, device=device, dtype=dtype, **options)
        made: dict[str, Any] = {"device": device, "dtype": parameter_dtype(dtype)}
        square = n_heads, head_dim, head_dim
        self.query_phase, self.key_phase = (
            nn.Parameter(torch.zeros(square, **made)) for _ in range(2)
        )
        """A, for queries and for keys. Shape: (H, d, d)"""
        self.query_rate = self.key_rate = None
        """B, for queries and for keys. Shape: (H, d, d)"""
        if frequencies:
            self.query_rate, self.key_rate = (
                nn.Parameter(torch.zeros(square, **made)) for _ in range(2)
            )

    def query_phases(self, heads: Tensor, positions: Tensor) -> Tensor:
        phase = super().query_phases(heads, positions)
        return self._of_words(phase, heads, positions, self.query_phase, self.query_rate)

    def key_phases(self, heads: Tensor, positions: Tensor) -> Tensor:
        phase = super().key_phases(heads, positions)
        return self._of_words(phase, heads, positions, self.key_phase, self.key_rate)

    def _of_words(
        self, phase: Tensor, heads: Tensor, positions: Tensor, a: Tensor, b: Tensor | None
    ) -> Tensor:
        """Add θ, and what frequencies of words add to ω·pos."""
        wide = heads.to(phase.dtype)
        phase = phase + wide @ a.to(phase.dtype)
        if b is None:
            return phase
        exponents = -torch.arange(self.head_dim, device=heads.device, dtype=phase.dtype)
        frequency = self.base ** (exponents / self.head_dim)
        turned = frequency * per_head(positions).unsqueeze(-1).to(phase.dtype)
        return phase + turned * (wide @ b.to(phase.dtype))
