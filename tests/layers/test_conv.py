"""Convolution over positions is a complex product with each window."""

import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave.layers import Conv1d, Linear

SHARES = ("none", "real", "tied")

for_each_share = pytest.mark.parametrize("share", SHARES)


def windows_times_kernel(x, weight, bias, padding):
    """y[t] = Σ_k W[:, :, k]·x[t + k] + b, with zeros on either side."""
    n_out, _, k = weight.shape
    zeros = x.new_zeros(x.shape[0], padding, x.shape[2])
    x = torch.cat([zeros, x, zeros], dim=1)
    length = x.shape[1] - k + 1
    y = x.new_zeros(x.shape[0], length, n_out)
    for t in range(length):
        for step in range(k):
            y[:, t] += x[:, t + step] @ weight[:, :, step].T
    return y if bias is None else y + bias


@for_each_share
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kernel_size", "padding"), [(1, 0), (3, 0), (3, 1), (4, 3), (7, 0)])
def test_conv_is_the_complex_convolution(
    oracle, tolerance, share, dtype, bias, kernel_size, padding
):
    layer = Conv1d(3, 5, kernel_size, padding=padding, share=share, bias=bias)
    layer = oracle.randomise(layer).to(dtype)
    x = torch.randn(2, 7, 6, dtype=dtype)
    expected = windows_times_kernel(
        oracle.native(x),
        oracle.weight(layer.weight),
        oracle.bias(layer.bias) if bias else None,
        padding,
    )
    y = layer(x)
    assert y.shape == (2, 7 + 2 * padding - kernel_size + 1, 10) and y.dtype == dtype
    assert_close(oracle.native(y), expected, **tolerance[dtype])


@for_each_share
def test_kernel_of_one_is_a_linear_layer(oracle, share):
    conv = oracle.randomise(Conv1d(3, 4, 1, share=share))
    linear = Linear(3, 4, share=share)
    state = {k: v.squeeze(-1) if "weight" in k else v for k, v in conv.state_dict().items()}
    linear.load_state_dict(state)
    x = torch.randn(2, 5, 6)
    assert_close(conv(x), linear(x), **rounding(terms=2 * 3 + 1))


@pytest.mark.parametrize(
    ("field", "share"), [("real", "none"), *(("complex", share) for share in SHARES)]
)
def test_a_fresh_layer_keeps_the_variance_of_each_part(field, share):
    parts = 2 if field == "complex" else 1
    layer = Conv1d(512, 64, 3, field=field, share=share)
    y = layer(torch.randn(8, 60, parts * 512))
    for part in y.split(64, dim=-1):
        assert part.var().item() == pytest.approx(1, rel=0.1)


@for_each_share
def test_gradient_reaches_every_parameter_and_the_input(share):
    layer = Conv1d(3, 4, 2, share=share)
    x = torch.randn(2, 5, 6, requires_grad=True)
    layer(x).square().sum().backward()
    assert x.grad.any() and all(p.grad.any() for p in layer.parameters())


@for_each_share
def test_input_need_not_be_contiguous(oracle, share):
    layer = oracle.randomise(Conv1d(3, 4, 2, share=share))
    x = torch.randn(6, 5, 2).permute(2, 1, 0)
    assert_close(layer(x), layer(x.contiguous()), **rounding(terms=2 * 2 * 3 + 1))


@for_each_share
def test_an_empty_batch_passes(share):
    assert Conv1d(3, 4, 2, share=share)(torch.zeros(0, 5, 6)).shape == (0, 4, 8)
