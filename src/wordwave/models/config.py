"""What a classifier is made of. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wordwave.errors import WordwaveError
from wordwave.limits import DEPTH, LENGTH, LOOK_BACK, SCALE, WIDTH, check_fractions, check_limits

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
            raise WordwaveError(
                f"embedding {self.embedding!r} acts inside attention and needs the encoder "
                f"'transformer', got {self.encoder!r}"
            )
        if not 1 <= len(self.widths) <= 100:
            shown = "()" if not self.widths else f"{len(self.widths)} of them"
            raise WordwaveError(f"widths must be one or more numbers, at most 100, got {shown}")
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


@dataclass(frozen=True)
class TransformerXLConfig:
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
    max_wave_position: int = 4096
    """The highest position, but for those within segments: longer words stay there, running ones
    start again. Waves must meet in training every position that they will be read at."""
    tied: bool = True
    """Predict with the vectors of the embedding; of waves with the amplitudes."""
    segment_length: int = 64
    """Characters read at once in training."""
    memory_length: int = 64
    """Characters before the segment that training looks back to."""
    eval_memory_length: int = 128
    """Characters that each one looks back to when the model is scored or writes."""
    clamp_len: int = 0
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
                "eval_memory_length": LOOK_BACK,
                "max_wave_position": (1, 10**9),
                "clamp_len": (0, 10**9),
            },
        )
        check_fractions(self, "dropout", "attention_dropout")
        if self.dim % self.n_heads:
            raise WordwaveError(
                f"dim must be a multiple of n_heads, got dim={self.dim}, n_heads={self.n_heads}"
            )
        is_real = self.embedding in ("none", "tpe")
        if self.position == "rope" and self.embedding != "none":
            raise WordwaveError(
                f"position 'rope' goes with embedding 'none', got {self.embedding!r}"
            )
        if self.position == "rope" and self.dim // self.n_heads % 2:
            raise WordwaveError(
                f"rope needs an even width per head, got {self.dim // self.n_heads}"
            )
        has_sinusoids = (is_real and self.position == "relative") or self.embedding == "tpe"
        if has_sinusoids and self.dim % 2:
            raise WordwaveError(f"relative positions and tpe need an even dim, got {self.dim}")
        if self.counts is None and self.wave_positions == "running":
            raise WordwaveError(f"wave_positions 'running' has no meaning for {self.embedding!r}")
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
                raise WordwaveError(
                    f"{name} {getattr(self, name)!r} has no meaning for {self.embedding!r}"
                )

    @property
    def counts(self) -> Literal["word", "segment", "running"] | None:
        """What the positions of its embedding count within, if that looks at them."""
        return self.wave_positions if self.embedding in ("tpe", "complex-order") else None


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
            raise WordwaveError(
                f"dim must be a multiple of n_heads, got dim={self.dim}, n_heads={self.n_heads}"
            )
        check_fractions(self, "dropout")
        if self.architecture == "aed" and self.embedding in IN_ATTENTION:
            raise WordwaveError(
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
