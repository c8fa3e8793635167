"""Layers over the real or the complex field, each written once: `field="real" | "complex"`.

Widths are counted in numbers of the field; a complex tensor is `[real | imag]` (see
`wordwave.complex`). All layers take sequences as (B, L, width).
"""

from wordwave.layers.attention import KVCache, MultiHeadAttention, RelativeAttention, Score
from wordwave.layers.linear import Conv1d, FeedForward, Linear
from wordwave.layers.norm import BatchNorm, Dropout, LayerNorm
from wordwave.layers.recurrent import LSTM, RNN, word_mask
from wordwave.layers.transformer import TransformerLayer
from wordwave.layers.weight import Field, Sharing, n_parts, side_by_side

__all__ = [
    "LSTM",
    "RNN",
    "BatchNorm",
    "Conv1d",
    "Dropout",
    "FeedForward",
    "Field",
    "KVCache",
    "LayerNorm",
    "Linear",
    "MultiHeadAttention",
    "RelativeAttention",
    "Score",
    "Sharing",
    "TransformerLayer",
    "n_parts",
    "side_by_side",
    "word_mask",
]
