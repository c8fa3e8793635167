"""No position encoding at all."""

from __future__ import annotations

from wordwave.positions.base import PositionEncoding


class NoPE(PositionEncoding):
    """No position encoding: a_mn = q_m·k_n / √d.

    In a causal model the mask alone gives words an order: a query at m averages over m keys, so the
    first layer can recover the position (Kazemnejad et al., The Impact of Positional Encoding on
    Length Generalization in Transformers, NeurIPS 2023; Haviv et al., 2022). Without a causal mask,
    attention then ignores word order.
    """
