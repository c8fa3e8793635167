"""The laws of a wave (Properties 1 and 2, Claim 1), for every way of sharing its parameters."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from wordwave import WaveEmbedding
from wordwave import complex as cx

SHARES = (None, "word", "dim")
SHARINGS = list(itertools.product(SHARES, repeat=3))
V, D = 6, 3

seeds = st.integers(0, 10**6)
switches = st.booleans()
# Quarters are exact in float32, so that p + n is the position it says.
whole = st.integers(0, 10**6)
quarters = st.integers(0, 4 * 10**5).map(lambda k: k / 4)
positions = whole | quarters
offsets = st.integers(-(10**5), 10**5) | st.integers(-(10**5), 10**5).map(lambda k: k / 4)
near = st.integers(0, 1000) | st.integers(0, 4000).map(lambda k: k / 4)
near_offsets = st.integers(-200, 200) | st.integers(-800, 800).map(lambda k: k / 4)

close = {"rtol": 1e-4, "atol": 2e-5}
for_each_sharing = pytest.mark.parametrize(("frequency", "amplitude", "phase"), SHARINGS)


def build(seed, sharing=(None, None, None), **options):
    torch.manual_seed(seed)
    emb = WaveEmbedding(
        V,
        D,
        share_frequency=sharing[0],
        share_amplitude=sharing[1],
        share_phase=sharing[2],
        frequency_init="uniform",
        frequency_range=(-3.2, 3.2),
        **options,
    )
    if emb.damping is not None:
        emb.damping.weight.data.uniform_(-7, -4)
    return emb, torch.randint(V, (2, 4))


def places(ids, first):
    return torch.arange(ids.shape[-1]) + first


@for_each_sharing
@settings(max_examples=15)
@given(seeds, switches, positions, offsets)
def test_offset_law(frequency, amplitude, phase, seed, with_phase, p, n):
    emb, ids = build(seed, (frequency, amplitude, phase), phase=with_phase)
    at = places(ids, p)
    moved = emb.shift(ids, emb(ids, positions=at), n)
    assert_close(moved, emb(ids, positions=at + n), **close)


@for_each_sharing
@settings(max_examples=15)
@given(seeds, switches, near, near_offsets)
def test_offset_law_with_damping(frequency, amplitude, phase, seed, with_phase, p, n):
    emb, ids = build(seed, (frequency, amplitude, phase), phase=with_phase, damping=True)
    at = places(ids, p)
    moved = emb.shift(ids, emb(ids, positions=at), n)
    assert_close(moved, emb(ids, positions=at + n), **close)


@given(seeds, st.sampled_from(SHARINGS), switches, near, near_offsets, near_offsets)
def test_shifts_compose(seed, sharing, damping, p, a, b):
    emb, ids = build(seed, sharing, damping=damping)
    z = emb(ids, positions=places(ids, p))
    assert_close(emb.shift(ids, emb.shift(ids, z, b), a), emb.shift(ids, z, a + b), **close)
    assert_close(emb.shift(ids, z, 0), z)


@given(seeds, st.sampled_from(SHARINGS), st.lists(near_offsets, min_size=4, max_size=4))
def test_every_word_may_move_by_its_own_offset(seed, sharing, steps):
    emb, ids = build(seed, sharing)
    n = torch.tensor(steps, dtype=torch.float32)
    at = places(ids, 300)
    assert_close(emb.shift(ids, emb(ids, at), n), emb(ids, at + n), **close)


@given(seeds, st.sampled_from(SHARINGS), switches, positions)
def test_modulus_is_the_amplitude_at_every_position(seed, sharing, with_phase, p):
    emb, ids = build(seed, sharing, phase=with_phase)
    r = emb.amplitude.weight.expand(V, D)[ids].abs()
    r = r * (ids != emb.padding_idx).unsqueeze(-1)
    assert_close(cx.magnitude(emb(ids, positions=p)), r, rtol=1e-5, atol=1e-6)


@given(seeds, st.sampled_from(SHARINGS), switches, positions)
def test_damped_modulus_never_exceeds_the_amplitude(seed, sharing, with_phase, p):
    emb, ids = build(seed, sharing, phase=with_phase, damping=True)
    emb.damping.weight.data.normal_(0, 20)  # whatever it learns
    r = emb.amplitude.weight.expand(V, D)[ids].abs()
    assert (cx.magnitude(emb(ids, positions=p)) <= r * (1 + 1e-5)).all()


@given(seeds, st.sampled_from(SHARINGS), switches, switches)
def test_a_million_words_on_it_is_bounded_and_finite(seed, sharing, with_phase, damping):
    emb, ids = build(seed, sharing, phase=with_phase, damping=damping)
    z = emb(ids, positions=places(ids, 10**6))
    assert z.isfinite().all()
    assert z.abs().max() <= emb.amplitude.weight.abs().max() * (1 + 1e-5)


@given(seeds, st.sampled_from(SHARINGS), switches, switches, near)
def test_embedding_is_its_definition(oracle, seed, sharing, with_phase, damping, p):
    emb, ids = build(seed, sharing, phase=with_phase, damping=damping)
    at = places(ids, p)
    assert_close(oracle.native(emb(ids, positions=at)), oracle.wave(emb, ids, at), **close)


@given(seeds, st.sampled_from(SHARES), st.sampled_from(SHARES), near)
def test_word_shared_waves_meet_in_a_function_of_their_distance(seed, amplitude, phase, p):
    """Only where all words turn alike does g_j(m)·conj(g_k(n)) depend on m − n alone."""
    emb, ids = build(seed, ("word", amplitude, phase), phase=True)
    j, k = ids[0], ids[1]

    def meeting(m, n):
        return cx.multiply(emb(j, positions=m), cx.conj(emb(k, positions=n)))

    assert_close(meeting(p + 7, p), meeting(7, 0), rtol=1e-3, atol=1e-4)


@given(seeds, positions)
def test_a_word_of_frequency_zero_does_not_care_where_it_stands(seed, p):
    emb, ids = build(seed)
    emb.frequency.weight.data.zero_()
    assert torch.equal(emb(ids, positions=p), emb(ids, positions=0))


@given(seeds, st.integers(1, 50), st.integers(0, 100))
def test_a_wave_repeats_after_its_period(seed, period, p):
    emb, ids = build(seed)
    emb.frequency.weight.data.fill_(cx.TURN / period)
    assert_close(emb.period(), torch.full((V, D), float(period)))
    assert_close(emb(ids, positions=p + period), emb(ids, positions=p), rtol=1e-3, atol=1e-4)
