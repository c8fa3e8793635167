"""The embeddings the paper compares with, and all of them by name.

All are called alike: `embedding(ids, positions=None)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.complex import Device
from wordwave.embedding.config import EmbeddingConfig
from wordwave.embedding.table import Table, normal
from wordwave.embedding.views import WaveViews
from wordwave.embedding.wave import (
    WaveEmbedding,
    check_ids,
    check_sizes,
    check_vectors,
    count_positions,
)
from wordwave.errors import WordwaveError, unknown


class WordEmbedding(nn.Module):
    """`none`: a vector per word without a position; base class of those that add one (Eq. 1).

    Args:
        vocab_size: number V of words.
        dim: real width D of the output.
        padding_idx: the id that embeds to exactly 0 and is never trained, or `None`.
        vectors: pretrained vectors (V, D); by default drawn from N(0, 1).
        freeze_vectors: do not train the word vectors.
        sparse: row-sparse gradients.
        device, dtype: of the parameters, as in torch.nn.
    """

    field: Literal["real", "complex"] = "real"

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        padding_idx: int | None = 0,
        vectors: Tensor | None = None,
        freeze_vectors: bool = False,
        sparse: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size, dim, padding_idx)
        self.vocab_size, self.dim, self.out_dim = vocab_size, dim, dim
        self.padding_idx = padding_idx
        if vectors is None:
            vectors = normal(vocab_size, dim, device)
        check_vectors(vectors, (vocab_size, dim))
        self.words = Table(
            vectors.to(device=device),
            vocab_size=vocab_size,
            padding_idx=padding_idx,
            sparse=sparse,
            frozen=freeze_vectors,
            dtype=dtype,
        )

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Embed words at positions, by default 1 … L.

        Shape: ids (..., L) integers, positions broadcastable to ids -> (..., L, D)
        """
        check_ids(ids, self.vocab_size)
        words = self.words(ids)
        added = self.position_vectors(count_positions(ids, positions))
        if added is None:
            return words
        if self.padding_idx is None:
            return words + added
        return (words + added) * (ids != self.padding_idx).unsqueeze(-1)

    @property
    def vectors(self) -> nn.Parameter:
        """The word vectors without positions. Shape: (V, D)"""
        return self.words.weight

    def position_vectors(self, position: Tensor) -> Tensor | None:
        """What is added to the word vectors. Shape: (..., L, 1) -> (..., L, D)"""
        return None


class LearnedPositionEmbedding(WordEmbedding):
    """`pe`: a learned vector for each position up to `max_length` is added to the word's."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        max_length: int = 512,
        position_scale: float = 1.0,
        **options: object,
    ) -> None:
        cx.check_at_least_one(max_length=max_length)
        super().__init__(vocab_size, dim, **options)  # type: ignore[arg-type]
        self.max_length = max_length
        words = self.words.weight
        places = normal(max_length + 1, dim, words.device) * position_scale
        self.places = nn.Parameter(places.to(words.dtype))

    def position_vectors(self, position: Tensor) -> Tensor:
        index = position.squeeze(-1)
        if index.is_floating_point():
            raise WordwaveError(f"positions must be integers for 'pe', got {index.dtype}")
        if (bad := cx.outside(index, self.max_length)) is not None:
            raise WordwaveError(
                f"positions must be in [0, max_length={self.max_length}] for 'pe', got {bad}; "
                "build it with a larger max_length"
            )
        return nn.functional.embedding(index.long(), self.places)


class SinusoidalPositionEmbedding(WordEmbedding):
    """`tpe`: PE_2k = sin(ω_k·pos), PE_2k+1 = cos(ω_k·pos), ω_k = 10000^(−2k/D), is added.

    These are the imaginary and real parts of a word-shared wave of amplitude 1 (App. A).

    Args:
        train_sinusoids: learn ω, from the same initial values.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        position_scale: float = 1.0,
        train_sinusoids: bool = False,
        **options: object,
    ) -> None:
        if dim % 2:
            raise WordwaveError(f"dim must be even for 'tpe' (pairs of sine and cosine), got {dim}")
        super().__init__(vocab_size, dim, **options)  # type: ignore[arg-type]
        # A buffer, so that it is saved with the weights.
        scale = self.words.weight.new_tensor(float(position_scale))
        self.register_buffer("position_scale", scale)
        self.frequency: nn.Parameter | None = None
        if train_sinusoids:
            self.frequency = nn.Parameter(sinusoidal(dim // 2, device=scale.device))

    position_scale: Tensor

    @property
    def frequencies(self) -> Tensor:
        """Computed on demand: a buffer would be rounded when a model is cast to bfloat16."""
        if self.frequency is not None:
            return self.frequency
        return sinusoidal(self.dim // 2, device=self.words.weight.device)

    def position_vectors(self, position: Tensor) -> Tensor:
        wave = cx.phasor(angle(self.frequencies, position))
        pairs = torch.stack([cx.imag(wave), cx.real(wave)], dim=-1).flatten(-2)
        return (self.position_scale * pairs).to(self.words.weight.dtype)


class ComplexEmbedding(WordEmbedding):
    """`complex-vanilla`: r_j·e^{iθ_j}, a complex vector per word without a position.

    Args: as `WordEmbedding`, with `vectors` for the amplitude; θ starts uniform in [−π, π].
    """

    field = "complex"

    def __init__(self, vocab_size: int, dim: int, **options: object) -> None:
        super().__init__(vocab_size, dim, **options)  # type: ignore[arg-type]
        self.out_dim = 2 * dim
        angles = torch.empty(vocab_size, dim, device=self.words.weight.device)
        self.phase = Table(
            angles.uniform_(-torch.pi, torch.pi),
            vocab_size=vocab_size,
            padding_idx=self.padding_idx,
            sparse=self.words.sparse,
            dtype=self.words.weight.dtype,
        )

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Shape: ids (..., L) integers, positions accepted and ignored -> (..., L, 2·D)"""
        words = super().forward(ids, positions)
        return cx.scale(cx.phasor(self.phase(ids)), words)


Embedding: TypeAlias = WordEmbedding | WaveEmbedding
"""A vector per word, to which a position vector may be added, or a wave."""
EMBEDDINGS: dict[str, Callable[..., Embedding]] = {
    "none": WordEmbedding,
    "pe": LearnedPositionEmbedding,
    "tpe": SinusoidalPositionEmbedding,
    "complex-vanilla": ComplexEmbedding,
    "complex-order": WaveEmbedding,
}
"""The kinds the paper compares, under its own names."""
NOT_OF_WAVES = (
    *("kind", "word_scale", "position_scale", "frequency_scale"),
    *("views", "train_sinusoids", "layers"),
)
"""Settings that are no options of `WaveEmbedding`."""


def build_embedding(kind: str, vocab_size: int, dim: int, **options: Any) -> Embedding:
    """An embedding of one of the kinds in `EMBEDDINGS`; the options are those of its class.

    Its `field` tells whether the output is real (..., L, D) or complex (..., L, 2·D), and `out_dim`
    how wide it is.
    """
    if kind not in EMBEDDINGS:
        raise unknown("kind", kind, EMBEDDINGS)
    return EMBEDDINGS[kind](vocab_size, dim, **options)


def build(
    config: EmbeddingConfig,
    vocab_size: int,
    dim: int,
    *,
    max_length: int,
    vectors: Tensor | None = None,
    **options: Any,
) -> Embedding:
    """The embedding that a config describes, with its initial values scaled.

    Args:
        max_length: highest position of `pe`.
        vectors: pretrained vectors (V, D), which are not scaled.
        options: more of its class, such as `padding_idx` and `sparse`.
    """
    kind = "none" if config.in_attention else config.kind
    word_scale = dim**-0.5 if config.word_scale is None else config.word_scale
    if kind == "complex-order":
        options |= {k: v for k, v in vars(config).items() if k not in NOT_OF_WAVES}
    if kind in ("pe", "tpe"):
        # A baseline whose positions outweigh its words, or the reverse, is a poor one.
        size = word_scale if vectors is None else float(vectors.square().mean().sqrt())
        options["position_scale"] = config.position_scale * size
    if kind == "pe":
        options["max_length"] = max_length
    if kind == "tpe":
        options["train_sinusoids"] = config.train_sinusoids
    make: Callable[..., Embedding] = partial(build_embedding, kind)
    if kind == "complex-order" and config.views != ("start",):
        make = partial(WaveViews, views=config.views)
    embedding = make(vocab_size, dim, vectors=vectors, **options)
    if vectors is None:
        with torch.no_grad():
            embedding.vectors.mul_(word_scale)
    if isinstance(embedding, WaveEmbedding) and config.frequency_scale != 1:
        with torch.no_grad():
            for table in (embedding.frequency, *getattr(embedding, "more_frequencies", ())):
                table.weight.mul_(config.frequency_scale)
    embedding.field = config.field
    return embedding
