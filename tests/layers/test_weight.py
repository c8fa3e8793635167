"""Three products or a block matrix: the same numbers, and the same slopes of any order."""

import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave import complex as cx
from wordwave.layers import Conv1d, Linear
from wordwave.layers import weight as product


@pytest.fixture
def operands():
    torch.manual_seed(0)
    return (
        torch.randn(300, 2 * 130, requires_grad=True),
        (torch.randn(140, 130) / 16).requires_grad_(),
        (torch.randn(140, 130) / 16).requires_grad_(),
        torch.randn(280, requires_grad=True),
    )


def test_three_products_equal_the_complex_product_and_its_gradients(operands):
    x, a, b, bias = operands
    assert product._three_are_faster(x, a)
    y = product.complex_linear(x, a, b, bias)
    native = cx.to_complex(x.double()) @ torch.complex(a.double(), b.double()).T
    expected = cx.from_complex(native) + bias
    assert_close(y.double(), expected, **rounding(terms=2 * 130))
    upstream = torch.randn_like(y)
    ours = torch.autograd.grad(y, operands, upstream)
    truth = torch.autograd.grad(expected, operands, upstream.double())
    for got, wanted in zip(ours, truth, strict=True):
        assert_close(got, wanted, **rounding(terms=2 * 300, size=4))


def test_three_products_pass_gradcheck_twice():
    torch.manual_seed(0)
    shapes = ((3, 8), (2, 4), (2, 4), (4,))
    operands = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(product._three_products, operands)
    assert torch.autograd.gradgradcheck(product._three_products, operands)


@pytest.mark.parametrize(
    "build", [lambda: Linear(128, 128), lambda: Conv1d(128, 128, 3)], ids=["linear", "conv"]
)
def test_large_layers_are_what_small_batches_of_them_are(build):
    layer = build()
    x = torch.randn(16, 20, 256)
    one_by_one = torch.cat([layer(sentence.unsqueeze(0)) for sentence in x])
    assert_close(layer(x), one_by_one, **rounding(terms=2 * 128))


def test_small_autocast_and_compiled_products_take_the_block(operands):
    x, a, *_ = operands
    assert not product._three_are_faster(x[:200], a)
    assert not product._three_are_faster(x.double(), a)
    with torch.autocast("cpu", torch.bfloat16):
        assert not product._three_are_faster(x, a)
