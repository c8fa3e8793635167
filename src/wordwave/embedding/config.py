"""Which embedding a model has. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from wordwave.errors import WordwaveError
from wordwave.limits import SCALE, check_limits

PaperKind = Literal["none", "pe", "tpe", "complex-vanilla", "complex-order"]
AttentionKind = Literal[
    "rope",
    "alibi",
    "nope",
    "p-rope",
    "xpos",
    "t5",
    "kerple",
    "fire",
    "cope",
    "pope",
    "wave-attention",
    "token-clock",
]
EmbeddingKind = Literal[PaperKind, AttentionKind]
Sharing = Literal["word", "dim"] | None
"""`None`: a value for each word and dimension; `"word"`: one per dimension, shared by all words;
`"dim"`: one per word, shared by all dimensions."""
View = Literal["start", "end", "relative", "context"]
"""How positions are counted: 1, 2, … from the first word; 1, 2, … from the last; as a fraction of
the length; or from each of the words before."""
MAX_VIEWS = 16
FrequencyInit = Literal["sinusoidal", "log-spaced", "log-uniform", "uniform"]

EMBEDDING_KINDS: tuple[EmbeddingKind, ...] = get_args(EmbeddingKind)
PAPER_EMBEDDINGS: tuple[PaperKind, ...] = get_args(PaperKind)
IN_ATTENTION: tuple[AttentionKind, ...] = get_args(AttentionKind)
"""Kinds that encode positions inside attention and leave the word vectors as they are; see
docs/positions.md."""
COMPARED: tuple[EmbeddingKind, ...] = (*PAPER_EMBEDDINGS, "rope", "alibi")
"""What the laboratory and the paper's tables compare by default."""


@dataclass(frozen=True)
class EmbeddingConfig:
    """How words and positions become vectors.

    The models nest it, each with defaults of its own. As a flag, `kind` is `--embedding`; in YAML,
    `embedding: tpe` is short for `embedding: {kind: tpe}`.
    """

    kind: EmbeddingKind = "complex-order"
    """Word embedding and position encoding; rope and all after it act inside attention and need a
    transformer."""
    share_frequency: Sharing = None
    """complex-order: share frequencies between all words (word), or between all dimensions of a
    word (dim)."""
    share_amplitude: Sharing = None
    """complex-order: share amplitudes, likewise."""
    share_phase: Sharing = None
    """complex-order: share initial phases, likewise."""
    phase: bool = False
    """complex-order: learn an initial phase for each word and dimension."""
    damping: bool = False
    """complex-order: learn a damping factor r₁ ≤ 1 per position, the general solution of the
    paper's Claim 1."""
    frequency_init: FrequencyInit = "sinusoidal"
    """complex-order: initial frequencies."""
    frequency_range: tuple[float, float] | None = None
    """complex-order: lowest and highest initial frequency, unless sinusoidal; each initialization
    has a default range."""
    frequency_scale: float = 1.0
    """complex-order: factor of the initial frequencies; below 1, waves turn more slowly."""
    freeze_frequency: bool = False
    """complex-order: do not train the frequencies."""
    views: tuple[View, ...] = ("start",)
    """complex-order: how positions are counted: from the start, from the end, relative to the
    length, or from each of the words before (context). Several give waves side by side, of the same
    amplitudes and with frequencies of their own; relative may be repeated."""
    train_sinusoids: bool = False
    """tpe: learn the frequencies of the sinusoids."""
    layers: Literal["complex", "real"] = "complex"
    """complex-vanilla and complex-order: the numbers of the layers after the embedding; real ones
    take real and imaginary parts side by side, as a vector of twice the width."""
    word_scale: float | None = None
    """Standard deviation of the initial word vectors or amplitudes, where there are no pretrained
    vectors; None for 1/√dim."""
    position_scale: float = 1.0
    """pe and tpe: size of the position vectors, as a multiple of that of the word vectors."""

    def __post_init__(self) -> None:
        scales = ("word_scale", "position_scale", "frequency_scale")
        check_limits(self, dict.fromkeys(scales, SCALE))
        once = [view for view in self.views if view != "relative"]
        if not 1 <= len(self.views) <= MAX_VIEWS or len(set(once)) < len(once):
            raise WordwaveError(
                f"views must be 1 to {MAX_VIEWS}, only relative may be repeated, got {self.views}"
            )
        if self.views[0] == "context":
            raise WordwaveError("views must begin with start, end or relative, got context first")

    @property
    def field(self) -> Literal["real", "complex"]:
        """The numbers that the embedding gives, and the layers after it work with."""
        is_complex = self.kind.startswith("complex") and self.layers == "complex"
        return "complex" if is_complex else "real"

    @property
    def in_attention(self) -> AttentionKind | None:
        """The position encoding that attention applies, if any."""
        return next((kind for kind in IN_ATTENTION if kind == self.kind), None)
