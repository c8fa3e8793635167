"""The Transformer layer of the classifier, the encoder-decoder and Transformer-XL."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from wordwave.errors import WordwaveError
from wordwave.layers.attention import KVCache, MultiHeadAttention
from wordwave.layers.linear import FeedForward
from wordwave.layers.norm import BatchNorm, Dropout, norm_class


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention to a source if there is one, and feed-forward.

    Each of them has dropout, a residual connection and a layer norm, before it (pre-norm) or after
    the residual connection (post-norm, as published).

    Args:
        attention: self-attention; a `RelativeAttention` for Transformer-XL.
        feed_forward: applied to each position by itself.
        cross_attention: attention to the source, in a decoder.
        norm_first: pre-norm if true, else post-norm.
        normalization: `"batch"` for batch norms over the words of x, which need a mask of one row
            per sentence and go with neither cross-attention nor memory.
        dropout: share of components dropped before each residual connection.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        cross_attention: MultiHeadAttention | None = None,
        norm_first: bool = True,
        normalization: Literal["layer", "batch"] = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for part in (attention, cross_attention or attention):
            if not isinstance(part, MultiHeadAttention):
                raise TypeError(f"attention must be MultiHeadAttention, got {type(part).__name__}")
        if normalization == "batch" and cross_attention is not None:
            raise WordwaveError("normalization 'batch' does not go with cross-attention")
        self.attention, self.feed_forward = attention, feed_forward
        self.norms = nn.ModuleList(
            norm_class(normalization)(attention.dim, field=attention.field)
            for _ in range(2 if cross_attention is None else 3)
        )
        self.dropout = Dropout(dropout, field=attention.field)
        self.cross_attention = cross_attention
        self.norm_first = norm_first

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        past: KVCache | None = None,
        memory: Tensor | None = None,
        window: int | None = None,
        source: KVCache | None = None,
        source_mask: Tensor | None = None,
        source_weights: list[Tensor] | None = None,
    ) -> tuple[Tensor, KVCache]:
        """The layer's output, and the keys and values of the past and of x.

        Shape:
            x: (B, L, parts·D).
            mask, causal, window: as in `MultiHeadAttention.attend`.
            positions: (L,) or (B, L), with a memory (M + L,) or (B, M + L).
            past: keys and values before x, to decode step by step.
            memory: (B, M, parts·D), inputs of this layer before x (Transformer-XL).
            source: keys and values for the cross-attention, see `cross_attend`.
            source_mask: (B, S) bool, true where a source token is a word.
            source_weights: a list to append the weights of the cross-attention to.
            returns: (B, L, parts·D)
        """
        y = self._pre_norm(0, x, mask)
        attended = y if memory is None else torch.cat([self._pre_norm(0, memory), y], dim=1)
        cache = self.attention.project_kv(attended, past, positions)
        y = self.attention.attend(y, cache, mask=mask, causal=causal, window=window)
        x = self._add(0, x, y, mask)
        if self.cross_attention is not None:
            if source is None or source_mask is None:
                raise WordwaveError("a layer with cross-attention needs source and source_mask")
            y = self._pre_norm(1, x)
            y = cross_attend(self.cross_attention, y, source, source_mask, source_weights)
            x = self._add(1, x, y)
        return self._add(-1, x, self.feed_forward(self._pre_norm(-1, x, mask)), mask), cache

    def _norm(self, i: int, x: Tensor, mask: Tensor | None) -> Tensor:
        norm = self.norms[i]
        normal: Tensor = norm(x, mask) if isinstance(norm, BatchNorm) else norm(x)
        return normal

    def _pre_norm(self, i: int, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._norm(i, x, mask) if self.norm_first else x

    def _add(self, i: int, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The residual connection, and the norm after it with post-norm."""
        x = x + self.dropout(y)
        return x if self.norm_first else self._norm(i, x, mask)


def cross_attend(
    attention: MultiHeadAttention,
    x: Tensor,
    source: KVCache,
    mask: Tensor,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """Attend to sources, each of which may serve n consecutive rows of x, as in a beam search.

    All rows with the same source attend to it at once: queries of cross-attention have no order.

    Shape: x (n·B, L, W), source (B rows) of S keys, mask (B, S) -> (n·B, L, W)
    """
    grouped = x.reshape(mask.shape[0], -1, x.shape[-1])
    if weights is not None:
        weights.append(attention.attend(grouped, source, mask=mask, need_weights=True))
    return attention.attend(grouped, source, mask=mask).view(x.shape)
