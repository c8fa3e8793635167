"""WaveEmbedding, the paper's complex-order embedding (Eq. 5), and its checks."""

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
from wordwave.embedding.table import Table, normal
from wordwave.errors import WordwaveError


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
    (low, high), dim = limits, shape[1]
    if init == "uniform":
        return torch.empty(shape, device=device).uniform_(low, high)
    if init == "log-uniform":
        return torch.empty(shape, device=device).uniform_(math.log(low), math.log(high)).exp()
    if per_word:
        return torch.full(shape, math.sqrt(low * high), device=device)
    if init == "sinusoidal":
        return torch.empty(shape, device=device).copy_(sinusoidal(dim, device=device))
    spaced = torch.logspace(math.log10(high), math.log10(low), dim, device=device)
    return torch.empty(shape, device=device).copy_(spaced)


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

        amplitude = normal(*shape("share_amplitude", share_amplitude), device)
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
        rho = torch.full(frequency.shape, INITIAL_DAMPING, device=frequency.device)
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
        words = torch.arange(self.vocab_size, device=self.amplitude.weight.device).unsqueeze(1)
        return self.formula(words, words.new_zeros(1, 1)).squeeze(1)

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
