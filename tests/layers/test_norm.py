"""Normalisation acts on each part by itself; dropout on whole complex numbers."""

import pytest
import torch
from torch.testing import assert_close

from wordwave.layers import BatchNorm, Dropout, LayerNorm

FIELDS = {"real": 1, "complex": 2}

for_each_field = pytest.mark.parametrize("field", FIELDS)


def normalised(values, eps):
    """(v − mean)/sqrt(var + eps) over the first dimension, with the biased variance."""
    mean = values.sum(0) / len(values)
    variance = ((values - mean) ** 2).sum(0) / len(values)
    return (values - mean) / (variance + eps) ** 0.5


@for_each_field
@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (5, 1), (1, 1)])
def test_layer_norm_normalises_each_part_of_each_word(oracle, field, shape):
    *words, dim = shape
    parts = FIELDS[field]
    layer = oracle.randomise(LayerNorm(dim, field=field)).double()
    x = 3 * torch.randn(*words, parts * dim, dtype=torch.float64) + 1
    y = layer(x)
    assert y.shape == x.shape
    rows, results = x.reshape(-1, parts * dim), y.reshape(-1, parts * dim)
    for word, result in zip(rows, results, strict=True):
        expected = torch.cat([normalised(part, 1e-5) for part in word.split(dim)])
        assert_close(result, expected * layer.weight + layer.bias)


def test_layer_norm_of_a_zero_part_is_its_bias(oracle):
    layer = oracle.randomise(LayerNorm(4))
    x = torch.cat([torch.randn(2, 3, 4), torch.zeros(2, 3, 4)], dim=-1)
    assert torch.equal(layer(x)[..., 4:], layer.bias[4:].expand(2, 3, 4))


@for_each_field
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_norms_pass_an_empty_batch(field, shape):
    x = torch.zeros(*shape, 4 * FIELDS[field])
    assert LayerNorm(4, field=field)(x).shape == x.shape
    assert BatchNorm(4, field=field)(x).shape == x.shape


@for_each_field
def test_batch_norm_in_training_normalises_each_unit_over_the_words(oracle, field):
    width = 3 * FIELDS[field]
    layer = oracle.randomise(BatchNorm(3, field=field)).double()
    x = 2 * torch.randn(4, 5, width, dtype=torch.float64) - 1
    mask = torch.rand(4, 5) > 0.3
    words = layer(x, mask)[mask]
    assert_close(words, normalised(x[mask], 1e-5) * layer.weight + layer.bias)
    assert_close(layer(x)[mask], layer(x, torch.ones(4, 5, dtype=torch.bool))[mask])


@for_each_field
def test_batch_norm_in_evaluation_uses_the_running_statistics(oracle, field):
    width = 3 * FIELDS[field]
    layer = oracle.randomise(BatchNorm(3, field=field, momentum=0.25)).double()
    mean, variance = torch.zeros(width).double(), torch.ones(width).double()
    for _ in range(3):
        x = 2 * torch.randn(4, 5, width, dtype=torch.float64) - 1
        mask = torch.rand(4, 5) > 0.3
        layer(x, mask)
        mean = 0.75 * mean + 0.25 * x[mask].mean(0)
        variance = 0.75 * variance + 0.25 * x[mask].var(0, unbiased=True)
    layer.eval()
    expected = (x - mean) / (variance + 1e-5).sqrt() * layer.weight + layer.bias
    assert_close(layer(x), expected)
    assert_close(layer(x[:1]), expected[:1])


def test_batch_norm_statistics_survive_saving():
    layer, other = BatchNorm(3), BatchNorm(3)
    layer(torch.randn(4, 5, 6) + 2)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 6)
    assert torch.equal(layer.eval()(x), other.eval()(x))


def test_batch_norm_of_one_word_or_none_is_finite():
    layer = BatchNorm(3)
    x = torch.randn(1, 2, 6, requires_grad=True)
    for mask in ([[True, False]], [[False, False]]):
        y = layer(x, torch.tensor(mask))
        y.sum().backward()
        assert y.isfinite().all() and x.grad.isfinite().all()
    assert layer.mean.isfinite().all() and layer.variance.isfinite().all()


def test_batch_norm_counts_words_in_full_precision_of_a_bfloat16_batch():
    """bfloat16 holds no mean of 100.3 and no count of 1001: statistics are kept in float32."""
    layer = BatchNorm(2)
    x = (100 + torch.randn(7, 143, 4)).bfloat16()
    y = layer(x)
    exact = normalised(x.float().flatten(0, 1), 1e-5).view_as(x)
    assert_close(y.float(), exact, rtol=0.01, atol=0.02)


@for_each_field
def test_dropout_drops_both_parts_together_and_keeps_the_mean(field):
    parts = FIELDS[field]
    layer = Dropout(0.3, field=field)
    y = layer(torch.ones(50, 40, parts * 64))
    for part in y.split(64, dim=-1):
        assert torch.equal(part, y[..., :64])
    kept = y[y != 0]
    assert_close(kept, torch.full_like(kept, 1 / 0.7))
    assert (y == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert y.mean().item() == pytest.approx(1, abs=0.01)


def test_dropout_keeps_the_phase_of_what_it_keeps(oracle):
    z = torch.randn(20, 2 * 30)
    before, after = oracle.native(z), oracle.native(Dropout(0.5)(z))
    kept = after != 0
    assert_close(after[kept], 2 * before[kept])


@for_each_field
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_dropout_is_the_identity_in_evaluation(field, p):
    x = torch.randn(2, 3, 8)
    assert torch.equal(Dropout(p, field=field).eval()(x), x)
    if p == 0:
        assert torch.equal(Dropout(p, field=field)(x), x)


def test_batch_norm_of_padding_alone_leaves_the_statistics():
    norm = BatchNorm(2)
    norm(torch.zeros(0, 3, 4))
    norm(torch.ones(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    assert (norm.variance == 1).all() and (norm.mean == 0).all()
