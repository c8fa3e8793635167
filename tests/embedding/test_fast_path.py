"""The fast path is the formula: the same values and the same gradients, at less cost."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from wordwave import WaveEmbedding
from wordwave.embedding.wave import count_positions

V, D = 9, 4
REPEATED = torch.tensor([[3, 3, 3, 1, 8], [3, 5, 0, 0, 0]])

close = {"rtol": 1e-4, "atol": 1e-5}


def values_and_gradients(emb, ids, positions, upstream, *, fast):
    """The embedding and the gradient of each of its parameters, by one of the two paths."""
    emb.zero_grad()
    z = emb(ids, positions) if fast else emb.formula(ids, count_positions(ids, positions))
    z.backward(upstream)
    gradients = {
        name: None if p.grad is None else p.grad.to_dense().clone()
        for name, p in emb.named_parameters()
    }
    return z.detach(), gradients


def check_paths_agree(emb, ids, positions=None):
    upstream = torch.randn(*ids.shape, emb.out_dim)
    z, gradients = values_and_gradients(emb, ids, positions, upstream, fast=True)
    expected, expected_gradients = values_and_gradients(emb, ids, positions, upstream, fast=False)
    assert_close(z, expected, **close)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        assert (gradient is None) == (expected_gradients[name] is None)
        if gradient is not None:
            assert_close(gradient, expected_gradients[name], **close)


def test_a_plain_embedding_takes_the_fast_path():
    """Or the rest of this file compares the formula with itself."""
    assert WaveEmbedding(V, D)(REPEATED).grad_fn.name() == "WaveRowsBackward"
    for options in ({"damping": True}, {"share_frequency": "word"}, {"share_amplitude": "dim"}):
        assert WaveEmbedding(V, D, **options)(REPEATED).grad_fn.name() != "WaveRowsBackward"


@given(
    seed=st.integers(0, 10**6),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    phase=st.booleans(),
    sparse=st.booleans(),
    padding_idx=st.sampled_from([None, 0, 4]),
    positions=st.none() | st.integers(-500, 500) | st.integers(0, 4000).map(lambda k: k / 8),
)
def test_both_paths_agree(seed, shape, phase, sparse, padding_idx, positions):
    torch.manual_seed(seed)
    emb = WaveEmbedding(
        V,
        D,
        phase=phase,
        sparse=sparse,
        padding_idx=padding_idx,
        frequency_init="uniform",
        frequency_range=(-2.0, 2.0),
    )
    check_paths_agree(emb, torch.randint(V, shape), positions)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("phase", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 0, 3])
@pytest.mark.parametrize(
    "positions", [None, 700, [5, 4, 3, 2, 1], [[1], [2]], [[0.5, 1, 2, 3, 4]] * 2], ids=str
)
def test_repeated_words_add_up_their_gradients(sparse, phase, padding_idx, positions):
    emb = WaveEmbedding(V, D, phase=phase, sparse=sparse, padding_idx=padding_idx)
    positions = None if positions is None else torch.as_tensor(positions)
    check_paths_agree(emb, REPEATED, positions)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("phase", [False, True])
@pytest.mark.parametrize(
    "frozen",
    [
        {"freeze_vectors": True},
        {"freeze_frequency": True},
        {"freeze_vectors": True, "freeze_frequency": True},
    ],
    ids=lambda f: "+".join(f),
)
def test_frozen_tables_get_no_gradient_on_either_path(sparse, phase, frozen):
    emb = WaveEmbedding(V, D, phase=phase, sparse=sparse, **frozen)
    if not phase and len(frozen) == 2:
        assert not emb(REPEATED).requires_grad
    else:
        check_paths_agree(emb, REPEATED)


@pytest.mark.parametrize("length", [128, 129, 256, 257])
def test_paths_agree_on_either_side_of_the_short_positions(length):
    emb = WaveEmbedding(V, D, phase=True)
    ids = torch.randint(1, V, (2, length))
    z = emb(ids)
    assert_close(z, emb.formula(ids, count_positions(ids, None)), rtol=0, atol=1e-4)
    assert_close(z, emb(ids, positions=torch.arange(1, length + 1)), rtol=0, atol=1e-4)


def test_gradient_of_a_gradient_that_is_not_dense_in_memory():
    """Expanded and transposed upstream gradients have strides of their own."""
    emb = WaveEmbedding(V, D)
    for upstream in (
        torch.randn(2, 1, 1).expand(2, 5, 2 * D),
        torch.randn(2 * D, 5, 2).permute(2, 1, 0),
    ):
        _, gradients = values_and_gradients(emb, REPEATED, None, upstream, fast=True)
        _, expected = values_and_gradients(emb, REPEATED, None, upstream, fast=False)
        assert_close(gradients, expected, **close)


def test_backward_may_run_twice_over_a_kept_graph():
    emb = WaveEmbedding(V, D, phase=True)
    loss = emb(REPEATED).square().sum()
    first = torch.autograd.grad(loss, list(emb.parameters()), retain_graph=True)
    assert_close(torch.autograd.grad(loss, list(emb.parameters())), first)


def test_double_backward_is_an_error_not_a_wrong_number():
    emb = WaveEmbedding(V, D)
    loss = emb(REPEATED).pow(3).sum()
    (gradient,) = torch.autograd.grad(loss, emb.frequency.weight, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


def test_double_backward_of_the_formula_is_there_for_those_who_need_it():
    emb = WaveEmbedding(V, D).double()
    loss = emb(REPEATED).pow(3).sum()
    (gradient,) = torch.autograd.grad(loss, emb.frequency.weight, create_graph=True)
    gradient.square().sum().backward()
    assert emb.frequency.weight.grad.isfinite().all() and emb.amplitude.weight.grad.any()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_values_are_the_same_without_gradients(mode):
    emb = WaveEmbedding(V, D, phase=True)
    with mode():
        z = emb(REPEATED)
    assert torch.equal(z, emb(REPEATED).detach())


@pytest.mark.parametrize("change", [lambda z: z.mul_(2), lambda z: z.relu_()], ids=["mul", "relu"])
def test_what_follows_may_change_the_output_in_place(change):
    torch.manual_seed(0)
    emb = WaveEmbedding(9, 4)
    ids = torch.tensor([[1, 2, 3, 1]])
    gradients = []
    for z in (emb(ids), emb.formula(ids, torch.arange(1, 5).unsqueeze(-1))):
        emb.zero_grad()
        change(z).square().sum().backward()
        gradients.append([p.grad.clone() for p in emb.parameters()])
    assert_close(*gradients, **close)
