"""Position encodings inside attention, by the name that `MultiHeadAttention(position=...)` takes.

To add one: subclass `PositionEncoding` in a file of its own (`rope.py` rotates queries and keys,
`alibi.py` adds a bias to the scores) and enter it in `POSITIONS`. To offer it in configs and on the
command line too, add its name to `EmbeddingKind` and `IN_ATTENTION` in `embedding/config.py`.
"""

from wordwave.positions.alibi import ALiBi
from wordwave.positions.base import PositionEncoding
from wordwave.positions.rope import RoPE

POSITIONS: dict[str, type[PositionEncoding]] = {
    "rope": RoPE,
    "alibi": ALiBi,
}

__all__ = ["POSITIONS", "ALiBi", "PositionEncoding", "RoPE"]
