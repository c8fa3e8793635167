"""Attention against its definition: softmax of |q·k†| or Re(q·k†), over complex numbers."""

import math

import pytest
import torch
from torch.testing import assert_close

from wordwave.layers import MultiHeadAttention

B, L, M, D, H = 3, 5, 4, 6, 2
SHARES = ("none", "real", "tied")
SCORES = ("magnitude", "real")
FIELDS = {"real": 1, "complex": 2}

for_each_score = pytest.mark.parametrize("score", SCORES)
for_each_field = pytest.mark.parametrize("field", FIELDS)


def by_definition(oracle, layer, x, source=None, mask=None, causal=False):
    """Query by query, head by head. Shape: (B, L, D) complex -> (B, L, D) complex"""
    source = x if source is None else source

    def project(linear, z):
        return torch.einsum("oi,bli->blo", oracle.weight(linear.weight), z) + oracle.bias(
            linear.bias
        )

    q, k, v = (
        project(layer.to_query, x),
        project(layer.to_key, source),
        project(layer.to_value, source),
    )
    d = D // H
    heads = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for h in range(H):
            of_head = slice(h * d, (h + 1) * d)
            for i in range(q.shape[1]):
                z = torch.einsum("d,md->m", q[b, i, of_head], k[b, :, of_head].conj())
                e = (z.abs() if layer.score == "magnitude" else z.real) / math.sqrt(d)
                seen = torch.ones(k.shape[1], dtype=torch.bool) if mask is None else mask[b].clone()
                if causal:
                    seen &= torch.arange(k.shape[1]) <= i + k.shape[1] - q.shape[1]
                if seen.any():
                    a = torch.softmax(e[seen], dim=0)
                    heads[b, i, of_head] = torch.einsum("m,md->d", a + 0j, v[b, seen, of_head])
    return project(layer.to_out, heads)


def build(oracle, dtype=torch.float64, **options):
    return oracle.randomise(MultiHeadAttention(D, H, **options)).to(dtype)


def some_mask(n, length):
    mask = torch.rand(n, length) > 0.4
    mask[0] = True
    mask[1] = False
    return mask


@for_each_score
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_self_attention_is_its_definition(oracle, score, share, dtype, causal, masked):
    layer = build(oracle, dtype, share=share, score=score)
    x = torch.randn(B, L, 2 * D, dtype=dtype)
    mask = some_mask(B, L) if masked else None
    expected = by_definition(oracle, layer, oracle.native(x), mask=mask, causal=causal)
    y = layer(x, mask=mask, causal=causal)
    assert y.dtype == dtype
    assert_close(oracle.native(y), expected, rtol=1e-4, atol=1e-5)


@for_each_score
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_keys", [M, 9])
@torch.no_grad()
def test_cross_attention_is_its_definition(oracle, score, share, causal, n_keys):
    layer = build(oracle, share=share, score=score)
    x = torch.randn(B, L, 2 * D, dtype=torch.float64)
    source = torch.randn(B, n_keys, 2 * D, dtype=torch.float64)
    mask = some_mask(B, n_keys)
    expected = by_definition(
        oracle, layer, oracle.native(x), oracle.native(source), mask=mask, causal=causal
    )
    y = layer(x, source, mask=mask, causal=causal)
    assert_close(oracle.native(y), expected, rtol=1e-6, atol=1e-8)


@for_each_score
@for_each_field
def test_a_source_projected_once_serves_every_query(oracle, score, field):
    layer = build(oracle, torch.float32, score=score, field=field)
    x, source = torch.randn(B, L, D * FIELDS[field]), torch.randn(B, M, D * FIELDS[field])
    mask = some_mask(B, M)
    whole = layer(x, source, mask=mask)
    cache = layer.project_kv(source)
    for i in range(L):
        y = layer.attend(x[:, i : i + 1], cache, mask=mask)
        assert_close(y, whole[:, i : i + 1], rtol=1e-4, atol=1e-5)


@for_each_score
@for_each_field
def test_decoding_word_by_word_is_the_causal_pass(oracle, score, field):
    layer = build(oracle, torch.float32, score=score, field=field)
    x = torch.randn(B, L, D * FIELDS[field])
    whole = layer(x, causal=True)
    cache = None
    for i in range(L):
        word = x[:, i : i + 1]
        cache = layer.project_kv(word, cache)
        y = layer.attend(word, cache, causal=True)
        assert_close(y, whole[:, i : i + 1], rtol=1e-4, atol=1e-5)


@for_each_score
@for_each_field
def test_decoding_in_chunks_is_the_causal_pass(oracle, score, field):
    layer = build(oracle, torch.float32, score=score, field=field)
    x = torch.randn(B, L, D * FIELDS[field])
    cache, outputs = None, []
    for chunk in x.split([2, 3], dim=1):
        cache = layer.project_kv(chunk, cache)
        outputs.append(layer.attend(chunk, cache, causal=True))
    assert_close(torch.cat(outputs, dim=1), layer(x, causal=True), rtol=1e-4, atol=1e-5)


@for_each_score
@for_each_field
@pytest.mark.parametrize("causal", [False, True])
def test_with_nothing_to_attend_to_the_output_is_the_bias(oracle, score, field, causal):
    layer = build(oracle, torch.float32, score=score, field=field)
    x = torch.randn(B, L, D * FIELDS[field], requires_grad=True)
    y = layer(x, mask=some_mask(B, L), causal=causal)
    bias = layer.to_out.bias().expand_as(y[1])
    assert_close(y[1], bias, rtol=0, atol=1e-6)
    y.square().sum().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    no_words = x.new_zeros(B, 0, x.shape[2])
    assert_close(layer(x, no_words), layer.to_out.bias().expand_as(y), rtol=0, atol=1e-6)


@for_each_score
@for_each_field
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradient_is_finite_where_every_score_is_zero(score, field, dtype):
    layer = MultiHeadAttention(D, H, score=score, field=field).to(dtype)
    x = torch.zeros(B, L, D * FIELDS[field], dtype=dtype, requires_grad=True)
    layer(x).float().square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@for_each_score
def test_large_scores_of_float16_do_not_overflow(score):
    """A score of 300 fits float16; its square does not."""
    layer = MultiHeadAttention(D, H, score=score).half()
    x = 30 * torch.randn(B, L, 2 * D).half()
    assert layer(x).isfinite().all()


def test_magnitude_score_is_invariant_to_a_common_rotation_and_the_real_score_is_not(oracle):
    x = torch.randn(B, L, 2 * D, dtype=torch.float64)
    source = torch.randn(B, M, 2 * D, dtype=torch.float64)
    turned = oracle.halves(oracle.native(x) * torch.exp(torch.tensor(0.7j)))
    for score in SCORES:
        layer = build(oracle, score=score, bias=False)
        same = torch.allclose(layer(turned, source), layer(x, source), atol=1e-6)
        assert same == (score == "magnitude")


@for_each_score
@for_each_field
def test_dropout_drops_weights_in_training_only(score, field):
    layer = MultiHeadAttention(D, H, score=score, field=field, dropout=0.5)
    x = torch.randn(B, L, D * FIELDS[field])
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    plain = MultiHeadAttention(D, H, score=score, field=field)
    plain.load_state_dict(layer.state_dict())
    assert_close(layer(x), plain(x))


@for_each_score
@for_each_field
def test_a_causal_query_does_not_see_the_future(score, field):
    layer = MultiHeadAttention(D, H, score=score, field=field)
    x = torch.randn(B, L, D * FIELDS[field])
    later = x.clone()
    later[:, 3:] = torch.randn_like(later[:, 3:])
    assert_close(layer(later, causal=True)[:, :3], layer(x, causal=True)[:, :3])


@pytest.mark.parametrize("field", ["real", "complex"])
def test_the_causal_kernel_is_the_causal_mask(field):
    attention = MultiHeadAttention(8, 2, score="real", field=field).double()
    x = torch.randn(2, 70, 8 * attention.n_parts, dtype=torch.float64, requires_grad=True)
    lower = torch.ones(2, 70, 70, dtype=torch.bool).tril()
    y, expected = attention(x, causal=True), attention(x, mask=lower)
    assert_close(y, expected)
    direction = torch.randn_like(y)
    (of_y,) = torch.autograd.grad(y, x, direction)
    (of_expected,) = torch.autograd.grad(expected, x, direction)
    assert_close(of_y, of_expected)


def test_without_bias_no_parameter_is_one():
    layer = MultiHeadAttention(D, H, bias=False)
    assert sum(p.numel() for p in layer.parameters()) == 4 * 2 * D * D
