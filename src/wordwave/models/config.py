"""What a classifier is made of. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wordwave.limits import DEPTH, LENGTH, SCALE, WIDTH, check_fractions, check_limits

EmbeddingKind = Literal["none", "pe", "tpe", "complex-vanilla", "complex-order", "rope", "alibi"]
EncoderKind = Literal["fasttext", "cnn", "lstm", "transformer"]

PAPER_EMBEDDINGS: tuple[EmbeddingKind, ...] = (
    "none",
    "pe",
    "tpe",
    "complex-vanilla",
    "complex-order",
)
IN_ATTENTION: tuple[EmbeddingKind, ...] = ("rope", "alibi")
EMBEDDINGS: tuple[EmbeddingKind, ...] = (*PAPER_EMBEDDINGS, *IN_ATTENTION)
ENCODERS: tuple[EncoderKind, ...] = ("fasttext", "cnn", "lstm", "transformer")


def goes_with(embedding: str, encoder: str) -> bool:
    """Whether an encoder has the attention that an embedding may need."""
    return encoder == "transformer" or embedding not in IN_ATTENTION


def position_in_attention(embedding: EmbeddingKind) -> Literal["rope", "alibi"] | None:
    """What attention itself is to know of positions."""
    return embedding if embedding == "rope" or embedding == "alibi" else None


@dataclass(frozen=True)
class ModelConfig:
    """embedding → encoder → read-out → head."""

    embedding: EmbeddingKind = "complex-order"
    """How words and positions become vectors; rope and alibi go with the transformer."""
    encoder: EncoderKind = "fasttext"
    """How the vectors of a sentence become one."""
    dim: int = 128
    """Width of the embedding, in complex numbers where the embedding is complex."""
    readout: Literal["concat", "magnitude"] = "concat"
    """How a complex vector becomes a real one: both parts side by side, or |z|."""
    hidden_dim: int = 128
    """Units of the real hidden layer between read-out and classes; 0 for none."""
    dropout: float = 0.5
    """Share of components dropped after the embedding and before the classes."""
    pooling: Literal["sum", "mean"] = "mean"
    """How fasttext and the transformer gather the words of a sentence."""
    n_filters: int = 64
    """cnn: filters of each width."""
    widths: tuple[int, ...] = (3, 4, 5)
    """cnn: how many neighbouring words a filter sees."""
    state_dim: int | None = None
    """lstm: width of what it remembers in each direction; by default that of the embedding."""
    n_layers: int = 1
    """lstm and transformer: layers, one upon the other."""
    n_heads: int = 4
    """transformer: attention heads."""
    feed_forward_dim: int = 128
    """transformer: inner width of the feed-forward layers."""
    score: Literal["magnitude", "real"] = "real"
    """transformer: how a complex product of query and key becomes a score; the paper writes
    magnitude, torch's fused attention has the real part."""
    share: Literal["none", "real", "tied"] = "none"
    """How the two parts of complex weights are bound; see wordwave.layers.Sharing."""
    share_frequency: Literal["word", "dim"] | None = None
    """complex-order: who shares a frequency, all words or all dimensions of a word."""
    share_amplitude: Literal["word", "dim"] | None = None
    """complex-order: who shares an amplitude."""
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
    word_scale: float = 0.1
    """Size of the first vectors or amplitudes of words that have no pretrained ones. Small ones let
    a bag of words forget them sooner."""
    position_scale: float = 1.0
    """pe and tpe: size of the numbers of a position, as a multiple of those of a word."""
    max_length: int = 512
    """Longest sentence in words: of a longer text the rest is left out, and counted. pe: highest
    position with a vector."""

    def __post_init__(self) -> None:
        if not goes_with(self.embedding, self.encoder):
            raise ValueError(
                f"embedding {self.embedding!r} acts inside attention and needs the encoder "
                f"'transformer', got {self.encoder!r}"
            )
        if not 1 <= len(self.widths) <= 100:
            shown = "()" if not self.widths else f"{len(self.widths)} of them"
            raise ValueError(f"widths must be one or more numbers, at most 100, got {shown}")
        check_limits(
            self,
            {
                "dim": WIDTH,
                "hidden_dim": (0, WIDTH[1]),
                "n_filters": WIDTH,
                "widths": (1, 1_000),
                "state_dim": WIDTH,
                "n_layers": DEPTH,
                "n_heads": WIDTH,
                "feed_forward_dim": WIDTH,
                "word_scale": SCALE,
                "position_scale": SCALE,
                "max_length": LENGTH,
            },
        )
        check_fractions(self, "dropout")
