"""What models are made of. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, get_args

from wordwave.embedding.config import IN_ATTENTION, AttentionKind, EmbeddingConfig
from wordwave.errors import WordwaveError
from wordwave.limits import (
    DEPTH,
    LENGTH,
    LOOK_BACK,
    SCALE,
    WIDTH,
    check_fractions,
    check_limits,
)

PaperEncoder = Literal["fasttext", "cnn", "lstm", "transformer"]
ENCODERS: tuple[PaperEncoder, ...] = get_args(PaperEncoder)
"""The encoders of the paper."""
EncoderKind = Literal["bag", PaperEncoder, "rnn"]
LIMITS = {
    **dict.fromkeys(("dim", "n_filters", "state_dim", "n_heads", "feed_forward_dim"), WIDTH),
    **dict.fromkeys(("n_layers", "encoder_layers", "decoder_layers"), DEPTH),
    **dict.fromkeys(("memory_length", "eval_memory_length"), LOOK_BACK),
    "hidden_dim": (0, WIDTH[1]),
    "n_bigrams": (0, 1 << 24),
    "n_subwords": (0, 1 << 24),
    "widths": (1, 1_000),
    "segment_length": (1, LOOK_BACK[1]),
    "max_wave_position": (1, 10**9),
    "clamp_len": (0, 10**9),
}
"""Of settings below, whichever a model has."""
ROTATING = ("rope", "p-rope", "xpos", "token-clock")
"""Encodings that take a head as complex numbers."""


def goes_with(embedding: str, encoder: str) -> bool:
    """Whether an encoder has the attention that an embedding may need."""
    return encoder == "transformer" or embedding not in IN_ATTENTION


@dataclass(frozen=True)
class ModelConfig:
    """A model of sentences: embedding → encoder → read-out → head."""

    embedding: EmbeddingConfig = dataclasses.field(
        default_factory=lambda: EmbeddingConfig(word_scale=0.1)
    )
    encoder: EncoderKind = "fasttext"
    """What turns the word vectors of a text into one vector."""
    dim: int = 128
    """Width of the embedding, in complex numbers where the embedding is complex."""
    readout: Literal["concat", "magnitude", "logit-magnitude"] = "concat"
    """How a complex vector becomes a real one: real and imaginary parts concatenated, or |z|, both
    before real layers; or complex layers up to the classes, and |z| of their logits."""
    hidden_dim: int = 128
    """Units of the hidden layer between read-out and classes; 0 for none."""
    dropout: float = 0.5
    """Dropout probability of the features before the classes, and of word vectors unless
    embedding_dropout is set."""
    embedding_dropout: float | None = None
    """Dropout probability of word vectors; by default that of the features. The bag has none."""
    max_norm: float = 0.0
    """In training, the weight vector of a class is scaled down to this length; 0 for no limit."""
    pooling: Literal["sum", "mean", "max"] = "mean"
    """fasttext, transformer, lstm and rnn: how the words of a text are pooled; the lstm and the rnn
    have no sum, and take the mean for it."""
    n_filters: int = 64
    """cnn: filters of each width."""
    widths: tuple[int, ...] = (3, 4, 5)
    """cnn: kernel sizes, in words."""
    padding: Literal["wide", "narrow"] = "wide"
    """cnn: all windows with a word in them, with zeros on both sides of a text, or as in the paper
    those that lie within it."""
    state_dim: int | None = None
    """lstm and rnn: hidden size in each direction; by default the width of the embedding."""
    n_layers: int = 1
    """lstm, rnn and transformer: number of layers."""
    n_heads: int = 4
    """transformer: number of attention heads."""
    feed_forward_dim: int = 128
    """transformer: inner width of the feed-forward layers."""
    score: Literal["magnitude", "real"] = "real"
    """transformer: how the complex product of query and key becomes an attention score: |z| as in
    the paper, or Re z, which torch's fused attention computes."""
    normalization: Literal["layer", "batch"] = "layer"
    """transformer: layer normalization, or batch normalization over the words of a batch, each of
    real and imaginary parts by themselves."""
    share: Literal["none", "real", "tied"] = "none"
    """How real and imaginary parts of complex weights are tied; see wordwave.layers.Sharing."""
    max_length: int = 512
    """Longest text in words; longer ones are truncated, and counted. pe: highest position."""

    @property
    def has_ngrams(self) -> bool:
        """Whether n-grams are classified besides."""
        return False

    def __post_init__(self) -> None:
        if not goes_with(self.embedding.kind, self.encoder):
            raise WordwaveError(
                f"embedding {self.embedding.kind!r} acts inside attention and needs the encoder "
                f"'transformer', got {self.encoder!r}"
            )
        if self.embedding.layers == "real" and self.encoder in ("bag", "fasttext"):
            raise WordwaveError(
                f"layers 'real' has no meaning for a sum of words, got encoder {self.encoder!r}"
            )
        if not 1 <= len(self.widths) <= 100:
            shown = "()" if not self.widths else f"{len(self.widths)} of them"
            raise WordwaveError(f"widths must be one or more numbers, at most 100, got {shown}")
        _check_ranges(self)
        check_limits(self, {"max_length": LENGTH, "max_norm": SCALE})

    @property
    def word_vector_dropout(self) -> float:
        """Dropout probability of word vectors."""
        return self.dropout if self.embedding_dropout is None else self.embedding_dropout


@dataclass(frozen=True)
class ClassifierConfig(ModelConfig):
    """A text classifier: embedding → encoder → read-out → head."""

    encoder: EncoderKind = "bag"
    """What turns the word vectors of a text into one vector. bag: the sum of words and bigrams,
    divided by √length, for few and for many texts; the others as in the paper."""
    n_bigrams: int | None = None
    """bag: rows that pairs of neighbours are hashed into; 0 for no bigrams, None for a number that
    follows from the training texts."""
    bigram_dropout: float = 0.5
    """bag: probability that all bigrams of a training text are left out."""
    max_length: int = 2048
    """Longest text in words; longer ones are truncated, and counted. pe: highest position."""
    ngrams: bool | None = None
    """bag: add the logits of a linear model of TF-IDF weighted words, bigrams and character
    n-grams, as much as pays on texts that neither was trained on. None: unless there are too many
    words and classes for one."""
    n_subwords: int | None = None
    """bag: rows that character n-grams are hashed into, which unknown words are recognized by; 0
    for none, None for a number that follows from the training texts."""

    @property
    def has_ngrams(self) -> bool:
        return self.ngrams is not False and self.encoder == "bag"


@dataclass(frozen=True)
class PairModelConfig(ModelConfig):
    """A matcher of sentence pairs: embedding → encoder → read-out, then both compared → head."""

    embedding: EmbeddingConfig = dataclasses.field(
        default_factory=lambda: EmbeddingConfig(
            share_frequency="word",
            frequency_init="log-uniform",
            frequency_range=(0.003, 1.0),
            views=("start", "end", "relative", "context"),
        )
    )
    dim: int = 256
    hidden_dim: int = 256
    """Units of the hidden layer that compares two sentences; 0 for none."""
    dropout: float = 0.1
    """Dropout probability before each layer of the head."""
    pooling: Literal["sum", "mean", "max"] = "sum"
    symmetric: bool = True
    """Whether (a, b) and (b, a) get the same answer; not so for entailment."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder == "bag":
            raise WordwaveError(
                "encoder 'bag' is for classifiers; the sum of a matcher is 'fasttext'"
            )
        if self.readout == "logit-magnitude":
            raise WordwaveError("readout 'logit-magnitude' is for classifiers, not for matchers")
        if self.encoder == "fasttext" and self.dim < 2:
            raise WordwaveError("dim must be at least 2 to be normalized, got 1")


@dataclass(frozen=True)
class TransformerXLConfig:
    """Transformer-XL: embedding → layers with segment-level recurrence → read-out → next token."""

    embedding: EmbeddingConfig = dataclasses.field(
        default_factory=lambda: EmbeddingConfig(phase=True)
    )
    position: Literal["relative", "none", AttentionKind] = "relative"
    """How attention encodes distances: Transformer-XL's relative terms, rotary position embedding
    or another encoding inside attention (real layers only), or not at all."""
    dim: int = 64
    """Width, in complex numbers where the embedding is complex."""
    n_layers: int = 3
    """Number of layers."""
    n_heads: int = 4
    """Number of attention heads."""
    feed_forward_dim: int = 256
    """Inner width of the feed-forward layers."""
    dropout: float = 0.0
    """Dropout probability after the embedding and after each sub-layer."""
    attention_dropout: float = 0.0
    """Dropout probability of attention weights."""
    norm_first: bool = True
    """Normalize before each sub-layer (pre-norm), not after it as published (post-norm)."""
    share: Literal["none", "real", "tied"] = "none"
    """How real and imaginary parts of complex weights are tied; see wordwave.layers.Sharing."""
    hidden_units: Literal["complex", "real"] = "complex"
    """Units inside complex feed-forward layers: complex ones, or real ones, which take Re(w·z) as
    input and have complex output weights, for half the multiplications."""
    score: Literal["magnitude", "real"] = "real"
    """How the complex product of query and key becomes an attention score: |z| or Re z."""
    readout: Literal["concat", "magnitude"] = "concat"
    """How complex states become real ones: a linear map of both parts, or |z|."""
    wave_positions: Literal["word", "segment", "running"] = "word"
    """complex-order and tpe: count a character's position within its word (a run of letters and
    digits), within the segment, or through the whole text."""
    max_wave_position: int = 4096
    """Highest position that is not counted within a segment: within words, positions are clamped
    to it; through the text, they start again after it."""
    tied: bool = True
    """Tie the output layer to the embedding (of waves, to the amplitudes)."""
    segment_length: int = 64
    """Characters of a training segment."""
    memory_length: int = 64
    """Cached characters before the segment that training attends to."""
    eval_memory_length: int = 128
    """Characters that each one attends to in evaluation and generation."""
    clamp_len: int = 0
    """relative: larger distances are clamped to this one; 0 for no limit."""

    def __post_init__(self) -> None:
        _check_ranges(self)
        _check_heads(self.dim, self.n_heads)
        _check_views(self.embedding, "language models")
        kind, is_real = self.embedding.kind, self.embedding.field == "real"
        if kind == "pe" or self.embedding.in_attention:
            raise WordwaveError(
                "embedding must be one of none, tpe, complex-vanilla, complex-order for language "
                f"models, got {kind!r}"
            )
        if self.position in IN_ATTENTION and kind != "none":
            raise WordwaveError(
                f"position {self.position!r} goes with embedding 'none', got {kind!r}"
            )
        if self.position in ROTATING and self.dim // self.n_heads % 2:
            raise WordwaveError(
                f"{self.position} needs an even width per head, got {self.dim // self.n_heads}"
            )
        has_sinusoids = (is_real and self.position == "relative") or kind == "tpe"
        if has_sinusoids and self.dim % 2:
            raise WordwaveError(f"relative positions and tpe need an even dim, got {self.dim}")
        if self.counts is None and self.wave_positions == "running":
            raise WordwaveError(f"wave_positions 'running' has no meaning for {kind!r}")
        if self.tied:
            _check_amplitudes(self.embedding, "tied")
        of_complex = {"share": "none", "hidden_units": "complex", "score": "real"}
        for name, usual in (of_complex | {"readout": "concat"} if is_real else {}).items():
            if getattr(self, name) != usual:
                raise WordwaveError(f"{name} {getattr(self, name)!r} has no meaning for {kind!r}")
        if self.embedding.freeze_frequency and kind != "complex-order":
            raise WordwaveError(f"freeze_frequency True has no meaning for {kind!r}")

    @property
    def counts(self) -> Literal["word", "segment", "running"] | None:
        """What the positions of the embedding are counted within, if it has any."""
        return self.wave_positions if self.embedding.kind in ("tpe", "complex-order") else None


@dataclass(frozen=True)
class TranslationModelConfig:
    """An encoder-decoder whose output layer is tied to its embedding."""

    architecture: Literal["transformer", "aed"] = "transformer"
    """transformer, or aed: an attentional encoder-decoder of LSTMs."""
    embedding: EmbeddingConfig = dataclasses.field(default_factory=EmbeddingConfig)
    dim: int = 80
    """Width of embedding and layers, in complex numbers where the embedding is complex."""
    encoder_layers: int = 4
    """Number of encoder layers."""
    decoder_layers: int = 4
    """Number of decoder layers."""
    n_heads: int = 4
    """Number of attention heads."""
    feed_forward_dim: int = 144
    """transformer: inner width of the feed-forward layers."""
    state_dim: int | None = None
    """aed: hidden size of the encoder in each direction; by default the width of the embedding."""
    norm_first: bool = True
    """transformer: normalize before each sub-layer (pre-norm, trains at any learning rate), not
    after it as in the paper (post-norm)."""
    dropout: float = 0.1
    """Dropout probability after the embedding and after each sub-layer."""
    readout: Literal["concat", "magnitude"] = "concat"
    """How complex states become real ones before the output layer: a linear map of both parts
    concatenated, or of |z|."""
    score: Literal["magnitude", "real"] = "real"
    """How the complex product of query and key becomes an attention score: |z| or Re z."""
    share: Literal["none", "real", "tied"] = "none"
    """How real and imaginary parts of complex weights are tied; see wordwave.layers.Sharing."""
    max_length: int = 256
    """Longest sentence in subwords: longer pairs are left out of training, and longer sentences
    are truncated before they are translated."""

    def __post_init__(self) -> None:
        _check_ranges(self)
        check_limits(self, {"max_length": (1, 100_000)})
        _check_heads(self.dim, self.n_heads)
        _check_amplitudes(self.embedding, "translation")
        _check_views(self.embedding, "translation")
        if self.architecture == "aed" and self.embedding.in_attention:
            raise WordwaveError(
                f"embedding {self.embedding.kind!r} acts inside self-attention and needs the "
                f"architecture 'transformer', got {self.architecture!r}"
            )

    @property
    def field(self) -> Literal["real", "complex"]:
        """The numbers that all layers work with."""
        return self.embedding.field


@dataclass(frozen=True)
class SentenceEncoderConfig:
    """A sentence encoder: a sum of token vectors, beside sums of waves."""

    dim: int = 256
    """Width of the meaning part: a sum of token vectors."""
    order_dim: int = 32
    """Width of the waves of the order part; each view adds twice this to the sentence vector."""
    views: tuple[Literal["start", "end", "relative"], ...] = ("start", "end", "relative")
    """How the positions of waves are counted: from the start, from the end, relative to the
    length."""
    frequencies: tuple[float, float] = (0.01, 2.0)
    """Lowest and highest initial frequency, in radians per word; those of relative positions go up
    to four turns per sentence."""
    order_weight: float = 0.1
    """α: similarity = (1 − α)·cos(meaning) + α·cos(order); 0 ignores word order."""
    max_length: int = 512
    """Longest text in subwords; longer ones are truncated, and counted."""

    def __post_init__(self) -> None:
        check_limits(
            self,
            {
                "dim": WIDTH,
                "order_dim": WIDTH,
                "frequencies": (1e-6, math.pi),
                "order_weight": (0, 1),
                "max_length": (1, 100_000),
            },
        )
        if not self.views or len(set(self.views)) < len(self.views):
            raise WordwaveError(f"views must be one or more, each once, got {self.views!r}")


def _check_ranges(config: object) -> None:
    check_limits(config, {name: limit for name, limit in LIMITS.items() if hasattr(config, name)})
    dropouts = ("dropout", "embedding_dropout", "attention_dropout", "bigram_dropout")
    check_fractions(config, *(name for name in dropouts if getattr(config, name, None) is not None))


def _check_heads(dim: int, n_heads: int) -> None:
    if dim % n_heads:
        raise WordwaveError(f"dim must be a multiple of n_heads, got dim={dim}, n_heads={n_heads}")


def _check_views(embedding: EmbeddingConfig, what: str) -> None:
    """A decoder does not know the length of a text whose end it has yet to generate."""
    if embedding.layers != "complex":
        raise WordwaveError(f"layers must be complex for {what}, got {embedding.layers!r}")
    if embedding.views != ("start",):
        raise WordwaveError(f"views must be start for {what}, got {' '.join(embedding.views)}")


def _check_amplitudes(embedding: EmbeddingConfig, what: str) -> None:
    """An output layer tied to amplitudes needs one for each word and dimension."""
    if embedding.kind == "complex-order" and embedding.share_amplitude:
        raise WordwaveError(
            f"share_amplitude does not go with {what}, where amplitudes are the output layer, "
            f"got {embedding.share_amplitude!r}"
        )
