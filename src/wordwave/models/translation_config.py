"""What a translation model is made of. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wordwave.limits import DEPTH, SCALE, WIDTH, check_fractions, check_limits
from wordwave.models.config import IN_ATTENTION, EmbeddingKind, ModelConfig


@dataclass(frozen=True)
class TranslationModelConfig:
    """embedding → encoder → decoder → read-out → words, the embedding's own once more."""

    architecture: Literal["transformer", "aed"] = "transformer"
    """transformer, or aed: an attentional encoder-decoder of LSTMs."""
    embedding: EmbeddingKind = "complex-order"
    """How words and positions become vectors, and whether all layers are real or complex; rope and
    alibi go with the transformer."""
    dim: int = 80
    """Width of embedding and layers, in complex numbers where the embedding is complex."""
    encoder_layers: int = 4
    """Layers that read."""
    decoder_layers: int = 4
    """Layers that write."""
    n_heads: int = 4
    """Attention heads."""
    feed_forward_dim: int = 144
    """transformer: inner width of the feed-forward layers."""
    state_dim: int | None = None
    """aed: width of what the encoder remembers in each direction; by default that of the
    embedding."""
    norm: Literal["pre", "post"] = "pre"
    """transformer: normalise what goes into a layer (trains at any rate), or what comes out (the
    paper)."""
    dropout: float = 0.1
    """Share of components dropped after the embedding and after each layer."""
    readout: Literal["concat", "magnitude"] = "concat"
    """How a complex state becomes a real one before it is compared with words: both parts side by
    side, or |z|; then a matrix."""
    score: Literal["magnitude", "real"] = "real"
    """How a complex product of query and key becomes a score."""
    share: Literal["none", "real", "tied"] = "none"
    """How the two parts of complex weights are bound; see wordwave.layers.Sharing."""
    share_frequency: Literal["word", "dim"] | None = None
    """complex-order: who shares a frequency, all words or all dimensions of a word."""
    phase: bool = False
    """complex-order: learn an initial phase for each word and dimension."""
    damping: bool = False
    """complex-order: learn the general solution with r₁ ≤ 1."""
    frequency_init: Literal["sinusoidal", "log-spaced", "log-uniform", "uniform"] = "sinusoidal"
    """complex-order: where frequencies start."""
    frequency_range: tuple[float, float] | None = None
    """complex-order: lowest and highest starting frequency; not for sinusoidal."""
    freeze_frequency: bool = False
    """complex-order: keep the frequencies as they start."""
    position_scale: float = 1.0
    """pe and tpe: size of the numbers of a position, as a multiple of those of a word."""
    max_length: int = 256
    """Longest sentence in pieces of words; no longer pair is learnt from, and of a longer sentence
    only the beginning is translated."""

    def __post_init__(self) -> None:
        check_limits(
            self,
            {
                "dim": WIDTH,
                "encoder_layers": DEPTH,
                "decoder_layers": DEPTH,
                "n_heads": WIDTH,
                "feed_forward_dim": WIDTH,
                "state_dim": WIDTH,
                "position_scale": SCALE,
                "max_length": (1, 100_000),
            },
        )
        if self.dim % self.n_heads:
            raise ValueError(
                f"dim must be a multiple of n_heads, got dim={self.dim}, n_heads={self.n_heads}"
            )
        check_fractions(self, "dropout")
        if self.architecture == "aed" and self.embedding in IN_ATTENTION:
            raise ValueError(
                f"embedding {self.embedding!r} acts inside self-attention and needs the "
                f"architecture 'transformer', got {self.architecture!r}"
            )

    @property
    def field(self) -> Literal["real", "complex"]:
        """The numbers that all layers work with."""
        return "complex" if self.embedding.startswith("complex") else "real"

    @property
    def embedding_config(self) -> ModelConfig:
        """The part of it that describes the embedding, as classifiers have it."""
        return ModelConfig(
            embedding=self.embedding,
            encoder="transformer",
            dim=self.dim,
            share_frequency=self.share_frequency,
            phase=self.phase,
            damping=self.damping,
            frequency_init=self.frequency_init,
            frequency_range=self.frequency_range,
            freeze_frequency=self.freeze_frequency,
            # Squares of a row add up to 1: the table is the output too, where rows are compared.
            word_scale=self.dim**-0.5,
            position_scale=self.position_scale,
            max_length=self.max_length + 1,  # and the sign that a sentence starts
        )
