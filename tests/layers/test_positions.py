"""Position encodings inside attention layers: masks, caches, any positions."""

import math

import pytest
import torch
from torch.testing import assert_close

from wordwave.embedding.config import IN_ATTENTION
from wordwave.layers import MultiHeadAttention
from wordwave.positions import POSITIONS

B, L, D, H = 2, 6, 8, 2
SCORES = ("magnitude", "real")

for_each_score = pytest.mark.parametrize("score", SCORES)
for_each_kind = pytest.mark.parametrize("position", POSITIONS)
BY_ORDER = ("nope", "cope")
"""Encodings that depend on the order of positions at most."""


def build(oracle, position, score="real"):
    layer = MultiHeadAttention(D, H, field="real", score=score, position=position)
    return oracle.randomise(layer)


def by_definition(layer, x, score_of):
    """Attention of real heads where `score_of(q, k, m, n, h)` scores word m against word n."""
    q, k, v = (
        linear(x).view(B, L, H, D // H) for linear in (layer.to_query, layer.to_key, layer.to_value)
    )
    heads = torch.zeros(B, L, H, D // H)
    for b in range(B):
        for h in range(H):
            for m in range(L):
                scores = [score_of(q[b, m, h], k[b, n, h], m, n, h) for n in range(L)]
                weights = torch.softmax(torch.stack(scores), dim=0)
                heads[b, m, h] = weights @ v[b, :, h]
    return layer.to_out(heads.flatten(2))


@for_each_score
@torch.no_grad()
def test_rope_rotates_pairs_by_the_angle_of_their_position(oracle, score):
    layer = build(oracle, "rope", score)
    half = D // H // 2

    def score_of(q, k, m, n, h):
        turn = torch.tensor([10_000 ** (-i / half) for i in range(half)])
        z = torch.complex(q[:half], q[half:]) * torch.exp(1j * turn * m)
        w = torch.complex(k[:half], k[half:]) * torch.exp(1j * turn * n)
        e = (z * w.conj()).real.sum() / math.sqrt(D // H)
        return e.abs() if score == "magnitude" else e

    x = torch.randn(B, L, D)
    assert_close(layer(x), by_definition(layer, x, score_of), rtol=1e-4, atol=1e-5)


@for_each_score
@torch.no_grad()
def test_alibi_lowers_scores_with_distance(oracle, score):
    layer = build(oracle, "alibi", score)

    def score_of(q, k, m, n, h):
        e = (q * k).sum() / math.sqrt(D // H)
        e = e.abs() if score == "magnitude" else e
        nth = h + 1 if n <= m else H - h  # for keys to the right the slopes run the other way
        return e - 2 ** (-8 * nth / H) * abs(m - n)

    x = torch.randn(B, L, D)
    assert_close(layer(x), by_definition(layer, x, score_of), rtol=1e-4, atol=1e-5)


@for_each_kind
@for_each_score
def test_only_distances_matter(oracle, position, score):
    layer = build(oracle, position, score)
    x = torch.randn(B, L, D)
    if position == "fire":  # relative to the length of the text
        layer.position.log_threshold.data.fill_(20)
    far = layer(x, positions=torch.arange(L) + 10_000)
    assert_close(far, layer(x), rtol=1e-3, atol=1e-3 if position == "xpos" else 1e-4)
    apart = layer(x, positions=30 * torch.arange(L))
    assert torch.allclose(apart, layer(x), atol=1e-2) == (position in BY_ORDER)


@for_each_kind
def test_positions_may_differ_between_sentences(oracle, position):
    layer = build(oracle, position)
    x = torch.randn(B, L, D)
    positions = torch.stack([torch.arange(L), 2 * torch.arange(L)])
    y = layer(x, positions=positions)
    for b in range(B):
        alone = layer(x[b : b + 1], positions=positions[b])
        assert_close(y[b : b + 1], alone, rtol=1e-4, atol=1e-5)


@for_each_kind
@for_each_score
def test_decoding_word_by_word_is_the_causal_pass(oracle, position, score):
    layer = build(oracle, position, score)
    x = torch.randn(B, L, D)
    whole, cache = layer(x, causal=True), None
    for i in range(L):
        word = x[:, i : i + 1]
        cache = layer.project_kv(word, cache)
        y = layer.attend(word, cache, causal=True)
        assert_close(y, whole[:, i : i + 1], rtol=1e-4, atol=1e-5)


@for_each_kind
@pytest.mark.parametrize("shape", [(4,), (1, 4), (B, 4)])
def test_decoding_continues_the_positions_of_the_past(oracle, position, shape):
    layer = build(oracle, position)
    x = torch.randn(B, L, D)
    whole = layer(x, positions=torch.arange(L) + 100, causal=True)
    cache = layer.project_kv(x[:, :4], positions=(torch.arange(4) + 100).expand(shape))
    for i in range(4, L):
        word = x[:, i : i + 1]
        cache = layer.project_kv(word, cache)
        y = layer.attend(word, cache, causal=True)
        assert_close(y, whole[:, i : i + 1], rtol=1e-4, atol=1e-5)


@for_each_kind
@for_each_score
@pytest.mark.parametrize("n_keys", [0, 3, 9])
def test_a_source_may_be_shorter_or_longer_than_the_queries(oracle, position, score, n_keys):
    layer = build(oracle, position, score)
    y = layer(torch.randn(B, L, D), torch.randn(B, n_keys, D))
    assert y.shape == (B, L, D) and y.isfinite().all()


@for_each_kind
@pytest.mark.parametrize("shape", [(), (L - 1,), (B + 1, L), (1, B, L)], ids=str)
def test_positions_of_a_wrong_shape_are_refused(position, shape):
    layer = MultiHeadAttention(D, H, field="real", position=position)
    with pytest.raises(ValueError, match=r"positions .*got") as error:
        layer(torch.randn(B, L, D), positions=torch.zeros(shape, dtype=torch.long))
    assert str(shape) in str(error.value)


@for_each_kind
@for_each_score
@pytest.mark.parametrize("causal", [False, True])
def test_masked_words_do_not_count(oracle, position, score, causal):
    layer = build(oracle, position, score)
    x = torch.randn(B, L, D, requires_grad=True)
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[0, 4:] = False
    mask[1] = False
    y = layer(x, mask=mask, causal=causal)
    assert_close(y[:1, :4], layer(x[:1, :4], causal=causal), rtol=1e-4, atol=1e-5)
    assert_close(y[1], layer.to_out.bias().expand(L, D), rtol=0, atol=1e-6)
    y.square().sum().backward()
    assert x.grad.isfinite().all()


def test_rope_keeps_its_angles_when_a_model_is_cast_to_bfloat16(oracle):
    layer = MultiHeadAttention(128, 1, field="real", position="rope")
    heads = torch.ones(1, 1, 1000, 128)
    exact = layer.position.rotate(heads, torch.arange(1000))
    cast = layer.bfloat16().position.rotate(heads.bfloat16(), torch.arange(1000))
    assert_close(cast.float(), exact, rtol=0, atol=0.03)


@for_each_kind
@torch.no_grad()
def test_packed_texts_are_texts_side_by_side(oracle, position):
    """Several texts in a row, each with its own positions, that do not see each other."""
    layer = build(oracle, position)
    x, lengths = torch.randn(1, 9, D), (4, 3, 2)
    texts = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    positions = torch.cat([torch.arange(1, n + 1) for n in lengths])
    same = (texts[:, None] == texts)[None]
    for causal in (False, True):
        packed = layer(x, mask=same, positions=positions, causal=causal).split(lengths, dim=1)
        for part, alone in zip(packed, x.split(lengths, dim=1), strict=True):
            assert_close(part, layer(alone, causal=causal), rtol=1e-4, atol=1e-4)


@for_each_kind
@torch.no_grad()
def test_a_cache_keeps_its_last_keys_and_selected_rows(oracle, position):
    """What a language model's memory and a beam search do."""
    layer, x, rows = build(oracle, position), torch.randn(B, L, D), torch.tensor([1, 1, 0])
    cache = layer.project_kv(x[:, :-1]).last(3).select(rows)
    cache = layer.project_kv(x[rows, -1:], cache)
    y = layer.attend(x[rows, -1:], cache, causal=True)
    whole = layer.attend(x[rows, -1:], layer.project_kv(x[rows]), causal=True, window=3)
    if position == "fire":
        assert y.isfinite().all()
    assert_close(y, whole, rtol=1e-4, atol=1e-4)


@for_each_kind
@torch.no_grad()
def test_encodings_keep_their_counts_and_angles_in_bfloat16(oracle, position):
    """bfloat16 cannot represent 257: counts, distances and phases are computed in float32."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(32, 2, field="real", score="real", position=position)
    oracle.randomise(layer.position, 0.1)
    x = torch.randn(1, 400, 32)
    exact = layer(x, causal=True)
    cast = layer.bfloat16()(x.bfloat16(), causal=True)
    # Values and scores of size 3 are rounded to 8 bits, in projections of 32 terms.
    assert_close(cast.float(), exact, rtol=0, atol=0.06)


def test_encodings_without_parameters_have_none():
    plain = MultiHeadAttention(D, H, field="real")
    for position in ("rope", "alibi", "nope", "p-rope", "xpos"):
        layer = MultiHeadAttention(D, H, field="real", position=position)
        assert layer.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"position": "rop"},
            r"position must be one of rope, alibi, .*, got 'rop'; did you mean 'rope'",
        ),
        ({"position": "rope", "field": "complex"}, r"position='rope' goes with field='real'"),
        ({"position": "rope", "dim": 6}, r"even width per head, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    options = {"dim": D, "field": "real", **options}
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(options.pop("dim"), H, **options)


def test_every_encoding_that_a_config_may_name_is_registered():
    assert set(IN_ATTENTION) == set(POSITIONS)
    for position in POSITIONS:
        assert MultiHeadAttention(D, H, field="real", position=position).position is not None
