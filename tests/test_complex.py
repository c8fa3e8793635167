"""The layout [real | imag] computes what torch's own complex numbers compute."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from wordwave import complex as cx

seeds = st.integers(0, 10**6)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def draw(seed, *shape):
    torch.manual_seed(seed)
    return torch.randn(*shape[:-1], 2 * shape[-1], dtype=torch.float64)


@given(seeds, shapes)
def test_layout_round_trips_through_torch_complex(seed, shape):
    z = draw(seed, *shape)
    assert torch.equal(cx.from_complex(cx.to_complex(z)), z)
    assert torch.equal(cx.join(*cx.split(z)), z)
    assert torch.equal(cx.join(cx.real(z), cx.imag(z)), z)
    assert cx.width(z) == shape[-1]


@given(seeds, shapes)
def test_conj_rotate_and_magnitude_are_those_of_complex_numbers(seed, shape):
    z = draw(seed, *shape)
    native = cx.to_complex(z)
    assert torch.equal(cx.to_complex(cx.conj(z)), native.conj().resolve_conj())
    assert_close(cx.to_complex(cx.rotate(z)), 1j * native)
    assert_close(cx.magnitude(z), native.abs())


@given(seeds, shapes)
def test_multiply_and_scale_are_products(seed, shape):
    a, b = draw(seed, *shape), draw(seed + 1, *shape)
    factor = cx.real(draw(seed + 2, *shape))
    assert_close(cx.to_complex(cx.multiply(a, b)), cx.to_complex(a) * cx.to_complex(b))
    assert_close(cx.to_complex(cx.scale(a, factor)), cx.to_complex(a) * factor)


@given(seeds, shapes)
def test_phasor_is_the_unit_circle(seed, shape):
    torch.manual_seed(seed)
    phase = 10 * torch.randn(*shape, dtype=torch.float64)
    assert_close(cx.to_complex(cx.phasor(phase)), torch.exp(1j * phase))
    assert_close(cx.magnitude(cx.phasor(phase)), torch.ones_like(phase))


@given(seeds, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_concat_puts_complex_vectors_side_by_side(seed, widths):
    vectors = [draw(seed + i, 3, width) for i, width in enumerate(widths)]
    expected = torch.cat([cx.to_complex(z) for z in vectors], dim=-1)
    assert torch.equal(cx.to_complex(cx.concat(vectors)), expected)


def test_multiply_and_scale_broadcast():
    a, b = draw(0, 5, 1, 3), draw(1, 4, 3)
    assert_close(cx.to_complex(cx.multiply(a, b)), cx.to_complex(a) * cx.to_complex(b))
    one = torch.tensor([2.0], dtype=torch.float64)
    assert_close(cx.scale(a, one), 2 * a)
    vector = draw(2, 3)
    column = torch.randn(7, 1, dtype=torch.float64)
    assert_close(cx.to_complex(cx.scale(vector, column)), cx.to_complex(vector) * column)


def test_parts_are_views_not_copies():
    z = draw(0, 2, 3)
    for part in cx.split(z):
        part.zero_()
    assert z.count_nonzero() == 0


@pytest.mark.parametrize("n_stacked", [1, 4])
def test_block_matrix_multiplies_by_a_complex_matrix(n_stacked):
    n_out, n_in = 3, 5
    a, b = torch.randn(2, n_stacked * n_out, n_in, dtype=torch.float64)
    z = draw(0, n_in)
    expected = torch.complex(a, b) @ cx.to_complex(z)
    products = (cx.block(a, b, n_stacked) @ z).view(n_stacked, 2 * n_out)
    assert_close(cx.to_complex(products).flatten(), expected)


def test_block_carries_a_kernel_along():
    a, b = torch.randn(2, 3, 5, 4)
    block = cx.block(a, b)
    assert block.shape == (6, 10, 4)
    for k in range(4):
        assert torch.equal(block[..., k], cx.block(a[..., k], b[..., k]))


def test_heads_are_slices_of_the_complex_width():
    n_heads, d = 3, 2
    z = draw(0, 4, 5, n_heads * d)
    heads = cx.split_heads(z, n_heads)
    assert heads.shape == (4, n_heads, 5, 2 * d)
    native = cx.to_complex(z)
    for h in range(n_heads):
        assert torch.equal(cx.to_complex(heads[:, h]), native[..., h * d : (h + 1) * d])
    assert torch.equal(cx.merge_heads(heads), z)


def test_magnitude_of_exactly_zero_is_zero_with_gradient_zero():
    z = torch.zeros(4, requires_grad=True)
    size = cx.magnitude(z)
    size.sum().backward()
    assert torch.equal(size, torch.zeros(2))
    assert torch.equal(z.grad, torch.zeros(4))


def test_magnitude_next_to_a_zero_keeps_its_own_gradient():
    z = torch.tensor([0.0, 3.0, 0.0, 4.0], requires_grad=True)
    cx.magnitude(z).sum().backward()
    assert_close(z.grad, torch.tensor([0.0, 0.6, 0.0, 0.8]))


def test_one_turn_is_two_pi():
    assert math.isclose(cx.TURN, 2 * math.pi)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_functions_keep_the_dtype(dtype):
    z = torch.randn(2, 6).to(dtype)
    results = [cx.conj(z), cx.rotate(z), cx.multiply(z, z), cx.magnitude(z), cx.phasor(z)]
    assert {y.dtype for y in results} == {dtype}


@pytest.mark.parametrize("function", [cx.split, cx.width, cx.real, cx.imag, cx.conj, cx.magnitude])
@pytest.mark.parametrize("shape", [(2, 5), ()])
def test_odd_width_is_refused(function, shape):
    with pytest.raises(ValueError, match=r"even last dimension, got shape \(") as error:
        function(torch.zeros(shape))
    assert str(shape) in str(error.value)


def test_join_refuses_parts_of_different_shape():
    with pytest.raises(ValueError, match=r"real and imag .* got \(2, 3\) and \(2, 4\)"):
        cx.join(torch.zeros(2, 3), torch.zeros(2, 4))


def test_from_complex_refuses_a_real_tensor():
    with pytest.raises(ValueError, match=r"z must be of a complex dtype, got torch.float32"):
        cx.from_complex(torch.zeros(3))
