"""The relative position bias of T5."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from wordwave.complex import Device, parameter_dtype
from wordwave.errors import WordwaveError
from wordwave.positions.base import PositionEncoding, check_above, relative


class T5Bias(PositionEncoding):
    """A learned bias for each head and bucket of distances (Raffel et al., 2020, Sec. 2.1).

        a_mn = q_m·k_n/√d + b[bucket(m − n)]
        bucket(x) = x                                            for x < N/2
                    N/2 + ⌊log(x/(N/2)) / log(X/(N/2)) · N/2⌋    below N, else N − 1

    N buckets for keys up to the query, as in T5's decoder, and N for keys after it: T5's encoder
    with 2N buckets in all. (T5 itself leaves out 1/√d, which its initialization makes up for.)

    Args:
        n_buckets: N, half of them for one distance each.
        max_distance: X; all distances from it on share the last bucket.
        n_heads, head_dim, device, dtype: as in `PositionEncoding`.
    """

    def __init__(
        self,
        n_heads: int,
        head_dim: int,
        *,
        n_buckets: int = 32,
        max_distance: float = 128,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_heads, head_dim, **options)
        if n_buckets < 2 or n_buckets % 2:
            raise WordwaveError(f"n_buckets must be an even number above 0, got {n_buckets}")
        check_above(n_buckets // 2, max_distance=max_distance)
        self.n_buckets, self.max_distance = n_buckets, max_distance
        shape, kind = (n_heads, 2 * n_buckets), parameter_dtype(dtype)
        self.table = nn.Parameter(torch.zeros(shape, device=device, dtype=kind))
        """Keys up to the query, then keys after it."""

    def bucket(self, difference: Tensor) -> Tensor:
        """The column of the table for m − n. Shape: any -> the same"""
        distance, half = difference.abs(), self.n_buckets // 2
        spread = torch.log(distance.clamp(min=half).float() / half)
        far = half + (spread / math.log(self.max_distance / half) * half).long()
        one_side = torch.where(distance < half, distance.long(), far.clamp(max=self.n_buckets - 1))
        return torch.where(difference < 0, one_side + self.n_buckets, one_side)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        columns = self.bucket(relative(query_positions, key_positions))  # (…, 1, L, M)
        return self.table.T[columns.squeeze(-3)].movedim(-1, -3)
