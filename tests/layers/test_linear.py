"""Dense layers are what App. B (Eq. 9) defines, and keep the size of what passes through."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from wordwave.layers import FeedForward, Linear

SHARES = ("none", "real", "tied")
DTYPES = (torch.float32, torch.float64)

for_each_share = pytest.mark.parametrize("share", SHARES)
for_each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@for_each_share
@for_each_dtype
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 3, 2)])
def test_linear_is_the_complex_product(oracle, tolerance, share, dtype, bias, shape):
    layer = oracle.randomise(Linear(5, 3, share=share, bias=bias)).to(dtype)
    x = torch.randn(*shape, 10, dtype=dtype)
    expected = torch.einsum("oi,...i->...o", oracle.weight(layer.weight), oracle.native(x))
    if bias:
        expected = expected + oracle.bias(layer.bias)
    y = layer(x)
    assert y.dtype == dtype and y.shape == (*shape, 6)
    assert_close(oracle.native(y), expected, **tolerance[dtype])


@for_each_share
def test_linear_is_equation_9_written_out(share):
    """(A·x − B·y + c) + i·(B·x + A·y + d)"""
    layer = Linear(4, 3, share=share)
    A = layer.weight.a
    B = {"none": layer.weight.b, "real": torch.zeros_like(A), "tied": A}[share]
    layer.bias.c.data.normal_()
    c, d = layer.bias.c[0, 0], layer.bias.c[0, -1]
    x, y = torch.randn(2, 4)
    expected = torch.cat([A @ x - B @ y + c, B @ x + A @ y + d])
    assert_close(layer(torch.cat([x, y])), expected)


@pytest.mark.parametrize(
    ("share", "n_weights", "n_biases"),
    [("none", 2 * 15, 2 * 3), ("real", 15, 2 * 3), ("tied", 15, 3)],
)
def test_sharing_halves_the_parameters(share, n_weights, n_biases):
    layer = Linear(5, 3, share=share)
    assert sum(p.numel() for p in layer.weight.parameters()) == n_weights
    assert sum(p.numel() for p in layer.bias.parameters()) == n_biases


@for_each_share
@for_each_dtype
@pytest.mark.parametrize("activation", [F.relu, torch.tanh])
def test_feed_forward_activates_each_part(oracle, tolerance, share, dtype, activation):
    layer = FeedForward(4, 6, share=share, activation=activation)
    layer = oracle.randomise(layer).to(dtype)
    x = torch.randn(2, 3, 8, dtype=dtype)
    hidden = torch.einsum("oi,bli->blo", oracle.weight(layer.widen.weight), oracle.native(x))
    hidden = oracle.by_part(activation, hidden + oracle.bias(layer.widen.bias))
    expected = torch.einsum("oi,bli->blo", oracle.weight(layer.narrow.weight), hidden)
    expected = expected + oracle.bias(layer.narrow.bias)
    assert_close(oracle.native(layer(x)), expected, **tolerance[dtype])


@pytest.mark.parametrize("field", ["real", "complex"])
def test_feed_forward_drops_hidden_units_in_training_only(field):
    layer = FeedForward(4, 50, field=field, dropout=0.5)
    x = torch.randn(1, 1, 8 if field == "complex" else 4)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize(
    ("field", "share"), [("real", "none"), *(("complex", share) for share in SHARES)]
)
def test_a_fresh_layer_keeps_the_variance_of_each_part(field, share):
    layer = Linear(512, 512, field=field, share=share)
    parts = 2 if field == "complex" else 1
    y = layer(torch.randn(400, parts * 512))
    for part in y.split(512, dim=-1):
        assert part.var().item() == pytest.approx(1, rel=0.1)
        assert part.mean().item() == pytest.approx(0, abs=0.05)


def test_biases_start_at_zero():
    layer = Linear(3, 4)
    assert torch.equal(layer(torch.zeros(6)), torch.zeros(8))


@for_each_share
def test_an_empty_batch_passes(share):
    assert Linear(3, 4, share=share)(torch.zeros(0, 7, 6)).shape == (0, 7, 8)
    assert FeedForward(3, 4, share=share)(torch.zeros(2, 0, 6)).shape == (2, 0, 6)


def test_repr_names_widths_field_and_sharing():
    assert "3, 4, field='complex', share='tied'" in repr(Linear(3, 4, share="tied"))


@for_each_share
@for_each_dtype
def test_real_hidden_units_take_a_real_part_and_have_complex_output_weights(
    oracle, tolerance, share, dtype
):
    layer = oracle.randomise(FeedForward(4, 6, share=share, hidden="real")).to(dtype)
    z = torch.randn(2, 3, 8, dtype=dtype)
    ears, mouths = (m.weight.a.double() for m in (layer.widen, layer.narrow))
    w = torch.complex(ears[:, :4], -ears[:, 4:])
    v = torch.complex(mouths[:4], mouths[4:])
    hidden = torch.einsum("hd,...d->...h", w, oracle.native(z)).real + layer.widen.bias()
    output = torch.einsum("dh,...h->...d", v, F.relu(hidden).to(v.dtype))
    expected = output + oracle.native(layer.narrow.bias())
    assert_close(oracle.native(layer(z)), expected, **tolerance[dtype])


def test_real_hidden_units_have_the_same_number_of_weights_and_need_a_complex_field():
    free, real = FeedForward(4, 6), FeedForward(4, 6, hidden="real")
    weights = [sum(p.numel() for p in m.parameters() if p.dim() == 2) for m in (free, real)]
    assert weights[0] == weights[1] == 2 * 2 * 4 * 6
    assert FeedForward(4, 6, field="real", hidden="real")(torch.randn(3, 4)).shape == (3, 4)
    with pytest.raises(ValueError, match="hidden='complex' goes with field='complex'"):
        FeedForward(4, 6, field="real", hidden="complex")
    with pytest.raises(ValueError, match="hidden must be 'real' or 'complex', got 'imaginary'"):
        FeedForward(4, 6, hidden="imaginary")
