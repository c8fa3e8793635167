"""Position encodings inside attention, by the name that `MultiHeadAttention(position=...)` takes.

Each is a module for any model: `PoPE(n_heads, head_dim)(queries, keys, values, causal=True)` is
attention with it, and its methods are the parts. To add one: subclass `PositionEncoding` in a file
of its own (`rope.py` rotates queries and keys, `alibi.py` adds a bias to the scores, `cope.py` a
bias by content, `token_clock.py` counts positions of its own) and enter it in `POSITIONS`. To offer
it in configs and on the command line too, add its name to `EmbeddingKind` and `IN_ATTENTION` in
`embedding/config.py`.
"""

from wordwave.positions.alibi import ALiBi
from wordwave.positions.base import PositionEncoding
from wordwave.positions.cope import CoPE
from wordwave.positions.fire import FIRE
from wordwave.positions.kerple import KERPLE
from wordwave.positions.nope import NoPE
from wordwave.positions.pope import PoPE
from wordwave.positions.randomised import random_positions
from wordwave.positions.rope import PRoPE, RoPE
from wordwave.positions.t5 import T5Bias
from wordwave.positions.token_clock import TokenClock
from wordwave.positions.wave import WaveAttention
from wordwave.positions.xpos import XPos

POSITIONS: dict[str, type[PositionEncoding]] = {
    "rope": RoPE,
    "alibi": ALiBi,
    "nope": NoPE,
    "p-rope": PRoPE,
    "xpos": XPos,
    "t5": T5Bias,
    "kerple": KERPLE,
    "fire": FIRE,
    "cope": CoPE,
    "pope": PoPE,
    "wave-attention": WaveAttention,
    "token-clock": TokenClock,
}

__all__ = [
    "FIRE",
    "KERPLE",
    "POSITIONS",
    "ALiBi",
    "CoPE",
    "NoPE",
    "PRoPE",
    "PoPE",
    "PositionEncoding",
    "RoPE",
    "T5Bias",
    "TokenClock",
    "WaveAttention",
    "XPos",
    "random_positions",
]
