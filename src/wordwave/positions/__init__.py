"""Position encodings inside attention, one file each."""

from wordwave.positions.alibi import ALiBi
from wordwave.positions.rope import RoPE

__all__ = ["ALiBi", "RoPE"]
