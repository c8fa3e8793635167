"""The chunked cross-entropy against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from wordwave.layers import loss as cross_entropy
from wordwave.layers.loss import linear_cross_entropy


def drawn(n=13, dim=5, words=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, dim, generator=generator, dtype=dtype)
    weight = torch.randn(words, dim, generator=generator, dtype=dtype)
    target = torch.randint(words, (n,), generator=generator)
    return x.requires_grad_(), weight.requires_grad_(), target


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("numbers_at_once", [1, 21, 1 << 20])
def test_equals_torch_and_so_do_its_gradients(label_smoothing, numbers_at_once, monkeypatch):
    monkeypatch.setattr(cross_entropy, "NUMBERS_AT_ONCE", numbers_at_once)
    x, weight, target = drawn()
    ours = linear_cross_entropy(x, weight, target, label_smoothing=label_smoothing)
    theirs = F.cross_entropy(
        F.linear(x, weight), target, reduction="sum", label_smoothing=label_smoothing
    )
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(3 * ours, (x, weight)),
        torch.autograd.grad(3 * theirs, (x, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_gradcheck():
    x, weight, target = drawn()
    assert torch.autograd.gradcheck(
        lambda x, w: linear_cross_entropy(x, w, target, label_smoothing=0.1), (x, weight)
    )


def test_large_logits_stay_finite():
    x, weight, target = drawn()
    loss = linear_cross_entropy(x * 1e4, weight, target)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (x, weight)))


def test_no_rows_cost_nothing():
    x, weight, target = drawn(n=0)
    loss = linear_cross_entropy(x, weight, target)
    loss.backward()
    assert loss == 0
    assert not weight.grad.any()


def test_without_gradients_it_makes_none():
    x, weight, target = drawn()
    with torch.no_grad():
        assert not linear_cross_entropy(x, weight, target).requires_grad


def test_of_bf16_states_the_gradients_are_near_those_of_float32():
    x, weight, target = drawn(dtype=torch.float32)
    exact = torch.autograd.grad(linear_cross_entropy(x, weight, target), (x, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(x.bfloat16(), weight, target)
    for one, other in zip(torch.autograd.grad(loss, (x, weight)), exact, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)


def test_under_bf16_autocast():
    x, weight, target = drawn(dtype=torch.float32)
    expected = linear_cross_entropy(x, weight, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(x, weight, target)
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.05)
    assert weight.grad.dtype == torch.float32
