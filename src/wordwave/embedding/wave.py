"""The wave embedding of Wang et al. (ICLR 2020): a word is a wave over positions."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.embedding.frequency import FrequencyInit, initial_frequencies
from wordwave.embedding.inputs import (
    Device,
    check_ids,
    check_sizes,
    count_positions,
    has_no_values,
    is_word,
)
from wordwave.embedding.kernel import SHORT, wave_rows
from wordwave.embedding.table import Share, Table, check_share

STARTING_DAMPING = -6.0  # softplus(−6) = 0.0025: a wave keeps 90% of its height over 40 words


class WaveEmbedding(nn.Module):
    """g_j(pos) = r_j · e^{i(ω_j·pos + θ_j)} (Eq. 5): amplitude is meaning, phase is place.

    The output is an ordinary real tensor, real parts first, so it goes into any network as it is.

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
        freeze_vectors, freeze_frequency: keep these as they start.
        sparse: row-sparse gradients, for an optimiser that updates only the rows a batch touched.
        device, dtype: of the parameters, as in torch.nn.
    """

    field: Literal["real", "complex"] = "complex"

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        share_frequency: Share = None,
        share_amplitude: Share = None,
        share_phase: Share = None,
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

        def table(values: Tensor, share: Share, *, frozen: bool = False) -> Table:
            return Table(
                values,
                vocab_size=vocab_size,
                share=share,
                padding_idx=padding_idx,
                sparse=sparse,
                frozen=frozen,
                dtype=dtype,
            )

        def shape(name: str, share: Share) -> tuple[int, int]:
            check_share(name, share)
            return Table.shape(vocab_size, dim, share)

        amplitude = torch.randn(shape("share_amplitude", share_amplitude), device=device)
        if vectors is not None:
            amplitude = _check_vectors(vectors, amplitude.shape).to(device=device)
        frequency = initial_frequencies(
            shape("share_frequency", share_frequency),
            frequency_init,
            limits=frequency_range,
            per_word=share_frequency == "dim",
            device=device,
        )
        angles = torch.empty(shape("share_phase", share_phase), device=device)
        angles.uniform_(-torch.pi, torch.pi)
        self.amplitude = table(amplitude, share_amplitude, frozen=freeze_vectors)
        self.frequency = table(frequency, share_frequency, frozen=freeze_frequency)
        self.phase = table(angles, share_phase) if phase else None
        self.damping = (
            table(torch.full_like(frequency, STARTING_DAMPING), share_frequency)
            if damping
            else None
        )

    def forward(self, ids: Tensor, positions: Tensor | int | None = None) -> Tensor:
        """Embed words at positions, by default 1 … L.

        Shape: ids (..., L) integers, positions broadcastable to ids -> (..., L, 2·D)
        """
        check_ids(ids, self.vocab_size)
        position = count_positions(ids, positions)
        if self._is_plain_cpu(ids) and not position.requires_grad:
            return wave_rows(
                ids,
                self.amplitude.weight,
                self.frequency.weight,
                None if self.phase is None else self.phase.weight,
                position,
                short=(positions is None and ids.shape[-1] <= SHORT)
                or (not torch.is_grad_enabled() and _all_near(position)),
                padding_idx=self.padding_idx,
                sparse=self.sparse,
            )
        return self.formula(ids, position)

    def formula(self, ids: Tensor, position: Tensor) -> Tensor:
        """The definition, term by term: what the fast path is tested against and graphs trace.

        Shape: ids (..., L), position broadcastable to (..., L, 1) -> (..., L, 2·D)
        """
        turning = angle(self.frequency(ids), position)
        if self.phase is not None:
            turning = turning + self.phase(ids)
        amplitude = self.amplitude(ids)
        if self.damping is not None:
            amplitude = amplitude * self._decay(ids, position)
        word = is_word(ids, self.padding_idx)
        if word is not None and not self.amplitude.per_word:
            amplitude = amplitude * word
        amplitude = amplitude.expand(*ids.shape, self.dim)
        return cx.scale(cx.phasor(turning).to(amplitude.dtype), amplitude)

    @property
    def meaning(self) -> nn.Parameter:
        """The numbers that carry meaning whatever the place: amplitudes."""
        return self.amplitude.weight

    @property
    def weight(self) -> Tensor:
        """All words at position 0, r·e^{iθ}: what `weight` of a torch.nn.Embedding is.

        It is computed from the tables, so it has gradients but is no parameter: an output layer can
        use it, as `F.linear(states, embedding.weight)`, and cannot be tied to it.

        Shape: (V, 2·D)
        """
        words = torch.arange(self.vocab_size, device=self.amplitude.weight.device)
        return self.formula(words, words.new_zeros(1, 1))

    def resize(self, vocab_size: int) -> None:
        """Change the number of words in place: the first rows stay, new words are drawn as spread
        as those that are there. The tables are new parameters, which an optimiser must be told."""
        check_sizes(vocab_size, self.dim, self.padding_idx)
        for table in (self.amplitude, self.frequency, self.phase, self.damping):
            if table is not None:
                table.resize(vocab_size)
        self.vocab_size = vocab_size

    def shift(self, ids: Tensor, z: Tensor, n: Tensor | int) -> Tensor:
        """Move embedded words by n places (Property 1): w(n)·z, w(n) = (r₁·e^{iω})^n.

        Neither the position nor the amplitude is looked at: z alone carries them.

        Shape: ids (..., L), z (..., L, 2·D), n broadcastable to ids -> (..., L, 2·D)
        """
        check_ids(ids, self.vocab_size)
        if z.shape != (*ids.shape, self.out_dim):
            raise ValueError(
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
        """δ_j, the mean |ω_j,d| over dimensions (App. D): how much a word cares where it stands.

        Shape: (V,)
        """
        delta = self.frequency.full().abs().mean(dim=1)
        if self.padding_idx is not None:
            delta = delta.clone()
            delta[self.padding_idx] = 0
        return delta

    @torch.no_grad()
    def period(self) -> Tensor:
        """2π/|ω|: after how many places a wave repeats, infinite for ω = 0. Shape: (V, D)"""
        return cx.TURN / self.frequency.full().abs().expand(self.vocab_size, self.dim)

    def _decay(self, ids: Tensor, position: Tensor) -> Tensor:
        """r₁^pos = e^{−softplus(ρ)·pos}, so that r₁ ≤ 1 whatever ρ is."""
        assert self.damping is not None
        damping = self.damping(ids)
        # Positions beyond 256 are not whole in bfloat16, nor beyond 65,504 finite in float16.
        wide = torch.promote_types(damping.dtype, torch.float32)
        return torch.exp(-F.softplus(damping.to(wide)) * position.to(wide)).to(damping.dtype)

    def _is_plain_cpu(self, ids: Tensor) -> bool:
        """Whether `wave_rows` serves: full tables in float32, eager, on the CPU, no torch.func."""
        tables = [t for t in (self.amplitude, self.frequency, self.phase) if t is not None]
        return (
            not has_no_values(ids)
            and self.damping is None
            and all(t.share is None and t.weight.dtype == torch.float32 for t in tables)
        )

    def extra_repr(self) -> str:
        return f"{self.vocab_size}, {self.dim}, padding_idx={self.padding_idx}"


def _all_near(position: Tensor) -> bool:
    """Whether float32 is exact enough for every angle."""
    if position.numel() == 0:
        return True
    low, high = torch.aminmax(position)
    return float(low) >= -SHORT and float(high) <= SHORT


def _check_vectors(vectors: Tensor, shape: torch.Size) -> Tensor:
    cx.check_tensor("vectors", vectors)
    if vectors.shape != shape:
        raise ValueError(
            f"vectors must have the shape of the amplitude table {tuple(shape)}, "
            f"got {tuple(vectors.shape)}"
        )
    return vectors
