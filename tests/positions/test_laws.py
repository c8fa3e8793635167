"""Each position encoding against its published formula, and the law that characterises it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tolerance import rounding
from wordwave import positions as ww
from wordwave.layers import MultiHeadAttention
from wordwave.positions import POSITIONS
from wordwave.positions.base import total_bias

B, H, L, D = 2, 3, 5, 4
RELATIVE = sorted(set(POSITIONS) - {"fire"})
close = rounding(terms=64, size=16.0, dtype=torch.float64)


def randomised(encoding):
    """In float64, with random parameters in place of those that start at 0."""
    encoding = encoding.double()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return encoding


def heads(n=2, seed=0, length=L):
    torch.manual_seed(seed)
    return [torch.randn(B, H, length, D, dtype=torch.float64) for _ in range(n)]


def scores(encoding, q, k, m, n, visible=None):
    """a_mn of heads at positions m and n."""
    counted = encoding.clock(k, n)
    m, n = (m, n) if counted is None else (counted, counted)
    q, k = encoding.encode_queries(q, m), encoding.encode_keys(k, n)
    a, bias = q @ k.mT / math.sqrt(D), total_bias(encoding, q, k, m, n, visible)
    return a if bias is None else a + bias


def as_complex(x):
    return torch.complex(x[..., : D // 2], x[..., D // 2 :])


def by_pairs(q, k, m, n, term):
    """Σ_c term(q_c, k_c, m, n) / √d for every pair of words, in loops."""
    a = torch.zeros(B, H, L, L, dtype=torch.float64)
    for i in range(L):
        for j in range(L):
            a[..., i, j] = term(q[:, :, i], k[:, :, j], float(m[i]), float(n[j])).real.sum(-1)
    return a / math.sqrt(D)


def frequencies(n):
    return torch.tensor([10_000 ** (-c / n) for c in range(n)], dtype=torch.float64)


AT = torch.tensor([1, 2, 5, 6, 11])


@pytest.mark.parametrize("name", RELATIVE)
@settings(max_examples=15, deadline=None)
@given(offset=st.integers(-2000, 2000), gaps=st.lists(st.integers(1, 40), min_size=L, max_size=L))
def test_scores_depend_on_differences_of_positions(name, offset, gaps):
    encoding, (q, k) = randomised(POSITIONS[name](H, D)), heads()
    at = torch.tensor(gaps).cumsum(0)
    here, there = (scores(encoding, q, k, p, p) for p in (at, at + offset))
    # sinusoidal frequencies are float32, exact; powers of xPos are as large as 1.3^(2000/512).
    assert_close(there, here, rtol=1e-6, atol=1e-6)


def test_frequencies_of_words_make_scores_depend_on_absolute_positions():
    encoding, (q, k) = randomised(ww.WaveAttention(H, D, frequencies=True)), heads()
    assert not torch.allclose(
        scores(encoding, q, k, AT, AT), scores(encoding, q, k, AT + 9, AT + 9)
    )


def test_nope_is_no_encoding():
    q, k = heads()
    assert_close(scores(ww.NoPE(H, D), q, k, AT, AT), q @ k.mT / math.sqrt(D), **close)


def test_p_rope_leaves_the_lowest_frequencies_alone():
    (x,) = heads(1)
    rotated = ww.PRoPE(H, D, p=0.5).rotate(x, AT)
    assert_close(rotated[..., 1::2], x[..., 1::2], **close)  # the second of two frequencies
    assert_close(rotated[..., 0::2], ww.RoPE(H, D).rotate(x, AT)[..., 0::2], **close)
    assert_close(ww.PRoPE(H, D, p=1).rotate(x, AT), ww.RoPE(H, D).rotate(x, AT), **close)
    assert_close(ww.PRoPE(H, D, p=0).rotate(x, AT), x, **close)


def test_xpos_against_complex_numbers():
    q, k = heads()
    zeta = (torch.arange(D // 2) / (D // 2) + 0.4) / 1.4

    def term(x, y, m, n):
        wave = zeta ** ((m - n) / 512) * torch.exp(1j * frequencies(D // 2) * (m - n))
        return as_complex(x) * as_complex(y).conj() * wave

    expected = by_pairs(q, k, AT, AT, term)
    assert_close(scores(ww.XPos(H, D), q, k, AT, AT), expected, rtol=1e-6, atol=1e-6)


@given(near=st.integers(0, 3000), further=st.integers(1, 3000))
def test_xpos_decays_with_distance(near, further):
    encoding, one = ww.XPos(1, D), torch.ones(1, 1, 1, D, dtype=torch.float64)

    def size(distance):
        """The magnitude of each complex component of q·k."""
        return encoding.decay(one, torch.tensor([distance])) * encoding.decay(
            one, torch.tensor([0])
        )

    assert (size(near + further) < size(near)).all() and (size(0) == 1).all()


def test_t5_buckets_are_those_of_transformers():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    bucket = t5.T5Attention._relative_position_bucket
    difference = torch.arange(-400, 401)  # query − key
    ours = ww.T5Bias(H, D, n_buckets=32, max_distance=128).bucket(difference)
    causal = bucket(-difference, bidirectional=False, num_buckets=32, max_distance=128)
    both = bucket(-difference, bidirectional=True, num_buckets=64, max_distance=128)
    assert torch.equal(ours[difference >= 0], causal[difference >= 0])
    assert torch.equal(ours, both)


def test_t5_buckets_hold_one_distance_each_and_then_ever_more():
    found = ww.T5Bias(H, D).bucket(torch.arange(1000)).tolist()
    assert found[:16] == list(range(16)) and found[16:20] == [16, 16, 16, 17]
    assert found == sorted(found) and set(found[128:]) == {31}


def test_t5_bias_is_read_from_the_table():
    encoding = randomised(ww.T5Bias(H, D))
    bias = encoding.bias(AT, AT)
    for i, m in enumerate(AT.tolist()):
        for j, n in enumerate(AT.tolist()):
            assert_close(bias[:, i, j], encoding.table[:, (m - n) if m >= n else 32 + n - m])


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_against_its_formula_and_falls_with_distance(kernel):
    encoding = randomised(ww.KERPLE(H, D, kernel=kernel))
    (p, a), far = encoding.coefficients(), torch.arange(1, 2000, 7)
    assert (p > 0).all() and (a > 0).all() and (kernel == "log" or (a < 2).all())
    for side, sign in ((0, 1), (1, -1)):
        bias = encoding.bias(sign * far[:, None].T, torch.zeros(1, 1))[0, :, :, 0]
        shape = (
            torch.log(1 + a[side][:, None] * far) if kernel == "log" else far ** a[side][:, None]
        )
        assert_close(bias, -p[side][:, None] * shape, **close)
        assert (bias.diff(dim=-1) < 0).all()
    assert (encoding.bias(AT, AT).diagonal(dim1=-2, dim2=-1) == 0).all()


def test_kerple_contains_alibi():
    encoding, alibi = ww.KERPLE(H, D, kernel="power").double(), ww.ALiBi(H, D).double()
    with torch.no_grad():
        encoding.log_r1.copy_(torch.stack([alibi.slopes, alibi.slopes.flip(0)]).log())
        encoding.raw_r2.zero_()
    assert_close(encoding.bias(AT, AT), alibi.bias(AT, AT), **close)


@given(m=st.integers(1, 5000), n=st.integers(1, 5000), step=st.integers(1, 100))
@torch.no_grad()
def test_fire_interpolates_between_0_and_1_and_grows_with_distance(m, n, step):
    encoding = ww.FIRE(H, D, threshold=100.0).double()
    here, there = encoding.argument(torch.tensor([m]), torch.tensor([n, n - step])).flatten()
    assert -1 <= here <= 1 and (here > 0) == (m > n)
    if n <= m:
        assert there > here
        last = max(m, 100)
        expected = math.log(1 + 0.1 * (m - n)) / math.log(1 + 0.1 * last)
        assert here.item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_fire_is_relative_below_its_threshold_and_not_above():
    encoding = ww.FIRE(H, D, threshold=100.0).double()
    assert_close(encoding.bias(AT, AT), encoding.bias(AT + 80, AT + 80), **close)
    assert not torch.allclose(encoding.bias(AT, AT), encoding.bias(AT + 800, AT + 800))


@torch.no_grad()
def test_fire_computes_long_texts_in_parts(monkeypatch):
    encoding = randomised(ww.FIRE(H, D))
    whole = encoding.bias(AT, AT)
    monkeypatch.setattr("wordwave.positions.fire.CHUNK", 7)
    assert_close(encoding.bias(AT, AT), whole, **close)


def test_cope_counts_the_keys_that_a_query_matches():
    """Keys of two kinds: a query that matches the first counts those, and no others."""
    encoding, is_counted = ww.CoPE(1, 2).double(), torch.tensor([1, 0, 1, 1, 0, 1, 0])
    n = len(is_counted)
    keys = torch.where(is_counted[:, None] == 1, 100.0, -100.0).double() * torch.tensor([1.0, 0])
    queries = torch.tensor([100.0, 0]).double().expand(n, 2)
    at = torch.arange(n)
    p, after = encoding.count(queries[None, None], keys[None, None], at, at, None)
    for i in range(n):
        for j in range(n):
            counted = is_counted[j : i + 1] if j <= i else is_counted[i + 1 : j + 1]
            assert float(p[0, 0, i, j]) == pytest.approx(int(counted.sum()), abs=1e-6)
            assert bool(after[..., i, j]) == (j > i)


@pytest.mark.parametrize("causal", [False, True])
def test_cope_against_its_formula(causal):
    encoding, (q, k) = randomised(ww.CoPE(H, D, n_positions=3)), heads()
    visible = torch.ones(L, L, dtype=torch.bool).tril() if causal else None
    bias = encoding.content_bias(q, k, AT, AT, visible)
    gates = torch.sigmoid(q @ k.mT / math.sqrt(D))
    for i in range(L):
        for j in range(i + 1 if causal else L):
            between = slice(j, i + 1) if j <= i else slice(i + 1, j + 1)
            p = gates[:, :, i, between].sum(-1).clamp(max=2)
            table = encoding.vectors[:3] if j <= i else encoding.vectors[3:]
            low, high = table[p.floor().long()], table[p.ceil().long()]
            e = low + (p - p.floor()).unsqueeze(-1) * (high - low)
            assert_close(bias[:, :, i, j], (q[:, :, i] * e).sum(-1), **close)


def softplus(x):
    return torch.log1p(torch.exp(x))


def test_pope_is_the_real_part_of_a_product_of_waves():
    encoding, (q, k) = randomised(ww.PoPE(H, D)), heads()
    omega, delta = frequencies(D), encoding.delta[:, 0]

    def term(x, y, m, n):
        query = softplus(x) * torch.exp(1j * omega * m)
        return query.conj() * (softplus(y) * torch.exp(1j * (omega * n + delta)))

    expected = by_pairs(q, k, AT, AT, term)
    assert_close(scores(encoding, q, k, AT, AT), expected, rtol=1e-6, atol=1e-6)


def test_content_moves_the_best_distance_of_rope_and_not_of_pope():
    """With one component, the distance of the highest score is that of δ, whatever q and k are."""
    at = torch.arange(-30, 31)

    def best(encoding, width, seed):
        torch.manual_seed(seed)
        q, k = torch.randn(2, 1, 1, 1, width, dtype=torch.float64)
        k = k.expand(1, 1, len(at), width)
        here = encoding.encode_queries(q, torch.tensor([0]))
        return int((here @ encoding.encode_keys(k, 0.1 * at).mT).argmax())

    torch.manual_seed(0)
    pope, rope = ww.PoPE(1, 1).double(), ww.RoPE(1, 2)
    assert len({best(pope, 1, seed) for seed in range(8)}) == 1
    assert len({best(rope, 2, seed) for seed in range(8)}) > 4


@pytest.mark.parametrize("of_words", [False, True], ids=["phases", "frequencies"])
def test_wave_attention_is_the_real_part_of_a_product_of_the_papers_waves(of_words):
    encoding, (q, k) = randomised(ww.WaveAttention(H, D, frequencies=of_words)), heads()
    omega, delta = frequencies(D), encoding.delta[:, 0]

    def wave(x, position, a, b):
        theta = torch.einsum("bhd,hde->bhe", x, a)
        rate = 1 + torch.einsum("bhd,hde->bhe", x, b) if of_words else 1
        return softplus(x) * torch.exp(1j * (omega * rate * position + theta))

    def term(x, y, m, n):
        query = wave(x, m, encoding.query_phase, encoding.query_rate)
        key = wave(y, n, encoding.key_phase, encoding.key_rate) * torch.exp(1j * delta)
        return query.conj() * key

    expected = by_pairs(q, k, AT, AT, term)
    assert_close(scores(encoding, q, k, AT, AT), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("of_words", [False, True], ids=["phases", "frequencies"])
def test_wave_attention_starts_as_pope(of_words):
    torch.manual_seed(3)
    wave = ww.WaveAttention(H, D, frequencies=of_words).double()
    torch.manual_seed(3)
    pope, (q, k) = ww.PoPE(H, D).double(), heads()
    assert_close(scores(wave, q, k, AT, AT), scores(pope, q, k, AT, AT), **close)


@pytest.mark.parametrize("at", [AT, torch.stack([AT, AT + 100])], ids=["shared", "by row"])
def test_a_token_clock_is_rope_when_every_word_advances_by_1(at):
    q, k = heads()
    clock, rope = ww.TokenClock(H, D).double(), ww.RoPE(H, D)
    assert_close(clock.clock(k, at), at.double().view(-1, 1, L).expand(B, H, L), **close)
    assert_close(scores(clock, q, k, at, at), scores(rope, q, k, at, at), **close)


def test_a_token_clock_counts_the_words_that_advance_it():
    clock = ww.TokenClock(1, 2).double()
    with torch.no_grad():
        clock.weight.copy_(torch.tensor([[[0.0, -1.0]]]))
    stands_still = torch.tensor([0, 1, 1, 0, 0, 1, 0])
    keys = torch.stack([torch.zeros(7), stands_still], -1).double()[None, None]
    counted = clock.clock(keys, torch.arange(1, 8))
    assert counted.flatten().tolist() == [1, 1, 1, 2, 3, 3, 4]


def test_a_token_clock_that_advances_by_half_a_turn_keeps_parity():
    clock = ww.TokenClock(1, 2).double()
    with torch.no_grad():
        clock.weight.copy_(torch.tensor([[[math.pi, 0.0]]]))
    bits = torch.randint(2, (40,), generator=torch.Generator().manual_seed(0))
    keys = torch.stack([bits, torch.zeros(40)], -1).double() - torch.tensor([1 / math.pi, 0])
    counted = clock.clock(keys[None, None], torch.arange(40))
    one = torch.ones(1, 1, 40, 2, dtype=torch.float64)
    turned = clock.rotate(one, counted)[..., 0]
    first = clock.rotate(one, torch.full((1, 1, 40), -1.0))[..., 0]  # the clock's start
    parity = 1.0 - 2 * (bits.cumsum(0) % 2).double()
    assert_close((turned / first).flatten(), parity, rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_rotated_values_leave_the_output_relative():
    encoding, (q, k, v) = ww.RoPE(H, D, values=True), heads(3)
    here, there = (encoding(q, k, v, positions=p) for p in (AT, AT + 500))
    assert_close(here, there, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(here, ww.RoPE(H, D)(q, k, v, positions=AT))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_a_module_alone_is_the_attention_of_a_layer(name, causal):
    layer = MultiHeadAttention(H * D, H, field="real", score="real", position=name).double()
    randomised(layer.position)
    x = torch.randn(B, L, H * D, dtype=torch.float64)
    parts = [
        linear(x).view(B, L, H, D).transpose(1, 2)
        for linear in (layer.to_query, layer.to_key, layer.to_value)
    ]
    y = layer.position(*parts, positions=AT, causal=causal)
    y = layer.to_out(y.transpose(1, 2).flatten(2))
    assert_close(y, layer(x, positions=AT, causal=causal), **close)


BAD = {
    "heads": (lambda: ww.RoPE(0, 4), r"n_heads must be at least 1, got 0"),
    "odd": (lambda: ww.TokenClock(2, 3), r"TokenClock needs an even width per head, got 3"),
    "base": (lambda: ww.PoPE(2, 4, base=1), r"base must be a finite number above 1, got 1"),
    "p": (lambda: ww.PRoPE(2, 4, p=2), r"p must be from 0 to 1, got 2"),
    "scale": (lambda: ww.XPos(2, 4, scale_base=0), r"scale_base must be .* above 0, got 0"),
    "buckets": (lambda: ww.T5Bias(2, 4, n_buckets=5), r"n_buckets must be an even .*, got 5"),
    "distance": (lambda: ww.T5Bias(2, 4, max_distance=8), r"max_distance must be .* above 16"),
    "kernel": (lambda: ww.KERPLE(2, 4, kernel="lg"), r"kernel must be one of log, power, got 'lg'"),
    "hidden": (lambda: ww.FIRE(2, 4, hidden=0), r"hidden must be at least 1, got 0"),
    "threshold": (lambda: ww.FIRE(2, 4, threshold=-1.0), r"threshold must be .* above 0, got -1"),
    "vectors": (lambda: ww.CoPE(2, 4, n_positions=0), r"n_positions must be at least 1, got 0"),
    "range": (lambda: ww.PoPE(2, 4, phase_range=math.nan), r"phase_range must be .*, got nan"),
    "dtype": (lambda: ww.CoPE(2, 4, dtype=torch.int64), r"dtype must be a real floating-point one"),
    "far": (lambda: attend(ww.XPos(1, 2), 10**5), r"within ±30,000, got"),
    "shape": (lambda: ww.PoPE(2, 4)(*[torch.ones(1, 2, 3, 5)] * 3), r"queries .*\(B, 2, L, 4\)"),
    "places": (lambda: attend(ww.RoPE(1, 2), 1, 9), r"positions must be of shape \(3,\)"),
}


def attend(encoding, first, n=3):
    return encoding(*[torch.ones(1, 1, 3, 2)] * 3, positions=torch.arange(n) + first)


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_give_one_clear_error(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_types_that_are_no_numbers_are_named():
    with pytest.raises(TypeError, match="base must be a number, got '10'"):
        ww.RoPE(2, 4, base="10")
    with pytest.raises(TypeError, match="must be a PositionEncoding, got Linear"):
        MultiHeadAttention(8, 2, field="real", position=torch.nn.Linear)
