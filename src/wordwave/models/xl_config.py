"""What a language model is made of. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wordwave.limits import DEPTH, LOOK_BACK, WIDTH, check_fractions, check_limits


@dataclass(frozen=True)
class XLConfig:
    """Transformer-XL: embedding → layers that remember the segments before → read-out → next."""

    embedding: Literal["none", "tpe", "complex-vanilla", "complex-order"] = "complex-order"
    """How characters become vectors. With none and tpe, which adds sinusoids of positions, all
    layers are real, else all are complex."""
    position: Literal["relative", "rope", "none"] = "relative"
    """What attention knows of distances: Transformer-XL's relative terms, rotated queries and keys
    (real layers only), or nothing besides what the embedding tells."""
    dim: int = 64
    """Width, in complex numbers where the embedding is complex."""
    n_layers: int = 3
    """Layers, one upon the other."""
    n_heads: int = 4
    """Attention heads."""
    feed_forward_dim: int = 256
    """Units inside the feed-forward layers."""
    dropout: float = 0.0
    """Share of components dropped after the embedding and after each sub-layer."""
    attention_dropout: float = 0.0
    """Share of attention weights dropped."""
    norm_first: bool = True
    """Normalise before each sub-layer, and not after it, as published."""
    share: Literal["none", "real", "tied"] = "none"
    """How the parts of complex weights are bound."""
    hidden_units: Literal["complex", "real"] = "complex"
    """What complex feed-forward layers have inside: complex units, or real ones that hear Re(w·z)
    and answer with complex vectors, with as many weights and half the multiplications."""
    score: Literal["magnitude", "real"] = "real"
    """How a complex product of query and key becomes a score: |z| or Re z."""
    readout: Literal["concat", "magnitude"] = "concat"
    """How complex states become real ones: a linear map of both parts, or |z|."""
    wave_positions: Literal["word", "segment", "running"] = "word"
    """complex-order and tpe: a character's position counts within its word (a run of letters and
    digits), or within the segment, or on through the text."""
    wave_period: int = 4096
    """The highest position, but for those within segments: longer words stay there, running ones
    start again. Waves must meet in training every position that they will be read at."""
    tied: bool = True
    """Predict with the vectors of the embedding; of waves with the amplitudes."""
    segment_length: int = 64
    """Characters read at once in training."""
    memory_length: int = 64
    """Characters before the segment that training looks back to."""
    evaluation_memory: int = 128
    """Characters that each one looks back to when the model is scored or writes."""
    farthest: int = 0
    """relative: distances beyond count as this one; 0 for no limit."""
    share_frequency: Literal["word", "dim"] | None = None
    """complex-order: who shares a frequency, all characters or all dimensions of a character."""
    phase: bool = True
    """complex-order: learn an initial phase for each character and dimension."""
    frequency_init: Literal["sinusoidal", "log-spaced", "log-uniform", "uniform"] = "sinusoidal"
    """complex-order: how frequencies start."""
    frequency_range: tuple[float, float] | None = None
    """complex-order: lowest and highest frequency at the start, where they are not sinusoidal; by
    default each start has its own."""
    freeze_frequency: bool = False
    """complex-order: keep the frequencies as they start."""

    def __post_init__(self) -> None:
        check_limits(
            self,
            {
                "dim": WIDTH,
                "n_layers": DEPTH,
                "n_heads": WIDTH,
                "feed_forward_dim": WIDTH,
                "segment_length": (1, LOOK_BACK[1]),
                "memory_length": LOOK_BACK,
                "evaluation_memory": LOOK_BACK,
                "wave_period": (1, 10**9),
                "farthest": (0, 10**9),
            },
        )
        check_fractions(self, "dropout", "attention_dropout")
        if self.dim % self.n_heads:
            raise ValueError(
                f"dim must be a multiple of n_heads, got dim={self.dim}, n_heads={self.n_heads}"
            )
        is_real = self.embedding in ("none", "tpe")
        if self.position == "rope" and self.embedding != "none":
            raise ValueError(f"position 'rope' goes with embedding 'none', got {self.embedding!r}")
        if self.position == "rope" and self.dim // self.n_heads % 2:
            raise ValueError(f"rope needs an even width per head, got {self.dim // self.n_heads}")
        has_sinusoids = (is_real and self.position == "relative") or self.embedding == "tpe"
        if has_sinusoids and self.dim % 2:
            raise ValueError(f"relative positions and tpe need an even dim, got {self.dim}")
        if self.counts is None and self.wave_positions == "running":
            raise ValueError(f"wave_positions 'running' has no meaning for {self.embedding!r}")
        of_complex: dict[str, object] = {
            "share": "none",
            "hidden_units": "complex",
            "score": "real",
            "readout": "concat",
        }
        idle: dict[str, object] = of_complex if is_real else {}
        if self.embedding != "complex-order":
            idle = idle | {"freeze_frequency": False}
        for name, usual in idle.items():
            if getattr(self, name) != usual:
                raise ValueError(
                    f"{name} {getattr(self, name)!r} has no meaning for {self.embedding!r}"
                )

    @property
    def counts(self) -> Literal["word", "segment", "running"] | None:
        """What the positions of its embedding count within, if that looks at them."""
        return self.wave_positions if self.embedding in ("tpe", "complex-order") else None
