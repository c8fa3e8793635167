"""The angle ω·pos is right to 1e-4 at any position, in any mode: where float32 would be lost."""

import math
from contextlib import nullcontext

import pytest
import torch

from wordwave import WaveEmbedding, build_embedding
from wordwave.embedding.wave import count_positions

V, D = 200, 32
FAR = (257, 65_537, 1_000_000)
MODES = {
    "float32": nullcontext,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}

for_each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
for_each_kind = pytest.mark.parametrize(
    "options",
    [
        {},
        {"phase": True},
        {"share_frequency": "word"},
        {"share_frequency": "dim"},
        {"share_frequency": "word", "phase": True, "share_phase": "dim"},
    ],
    ids=str,
)


def build(**options):
    torch.manual_seed(3)
    return WaveEmbedding(
        V,
        D,
        padding_idx=None,
        frequency_init="uniform",
        frequency_range=(-2 * math.pi, 2 * math.pi),
        **options,
    )


def error(oracle, emb, z, ids, positions):
    """The largest error of a component, as a share of its amplitude."""
    assert z.dtype == torch.float32
    exact = oracle.halves(oracle.wave(emb, ids, positions))
    r = emb.amplitude.weight.detach().double().expand(V, D)[ids].abs().repeat(1, 1, 2)
    return ((z.detach().double() - exact).abs() / r).max().item()


@for_each_mode
@for_each_kind
@pytest.mark.parametrize("position", FAR)
def test_far_positions(oracle, mode, options, position):
    emb, ids = build(**options), torch.arange(V).unsqueeze(0)
    with mode():
        z = emb(ids, positions=position)
        formula = emb.formula(ids, count_positions(ids, position))
        shifted = emb.shift(ids, emb(ids, positions=0), position)
    for result in (z, formula, shifted):
        assert error(oracle, emb, result, ids, position) < 1e-4


@for_each_mode
@for_each_kind
@pytest.mark.parametrize("length", [128, 129, 256, 257])
def test_every_place_of_a_sentence(oracle, mode, options, length):
    emb = build(**options)
    ids = torch.arange(60).unsqueeze(1).expand(60, length)
    with mode():
        z = emb(ids)
    assert error(oracle, emb, z, ids, None) < 1e-4


@for_each_kind
def test_gradients_at_far_positions(oracle, options):
    """d Re z / dω = −pos·Im z, to the precision of z itself."""
    emb, ids = build(**options), torch.arange(V).unsqueeze(0)
    z = emb(ids, positions=1_000_000)
    z[..., :D].sum().backward()
    exact = -1e6 * oracle.wave(emb, ids, 1_000_000).imag[0]
    shape = emb.frequency.weight.shape
    exact = exact.sum_to_size(shape)
    n_summed = V * D / emb.frequency.weight.numel()
    assert (emb.frequency.weight.grad - exact).abs().max() < 1e6 * 1e-4 * 4 * n_summed


@for_each_mode
@pytest.mark.parametrize("position", [1, *FAR])
def test_sinusoidal_positions(mode, position):
    emb = build_embedding("tpe", 3, 64)
    emb.words.weight.data.zero_()
    ids = torch.tensor([[1]])
    with mode():
        added = emb(ids, positions=position)[0, 0]
    angle = emb.frequencies.double() * position
    exact = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten()
    assert (added.double() - exact).abs().max() < 1e-4


@for_each_kind
def test_float64_stays_float64(oracle, options):
    emb, ids = build(**options).double(), torch.arange(V).unsqueeze(0)
    z = emb(ids, positions=1_000_000)
    assert z.dtype == torch.float64
    exact = oracle.halves(oracle.wave(emb, ids, 1_000_000))
    assert (z - exact).abs().max() < 1e-7


def test_bfloat16_tables_lose_no_more_than_their_own_rounding(oracle):
    emb, ids = build().bfloat16(), torch.arange(V).unsqueeze(0)
    z = emb(ids, positions=1_000_000)
    exact = oracle.halves(oracle.wave(emb, ids, 1_000_000))
    r = emb.amplitude.weight.detach().double()[ids].abs().repeat(1, 1, 2)
    assert z.dtype == torch.bfloat16
    assert ((z.double() - exact).abs() / r).max() < 2**-7
