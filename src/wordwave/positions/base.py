"""The interface of position encodings inside attention."""

from __future__ import annotations

from torch import Tensor, nn

from wordwave.complex import Device


class PositionEncoding(nn.Module):
    """Changes queries, keys or scores of H heads of width d by their positions.

    Each method does nothing by default.
    """

    def __init__(self, n_heads: int, head_dim: int, *, device: Device = None) -> None:
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim

    def encode_queries(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, L, d), positions (L,) or (B, L) -> (B, H, L, d)"""
        return heads

    def encode_keys(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Shape: heads (B, H, M, d), positions (M,) or (B, M) -> (B, H, M, d)"""
        return heads

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """A term added to the scores, after they are scaled by 1/sqrt(d).

        Shape: positions (L,) or (B, L) and (M,) or (B, M) -> (H, L, M) or (B, H, L, M)
        """
        return None
