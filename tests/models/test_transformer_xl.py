"""Transformer-XL: its attention is the formula, and a memory equals the text itself."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.config_io import with_settings
from wordwave.layers import KVCache, MultiHeadAttention, RelativeAttention
from wordwave.models.config import TransformerXLConfig
from wordwave.models.transformer_xl import TransformerXL, positions_in_words

V = 11
REAL = with_settings(
    TransformerXLConfig(),
    embedding="none",
    dim=16,
    n_layers=2,
    n_heads=2,
    feed_forward_dim=20,
    segment_length=5,
    memory_length=100,
    eval_memory_length=100,
)
WAVES = with_settings(REAL, embedding="complex-order", dim=12)
LETTERS = torch.arange(V) > 3
KINDS = {
    "real": REAL,
    "real, norm after": replace(REAL, norm_first=False),
    "real, clamp_len": replace(REAL, clamp_len=3),
    "rope": replace(REAL, position="rope"),
    "t5": replace(REAL, position="t5"),
    "cope": replace(REAL, position="cope"),
    "pope": replace(REAL, position="pope"),
    "token-clock": replace(REAL, position="token-clock"),
    "complex-vanilla": with_settings(WAVES, embedding="complex-vanilla"),
    "tpe": with_settings(REAL, embedding="tpe"),
    "complex-order": WAVES,
    "complex-order, segment": replace(WAVES, wave_positions="segment"),
    "complex-order, real hidden units": replace(WAVES, share="real", hidden_units="real"),
    "complex-order, running": replace(WAVES, wave_positions="running"),
    "complex-order, magnitudes": replace(WAVES, score="magnitude", readout="magnitude"),
    "complex-order, norm after": replace(WAVES, norm_first=False, tied=False),
    "complex-order, no distances": replace(WAVES, position="none", score="magnitude"),
}


def built(oracle, config):
    return oracle.randomise(TransformerXL(config, V, LETTERS), 0.3).double().eval()


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def config(request):
    return request.param


@pytest.mark.parametrize("score", ["real", "magnitude"])
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(("clamp_len", "window"), [(0, None), (4, 3)])
def test_relative_attention_is_the_formula(oracle, field, score, clamp_len, window):
    D, H, L, K = 8, 2, 4, 9
    attention = RelativeAttention(D, H, field=field, score=score, clamp_len=clamp_len)
    oracle.randomise(attention).double()
    parts, d = 2 if field == "complex" else 1, D // H
    whole = torch.randn(2, K, parts * D).double()
    cache = attention.project_kv(whole)
    y = attention.attend(whole[:, -L:], cache, causal=True, window=window)

    def numbers(x):  # complex numbers, or real ones as such
        return oracle.native(x) if field == "complex" else x.to(torch.complex128)

    def weight(linear):
        if field == "complex":
            return oracle.weight(linear.weight)
        return linear.weight.a.detach().to(torch.complex128)

    W_q, W_k, W_v, W_r, W_o = (
        weight(getattr(attention, f"to_{name}"))
        for name in ("query", "key", "value", "distance", "out")
    )
    u, v = (numbers(p.detach()).squeeze(1) for p in (attention.u, attention.v))
    x = numbers(whole)
    n = parts * D // 2
    omega = 10_000.0 ** (-torch.arange(n).double() / n)
    expected = torch.zeros(2, L, D, dtype=torch.complex128)
    for b in range(2):
        for row, i in enumerate(range(K - L, K)):
            heads = []
            for h in range(H):
                cut = slice(h * d, (h + 1) * d)
                q = (W_q @ x[b, i])[cut]
                seen = [j for j in range(i + 1) if window is None or i - j <= window]
                scores = []
                for j in seen:
                    distance = min(i - j, clamp_len) if clamp_len else i - j
                    R = torch.cat([(omega * distance).cos(), (omega * distance).sin()])
                    k, r = (W_k @ x[b, j])[cut].conj(), (W_r @ numbers(R))[cut].conj()
                    z = q @ k + q @ r + u[h] @ k + v[h] @ r  # (a) + (b) + (c) + (d)
                    by_magnitude = field == "complex" and score == "magnitude"
                    scores.append((z.abs() if by_magnitude else z.real) / d**0.5)
                weights = torch.stack(scores).softmax(0)
                values = torch.stack([(W_v @ x[b, j])[cut] for j in seen])
                heads.append((weights.to(values.dtype).unsqueeze(1) * values).sum(0))
            expected[b, row] = W_o @ torch.cat(heads)
    torch.testing.assert_close(numbers(y.detach()), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("score", ["real", "magnitude"])
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("length", [1, 3])
def test_relative_attention_passes_gradcheck(oracle, field, score, length):
    attention = RelativeAttention(4, 2, field=field, score=score)
    oracle.randomise(attention).double()
    x = torch.randn(2, 5, 8 if field == "complex" else 4).double().requires_grad_()

    def attend(x):
        cache = attention.project_kv(x)
        return attention.attend(x[:, -length:], cache, causal=True, window=2)

    assert torch.autograd.gradcheck(attend, x)
    with torch.no_grad():
        alone = attend(x)
    torch.testing.assert_close(alone, attend(x).detach())
    assert attend(x[:0]).shape == (0, length, x.shape[-1])


def test_memory_over_segments_is_one_long_pass(oracle, config):
    model = built(oracle, config)
    ids = torch.randint(V, (2, 23))
    whole, _ = model(ids)
    states, parts, offset = None, [], 0
    for part in ids.split(config.segment_length, dim=1):
        logits, states = model(part, states, offset)
        parts.append(logits)
        offset = model.next_offset(part, offset)
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    assert states.shape[2] == 23 and not states.requires_grad


@pytest.mark.parametrize("cuts", [[23], [1] * 23, [7, 1, 9, 6]])
def test_cached_passes_equal_one_long_pass(oracle, config, cuts):
    model = built(oracle, config)
    ids = torch.randint(V, (2, 23))
    whole, _ = model(ids)
    past, parts = None, []
    for part in ids.split(cuts, dim=1):
        logits, past = model.forward_cached(part, past)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole.detach())


@pytest.mark.parametrize("memory_length", [0, 1, 4])
def test_with_a_short_memory_cuts_make_no_difference_either(oracle, config, memory_length):
    model = built(oracle, config)
    ids = torch.randint(V, (2, 23))
    passes = []
    for cuts in ([23], [1] * 23, [7, 1, 9, 6]):
        past, parts = None, []
        for part in ids.split(cuts, dim=1):
            logits, past = model.forward_cached(part, past, memory_length=memory_length)
            parts.append(logits)
        assert all(cache.n_keys == min(memory_length, 23) for cache in past.caches)
        passes.append(torch.cat(parts, 1))
    torch.testing.assert_close(passes[1], passes[0])
    torch.testing.assert_close(passes[2], passes[0])
    # Through two layers a character affects those up to two memories after it.
    ids[:, 5] = 4  # a letter, and then another one: positions after it stay the same
    before, _ = model.forward_cached(ids, memory_length=memory_length)
    changed = ids.clone()
    changed[:, 5] = 5
    after, _ = model.forward_cached(changed, memory_length=memory_length)
    # A token clock is set differently for all that follows, which changes the rounding.
    differs = ~torch.isclose(after, before, rtol=1e-9, atol=1e-9)
    affected = differs.any(-1).any(0).nonzero().flatten().tolist()
    assert min(affected) == 5 and max(affected) <= 5 + 2 * memory_length


def test_logits_do_not_depend_on_what_follows(oracle, config):
    model = built(oracle, config)
    ids = torch.randint(V, (2, 12))
    before, _ = model(ids)
    changed = torch.cat([ids[:, :7], (ids[:, 7:] + 1) % V], dim=1)
    after, _ = model(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] != after[:, 7:]).any()


def test_memory_in_training_has_the_set_length_and_no_gradient(oracle):
    model = built(oracle, replace(WAVES, memory_length=4)).train()
    ids = torch.randint(V, (3, 10))
    _, states = model(ids[:, :5])
    assert states.shape == (2, 3, 4, 24)
    logits, states = model(ids[:, 5:], states, model.next_offset(ids[:, :5]))
    logits.sum().backward()
    assert states.shape == (2, 3, 4, 24)
    assert all(p.grad is not None for p in model.parameters())


def test_bf16_is_close_and_keeps_its_memory_in_fp32(config):
    model = TransformerXL(config, V, LETTERS).eval()
    ids = torch.randint(V, (2, 10))
    exact, _ = model(ids)
    with torch.autocast("cpu", torch.bfloat16):
        _, states = model(ids[:, :5])
        logits, _ = model(ids[:, 5:], states, model.next_offset(ids[:, :5]))
    assert states.dtype == torch.float32
    torch.testing.assert_close(logits.float(), exact[:, 5:], rtol=0.1, atol=0.1)


def test_wave_positions_restart_with_each_segment_or_continue(oracle):
    ids = torch.zeros(1, 10, dtype=torch.long)
    segment, running = (
        built(oracle, replace(WAVES, wave_positions=kind)) for kind in ("segment", "running")
    )
    (there, _), (on, _) = (
        segment.forward_cached(ids, memory_length=0),
        running.forward_cached(ids, memory_length=0),
    )
    torch.testing.assert_close(there[:, :5], there[:, 5:])
    assert not torch.allclose(on[:, :5], on[:, 5:], atol=1e-3)
    wrapped = built(oracle, replace(WAVES, wave_positions="running", max_wave_position=5))
    again, _ = wrapped.forward_cached(ids, memory_length=0)
    torch.testing.assert_close(again[:, :5], again[:, 5:])


def test_waves_count_within_words(oracle):
    letters = torch.tensor([[1, 1, 0, 0, 1, 1, 1, 0, 1]], dtype=torch.bool)
    assert positions_in_words(letters, 0).tolist() == [[1, 2, 3, 1, 1, 2, 3, 4, 1]]
    assert positions_in_words(letters, torch.tensor([[5]])).tolist() == [
        [6, 7, 8, 1, 1, 2, 3, 4, 1]
    ]

    model = built(oracle, WAVES)
    ids = torch.tensor([[5, 6, 0, 5, 6, 1, 1, 5, 6]])
    assert model.next_offset(ids).tolist() == [[2]] and model.next_offset(ids[:, :3]).tolist() == [
        [0]
    ]
    # Without a memory only positions tell words apart.
    logits, _ = model.forward_cached(ids, memory_length=0)
    torch.testing.assert_close(logits[:, 3:5], logits[:, :2])
    torch.testing.assert_close(logits[:, 7:], logits[:, :2])
    assert not torch.allclose(logits[:, 5], logits[:, 6], atol=1e-3)

    stays = built(oracle, replace(WAVES, max_wave_position=2))
    long, _ = stays.forward_cached(torch.full((1, 6), 5), memory_length=0)
    assert not torch.allclose(long[:, 0], long[:, 1], atol=1e-3)
    torch.testing.assert_close(long[:, 2:], long[:, 1:2].expand(-1, 4, -1))


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 5), st.integers(0, 30))
def test_positions_in_words_continue_wherever_a_text_is_cut(letters, before, cut):
    def count(letters):
        places, n = [], before
        for is_letter in letters:
            places.append(n + 1)
            n = n + 1 if is_letter else 0
        return places

    text = torch.tensor([letters])
    whole = positions_in_words(text, before)
    assert whole.tolist() == [count(letters)]
    cut = min(cut, len(letters) - 1)
    if cut:
        first = positions_in_words(text[:, :cut], before)
        n = torch.where(text[:, cut - 1 : cut], first[:, -1:], 0)
        assert torch.equal(positions_in_words(text[:, cut:], n), whole[:, cut:])


def test_positions_within_words_need_letters():
    with pytest.raises(ValueError, match=r"need letters \(11,\), got None"):
        TransformerXL(WAVES, V)
    with pytest.raises(ValueError, match=r"need letters \(11,\), got \(3,\)"):
        TransformerXL(WAVES, V, LETTERS[:3])
    assert TransformerXL(replace(WAVES, wave_positions="segment"), V).counter.letters is None


def test_streams_with_their_own_offsets_are_independent(oracle):
    model = built(oracle, replace(WAVES, wave_positions="running", max_wave_position=7))
    ids, places = torch.randint(V, (2, 5)), torch.tensor([[3], [20]])
    together, _ = model(ids, None, places)
    for i, place in enumerate([3, 20]):
        torch.testing.assert_close(together[i : i + 1], model(ids[i : i + 1], None, place)[0])


def test_projected_distances_grow_with_the_cache(oracle):
    model = built(oracle, WAVES)
    ids, past = torch.randint(V, (1, 40)), None
    whole, _ = model.forward_cached(ids, memory_length=10**9)
    for i in range(40):
        logits, past = model.forward_cached(ids[:, i : i + 1], past, memory_length=10**9)
        torch.testing.assert_close(logits[:, 0], whole[:, i])
    assert past.caches[0].distances.shape[1] <= 80


def test_tied_predictions_learn_the_amplitude_and_untied_ones_have_their_own(oracle):
    tied, untied = (TransformerXL(c, V, LETTERS) for c in (WAVES, replace(WAVES, tied=False)))
    count = [sum(p.numel() for p in m.parameters()) for m in (tied, untied)]
    assert count[1] - count[0] == V * 12
    assert "embedding.amplitude.weight" in dict(tied.named_parameters())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dim": 10, "n_heads": 4}, "dim must be a multiple of n_heads, got dim=10, n_heads=4"),
        ({"position": "rope"}, "'rope' goes with embedding 'none', got 'complex-order'"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"memory_length": -1}, "memory_length must be at least 0, got -1"),
        ({"embedding": "tpe", "position": "rope"}, "'rope' goes with embedding 'none', got 'tpe'"),
        ({"embedding": "none", "hidden_units": "real"}, "hidden_units 'real' has no meaning"),
        ({"embedding": "none", "wave_positions": "running"}, "'running' has no meaning for 'none'"),
        ({"embedding": "none", "share": "real"}, "share 'real' has no meaning for 'none'"),
        ({"embedding": "none", "dim": 9, "n_heads": 1}, "even dim, got 9"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        with_settings(TransformerXLConfig(), **wrong)


def test_positions_that_are_not_used_are_not_checked():
    config = with_settings(TransformerXLConfig(), embedding="none", wave_positions="segment")
    assert config.counts is None


@pytest.mark.parametrize("kind", ["word", "segment", "running"])
def test_an_empty_text_changes_nothing(oracle, kind):
    model = built(oracle, replace(WAVES, wave_positions=kind))
    ids = torch.randint(V, (2, 6))
    whole, _ = model.forward_cached(ids)
    _, past = model.forward_cached(ids[:, :3])
    _, past = model.forward_cached(ids[:, :0], past)
    torch.testing.assert_close(model.forward_cached(ids[:, 3:], past)[0], whole[:, 3:])
    with pytest.raises(ValueError, match=r"ids must be in \[0, 11\), got 11"):
        model.forward_cached(torch.tensor([[11]]))


def test_rope_is_for_real_numbers():
    with pytest.raises(ValueError, match="position='rope' goes with field='real'"):
        MultiHeadAttention(8, 2, field="complex", position="rope")


def test_the_state_holds_kv_caches_with_distances(oracle):
    _, past = built(oracle, WAVES).forward_cached(torch.randint(V, (1, 3)))
    assert all(isinstance(m, KVCache) for m in past.caches)
    assert past.caches[0].distances.shape[1] >= 3
