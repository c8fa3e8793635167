"""WaveEmbedding, the paper's complex-order embedding (Eq. 5), its tables and its checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle, sinusoidal
from wordwave.complex import Device
from wordwave.embedding._kernel import SHORT, WaveRows
from wordwave.embedding.config import FrequencyInit, Sharing
from wordwave.errors import WordwaveError


class Table(nn.Module):
    """A lookup table of a number for each word and dimension, stored smaller where it is shared.

    Stored shape: (V, D) full, (1, D) shared by all words, (V, 1) shared by all dimensions.
    """

    lr_scale = 1.0
    """Its learning rate, relative to that of other weights."""

    def __init__(
        self,
        values: Tensor,
        *,
        vocab_size: int,
        share: Sharing = None,
        padding_idx: int | None = None,
        sparse: bool = False,
        frozen: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.share = vocab_size, share
        self.padding_idx, self.sparse = padding_idx, sparse
        self.bigrams: Bigrams | None = None
        self.weight = nn.Parameter(
            values.detach().to(cx.parameter_dtype(dtype), copy=True), requires_grad=not frozen
        )
        self.zero_padding()

    @property
    def per_word(self) -> bool:
        return self.share != "word"

    @property
    def row_sparse(self) -> bool:
        """Whether gradients are row-sparse."""
        return self.sparse and self.per_word

    @torch.no_grad()
    def zero_padding(self) -> None:
        if self.per_word and self.padding_idx is not None:
            self.weight[self.padding_idx] = 0

    @torch.no_grad()
    def resize(self, vocab_size: int) -> None:
        """Keep the first rows; draw new ones with the mean and deviation of the existing words."""
        if self.per_word:
            old = self.weight
            words = [row for row in range(len(old)) if row != self.padding_idx]
            known = old[words] if words else torch.zeros_like(old)
            deviation = known.std(dim=0) if len(known) > 1 else torch.zeros_like(known[0])
            noise = torch.randn(vocab_size, old.shape[1], dtype=old.dtype, device=old.device)
            rows = known.mean(dim=0) + deviation * noise
            kept = min(len(old), vocab_size)
            rows[:kept] = old[:kept]
            self.weight = nn.Parameter(rows, requires_grad=old.requires_grad)
            self.zero_padding()
        self.vocab_size = vocab_size

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (..., L) -> (..., L, D), or what broadcasts to it: (1, D), (..., L, 1)"""
        if not self.per_word:
            return self.weight
        rows = F.embedding(ids, self.weight, self.padding_idx, sparse=self.sparse)
        return rows if self.bigrams is None else rows + self.bigrams(ids)

    def full(self) -> Tensor:
        """A row for each word. Shape: (V, D), or (V, 1) if shared by all dimensions"""
        return self.weight.expand(self.vocab_size, -1)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, share={self.share!r}, sparse={self.sparse}"


BIGRAM_SCALE = 0.5
"""A bigram counts half as much as a word."""


class Bigrams(Table):
    """Vectors of pairs of neighbours, which are added to that of the second word: a bigram stands
    at the position of its second word, and shares its wave.

    A pair is hashed to a row, and counts only if the row is its own: what was not seen in training
    adds nothing.

    Args:
        n: number of rows.
        n_words: number of words, V.
        dropout: probability that all bigrams of a training sentence are left out, so that they do
            not take over what words and positions can explain.
    """

    def __init__(
        self, n: int, dim: int, *, n_words: int, sparse: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(torch.zeros(n + 1, dim), vocab_size=n + 1, padding_idx=0, sparse=sparse)
        self.n_words, self.dropout = n_words, dropout
        self.register_buffer("keys", torch.zeros(n + 1, dtype=torch.long))

    keys: Tensor

    def assign(self, keys: Tensor) -> None:
        """Give rows to pairs, the first ones first. Shape: keys (N,), first·V + second"""
        hashed = self._hash(keys // self.n_words, keys % self.n_words)
        rows, order = torch.sort(hashed, stable=True)
        is_first = torch.cat([rows.new_ones(1), rows.diff()])[: len(rows)] != 0
        self.keys.zero_()
        self.keys[rows[is_first]] = keys[order[is_first]]

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: ids of words (..., L) -> (..., L, D)"""
        rows = self.rows(F.pad(ids, (1, 0))[..., :-1], ids)
        if (kept := self.draw_kept(*ids.shape[:-1], 1)) is not None:
            rows = rows * kept.to(rows.device)
        return BIGRAM_SCALE * super().forward(rows)

    def rows(self, before: Tensor, ids: Tensor) -> Tensor:
        """The rows of pairs, 0 for those without one. Shape: two (...) -> (...)"""
        hashed = self._hash(before, ids)
        # The first word of a sentence, and padding, have a 0 in their pair, as no known pair has.
        return hashed * (self.keys[hashed] == before * self.n_words + ids)

    def draw_kept(self, *shape: int) -> Tensor | None:
        """Which sentences keep their bigrams in this training step, `None` for all."""
        drops = self.training and self.dropout
        return torch.rand(*shape) >= self.dropout if drops else None

    def _hash(self, before: Tensor, ids: Tensor) -> Tensor:
        return (before * 40_503 + ids * 2_654_435_761) % (self.vocab_size - 1) + 1


def initial_frequencies(
    shape: tuple[int, int],
    init: FrequencyInit | Tensor,
    *,
    limits: tuple[float, float] | None,
    per_word: bool,
    device: Device,
) -> Tensor:
    """Initial values of a frequency table.

    With one frequency `per_word` there are no dimensions to spread a spectrum over: the sinusoidal
    and log-spaced inits give every word the geometric mean of the spectrum.

    Shape: the given one, (V, D), (1, D) or (V, 1)
    """
    if isinstance(init, Tensor):
        if limits is not None:
            raise WordwaveError("frequency_range does not go with frequency_init = a tensor")
        try:
            return init.detach().to(device, torch.get_default_dtype()).expand(shape)
        except RuntimeError:
            raise WordwaveError(
                f"frequency_init as a tensor must broadcast to {shape}, got {tuple(init.shape)}"
            ) from None
    if init not in get_args(FrequencyInit):
        known = ", ".join(map(repr, get_args(FrequencyInit)))
        raise WordwaveError(f"frequency_init must be a tensor or one of {known}, got {init!r}")
    if limits is not None and init == "sinusoidal":
        raise WordwaveError(f"frequency_range does not go with frequency_init = {init!r}")
    lowest, rule = (-math.inf, "low < high") if init == "uniform" else (0.0, "0 < low < high")
    if limits is None:
        limits = (-0.3, 0.3) if init == "uniform" else (1e-4, 1.0)
    if len(limits) != 2 or not lowest < limits[0] < limits[1] < math.inf:
        raise WordwaveError(f"frequency_range must have {rule} for {init!r}, got {limits}")
    (low, high), (rows, dim) = limits, shape
    if init == "uniform":
        return torch.empty(shape, device=device).uniform_(low, high)
    if init == "log-uniform":
        return torch.empty(shape, device=device).uniform_(math.log(low), math.log(high)).exp()
    if per_word:
        return torch.full(shape, math.sqrt(low * high), device=device)
    if init == "sinusoidal":
        return sinusoidal(dim, device=device).repeat(rows, 1)
    spaced = torch.logspace(math.log10(high), math.log10(low), dim, device=device)
    return spaced.repeat(rows, 1)


INITIAL_DAMPING = -6.0  # softplus(−6) = 0.0025: a wave keeps 90% of its amplitude over 40 words


class WaveEmbedding(nn.Module):
    """g_j(pos) = r_j · e^{i(ω_j·pos + θ_j)} (Eq. 5): the phase encodes the position.

    The output is an ordinary real tensor, real parts first, for any PyTorch network.

    Args:
        vocab_size: number V of words.
        dim: number D of complex dimensions; the output is 2·D wide.
        share_frequency, share_amplitude, share_phase: `None` for a value per word and dimension,
            `"word"` for one per dimension shared by all words, `"dim"` for one per word.
        phase: learn an initial phase θ.
        damping: learn r₁ ≤ 1 too, the general solution r·r₁^pos·e^{i(ω·pos + θ)} of Claim 1.
            With the frequency it forms the one complex number z₁, so it is shared as ω is.
        padding_idx: the id that embeds to exactly 0 and is never trained, or `None`.
        frequency_init: `"sinusoidal"` (10000^(−k/D)), `"log-spaced"`, `"log-uniform"`, `"uniform"`
            or a tensor that broadcasts to the table.
        frequency_range: (low, high) of the last three kinds.
        vectors: pretrained word vectors (V, D) as amplitudes; by default drawn from N(0, 1).
        freeze_vectors, freeze_frequency: do not train them.
        sparse: row-sparse gradients, for an optimizer that updates only the rows a batch touched.
        device, dtype: of the parameters, as in torch.nn.
    """

    field: Literal["real", "complex"] = "complex"

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        share_frequency: Sharing = None,
        share_amplitude: Sharing = None,
        share_phase: Sharing = None,
        phase: bool = False,
        damping: bool = False,
        padding_idx: int | None = 0,
        frequency_init: FrequencyInit | Tensor = "sinusoidal",
        frequency_range: tuple[float, float] | None = None,
        vectors: Tensor | None = None,
        freeze_vectors: bool = False,
        freeze_frequency: bool = False,
        sparse: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size, dim, padding_idx)
        self.vocab_size, self.dim, self.out_dim = vocab_size, dim, 2 * dim
        self.padding_idx, self.sparse = padding_idx, sparse

        def shape(name: str, share: Sharing) -> tuple[int, int]:
            if share not in (None, "word", "dim"):
                raise WordwaveError(f"{name} must be one of None, 'word', 'dim', got {share!r}")
            return (1 if share == "word" else vocab_size, 1 if share == "dim" else dim)

        amplitude = torch.randn(shape("share_amplitude", share_amplitude), device=device)
        if vectors is not None:
            check_vectors(vectors, tuple(amplitude.shape))
            amplitude = vectors.to(device=device)
        frequency = initial_frequencies(
            shape("share_frequency", share_frequency),
            frequency_init,
            limits=frequency_range,
            per_word=share_frequency == "dim",
            device=device,
        )
        angles = torch.empty(shape("share_phase", share_phase), device=device)
        angles.uniform_(-torch.pi, torch.pi)
        made: dict[str, Any] = {"vocab_size": vocab_size, "padding_idx": padding_idx}
        made |= {"sparse": sparse, "dtype": dtype}
        self.amplitude = Table(amplitude, share=share_amplitude, frozen=freeze_vectors, **made)
        self.frequency = Table(frequency, share=share_frequency, frozen=freeze_frequency, **made)
        self.phase = Table(angles, share=share_phase, **made) if phase else None
        rho = torch.full_like(frequency, INITIAL_DAMPING)
        self.damping = Table(rho, share=share_frequency, **made) if damping else None

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Embed words at positions, by default 1 … L.

        Shape: ids (..., L) integers, positions broadcastable to ids -> (..., L, 2·D)
        """
        check_ids(ids, self.vocab_size)
        position = count_positions(ids, positions)
        if self._is_plain_cpu(ids) and not position.requires_grad:
            phase = None if self.phase is None else self.phase.weight
            tables = (self.amplitude.weight, self.frequency.weight, phase)
            is_short = positions is None and ids.shape[-1] <= SHORT
            short = is_short or (not torch.is_grad_enabled() and _all_near(position))
            return WaveRows.apply(ids, *tables, position, short, self.padding_idx, self.sparse)  # type: ignore[no-untyped-call]
        return self.formula(ids, position)

    def formula(self, ids: Tensor, position: Tensor) -> Tensor:
        """Eq. 5 term by term: what the fast path is tested against, and what graphs trace.

        Shape: ids (..., L), position broadcastable to (..., L, 1) -> (..., L, 2·D)
        """
        angles = angle(self.frequency(ids), position)
        if self.phase is not None:
            angles = angles + self.phase(ids)
        amplitude = self.amplitude(ids)
        if self.damping is not None:
            amplitude = amplitude * self._decay(ids, position)
        if self.padding_idx is not None and not self.amplitude.per_word:
            amplitude = amplitude * (ids != self.padding_idx).unsqueeze(-1)
        amplitude = amplitude.expand(*ids.shape, self.dim)
        return cx.scale(cx.phasor(angles).to(amplitude.dtype), amplitude)

    @property
    def vectors(self) -> nn.Parameter:
        """The amplitudes, a vector for each word at any position. Shape: (V, D) unless shared"""
        return self.amplitude.weight

    @property
    def weight(self) -> Tensor:
        """All words at position 0, r·e^{iθ}: the equivalent of `torch.nn.Embedding.weight`.

        It is computed from the tables, so it has gradients but is not a parameter: an output layer
        can use it, as `F.linear(states, embedding.weight)`, but cannot be tied to it.

        Shape: (V, 2·D)
        """
        words = torch.arange(self.vocab_size, device=self.amplitude.weight.device)
        return self.formula(words, words.new_zeros(1, 1))

    def resize(self, vocab_size: int) -> None:
        """Change the number of words in place: the first rows are kept, new words are drawn with
        the mean and deviation of the existing ones. The tables become new parameters, which an
        existing optimizer does not update."""
        check_sizes(vocab_size, self.dim, self.padding_idx)
        for table in (self.amplitude, self.frequency, self.phase, self.damping):
            if table is not None:
                table.resize(vocab_size)
        self.vocab_size = vocab_size

    def shift(self, ids: Tensor, z: Tensor, n: Tensor | int) -> Tensor:
        """Shift embedded words by n positions (Property 1): w(n)·z, w(n) = (r₁·e^{iω})^n.

        Only z is used, neither the positions nor the amplitudes.

        Shape: ids (..., L), z (..., L, 2·D), n broadcastable to ids -> (..., L, 2·D)
        """
        check_ids(ids, self.vocab_size)
        if z.shape != (*ids.shape, self.out_dim):
            raise WordwaveError(
                f"z must have the shape of ids and a width of {self.out_dim}, "
                f"{(*ids.shape, self.out_dim)}, got {tuple(z.shape)}"
            )
        offset = count_positions(ids, n, name="n")
        witness = cx.phasor(angle(self.frequency(ids), offset)).to(z.dtype)
        if self.damping is not None:
            witness = cx.scale(witness, self._decay(ids, offset))
        return cx.multiply(z, witness)

    @torch.no_grad()
    def sensitivity(self) -> Tensor:
        """δ_j, the mean |ω_j,d| over dimensions (App. D): how sensitive a word is to its position.

        Shape: (V,)
        """
        delta = self.frequency.full().abs().mean(dim=1)
        if self.padding_idx is not None:
            delta = delta.clone()
            delta[self.padding_idx] = 0
        return delta

    @torch.no_grad()
    def period(self) -> Tensor:
        """2π/|ω|: positions until a wave repeats, infinite for ω = 0. Shape: (V, D)"""
        return cx.TURN / self.frequency.full().abs().expand(self.vocab_size, self.dim)

    def _decay(self, ids: Tensor, position: Tensor) -> Tensor:
        """r₁^pos = e^{−softplus(ρ)·pos}, so that r₁ ≤ 1 whatever ρ is."""
        assert self.damping is not None
        damping = self.damping(ids)
        # Positions above 256 are rounded in bfloat16, and infinite above 65,504 in float16.
        wide = torch.promote_types(damping.dtype, torch.float32)
        return torch.exp(-F.softplus(damping.to(wide)) * position.to(wide)).to(damping.dtype)

    def _is_plain_cpu(self, ids: Tensor) -> bool:
        """Whether `WaveRows` applies: full float32 tables, eager, on the CPU, no torch.func."""
        tables = [t for t in (self.amplitude, self.frequency, self.phase) if t is not None]
        return (
            not has_no_values(ids)
            and self.damping is None
            and self.amplitude.bigrams is None
            and all(t.share is None and t.weight.dtype == torch.float32 for t in tables)
        )

    def extra_repr(self) -> str:
        return f"{self.vocab_size}, {self.dim}, padding_idx={self.padding_idx}"


def _all_near(position: Tensor) -> bool:
    """Whether float32 is exact enough for all angles."""
    if position.numel() == 0:
        return True
    low, high = torch.aminmax(position)
    return float(low) >= -SHORT and float(high) <= SHORT


def check_sizes(vocab_size: int, dim: int, padding_idx: int | None) -> None:
    cx.check_at_least_one(vocab_size=vocab_size, dim=dim)
    if padding_idx is not None and (
        not isinstance(padding_idx, Integral) or not 0 <= padding_idx < vocab_size
    ):
        raise WordwaveError(
            f"padding_idx must be None or in [0, {vocab_size}) for vocab_size={vocab_size}, "
            f"got {padding_idx}"
        )


def check_vectors(vectors: Tensor, shape: tuple[int, ...]) -> None:
    cx.check_tensor("vectors", vectors)
    if vectors.shape != shape:
        raise WordwaveError(f"vectors must have shape {shape}, got {tuple(vectors.shape)}")


def check_ids(ids: Tensor, vocab_size: int) -> None:
    """Refuse ids out of range, naming the first one."""
    cx.check_tensor("ids", ids)
    if ids.dtype not in (torch.int64, torch.int32):
        raise WordwaveError(f"ids must be a tensor of int64 or int32, got {ids.dtype}")
    if ids.dim() == 0:
        raise WordwaveError("ids must have at least one dimension (..., L), got a scalar")
    if not has_no_values(ids) and (bad := cx.outside(ids, vocab_size - 1)) is not None:
        where = tuple(int(i) for i in (ids == bad).nonzero()[0])
        raise WordwaveError(f"ids must be in [0, {vocab_size}), got {bad} at index {where}")


def has_no_values(x: Tensor) -> bool:
    """Whether values are symbolic, or on a device that would have to synchronise."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return True
    return torch._C._are_functorch_transforms_active()  # of torch.func


def count_positions(ids: Tensor, positions: Tensor | int | None, name: str = "positions") -> Tensor:
    """Positions as a tensor that broadcasts against (..., L, D): 1, 2, …, L unless given.

    Shape: ids (..., L), positions broadcastable to it -> (..., L, 1)
    """
    if positions is None:
        return torch.arange(1, ids.shape[-1] + 1, device=ids.device).unsqueeze(-1)
    if not isinstance(positions, Tensor | Real | Sequence | np.ndarray):
        raise TypeError(f"{name} must be a tensor or a number, got {type(positions).__name__}")
    positions = torch.as_tensor(positions, device=ids.device)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise WordwaveError(f"{name} must be integers or real numbers, got {positions.dtype}")
    sizes = zip(reversed(positions.shape), reversed(ids.shape), strict=False)
    if positions.dim() > ids.dim() or any(p not in (1, n) for p, n in sizes):
        raise WordwaveError(
            f"{name} must broadcast to the shape of ids {tuple(ids.shape)}, "
            f"got shape {tuple(positions.shape)}"
        )
    return positions.unsqueeze(-1)
