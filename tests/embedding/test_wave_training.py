"""How a wave starts and what training may move."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from tolerance import approx
from wordwave import WaveEmbedding

SHARES = (None, "word", "dim")
V, D = 7, 4
IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]])
KINDS = ("sinusoidal", "log-spaced", "log-uniform", "uniform")


def step(emb, optimizer, ids=IDS):
    optimizer.zero_grad()
    (emb(ids) - 1).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("sharing", list(itertools.product(SHARES, repeat=3)), ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_padding_gets_no_gradient(sharing, sparse):
    frequency, amplitude, phase = sharing
    emb = WaveEmbedding(
        V,
        D,
        share_frequency=frequency,
        share_amplitude=amplitude,
        share_phase=phase,
        phase=True,
        damping=frequency is not None,  # so that the fast path is among the cases
        sparse=sparse,
    )
    emb(IDS).square().sum().backward()  # a loss that feels padding too
    for table in (t for t in emb.children() if t.per_word):
        gradient = table.weight.grad
        assert gradient.is_sparse == sparse
        assert (gradient.to_dense()[0] == 0).all()
    without = emb(IDS[:, :3]).square().sum()
    without = without + emb(IDS[:1, 3:], positions=torch.tensor([4, 5])).square().sum()
    expected = torch.autograd.grad(without, list(emb.parameters()))
    for parameter, gradient in zip(emb.parameters(), expected, strict=True):
        assert_close(parameter.grad.to_dense(), gradient.to_dense(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [None, "dim"])
@pytest.mark.parametrize("damping", [False, True])
@pytest.mark.parametrize(
    ("sparse", "optimizer"), [(False, torch.optim.Adam), (True, torch.optim.SparseAdam)]
)
def test_optimiser_moves_the_words_in_use_and_no_padding(share, damping, sparse, optimizer):
    emb = WaveEmbedding(
        V,
        D,
        share_frequency=share,
        share_amplitude=share,
        share_phase=share,
        phase=True,
        damping=damping,
        sparse=sparse,
    )
    before = {name: p.detach().clone() for name, p in emb.named_parameters()}
    trained = optimizer(emb.parameters(), lr=0.1)
    for _ in range(2):
        step(emb, trained, IDS[:, :4])
    for name, parameter in emb.named_parameters():
        moved = (parameter != before[name]).any(dim=1)
        assert moved.tolist() == [False, True, True, True, True, True, True], name
    assert (emb(IDS)[IDS == 0] == 0).all()


def test_sparse_training_takes_the_steps_of_dense_training():
    torch.manual_seed(1)
    dense, sparse = WaveEmbedding(V, D), WaveEmbedding(V, D, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    for emb in (dense, sparse):
        optimizer = torch.optim.SGD(emb.parameters(), lr=0.01)
        for _ in range(3):
            step(emb, optimizer)
    assert_close(dense.state_dict(), sparse.state_dict())


def test_a_batch_of_nothing_but_padding_trains_nothing():
    emb = WaveEmbedding(V, D, sparse=True)
    before = [p.detach().clone() for p in emb.parameters()]
    step(emb, torch.optim.SparseAdam(emb.parameters()), torch.zeros(2, 3, dtype=torch.long))
    assert_close(list(emb.parameters()), before)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    ("option", "table"), [("freeze_vectors", "amplitude"), ("freeze_frequency", "frequency")]
)
def test_frozen_tables_stay_and_the_other_learns(share, option, table):
    emb = WaveEmbedding(V, D, share_frequency=share, share_amplitude=share, **{option: True})
    before = {name: p.detach().clone() for name, p in emb.named_parameters()}
    step(emb, torch.optim.Adam([p for p in emb.parameters() if p.requires_grad]))
    for name, parameter in emb.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith(table)


@pytest.mark.parametrize("share", [None, "word"])
def test_sinusoidal_start_spreads_over_the_dimensions(share):
    emb = WaveEmbedding(V, D, share_frequency=share, padding_idx=None)
    expected = torch.tensor([10_000 ** (-k / D) for k in range(D)])
    assert_close(emb.frequency.weight.detach(), expected.expand_as(emb.frequency.weight))


@pytest.mark.parametrize("share", [None, "word"])
def test_sinusoidal_start_of_a_single_dimension_is_frequency_one(share):
    emb = WaveEmbedding(V, 1, share_frequency=share, padding_idx=None)
    assert (emb.frequency.weight == 1).all()


def test_log_spaced_start_runs_from_high_to_low_by_a_constant_ratio():
    emb = WaveEmbedding(
        V, D, frequency_init="log-spaced", frequency_range=(0.01, 2.0), padding_idx=None
    )
    row = emb.frequency.weight[0].detach()
    assert row[[0, -1]].tolist() == approx([2.0, 0.01], terms=4, size=0.01)
    ratios = row[1:] / row[:-1]
    assert_close(ratios, ratios[:1].expand(D - 1), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_frequency_per_word_starts_inside_the_spectrum(kind):
    emb = WaveEmbedding(V, D, share_frequency="dim", frequency_init=kind, padding_idx=None)
    assert emb.frequency.weight.shape == (V, 1)
    assert (emb.frequency.weight.abs() <= 1).all() and (emb.frequency.weight != 0).all()


@pytest.mark.parametrize("kind", ["log-uniform", "uniform"])
@pytest.mark.parametrize("share", SHARES)
def test_random_starts_fill_their_range(kind, share):
    emb = WaveEmbedding(
        2000, 200, share_frequency=share, frequency_init=kind, frequency_range=(0.1, 0.4)
    )
    values = emb.frequency.weight.detach()[-1 if share == "word" else 1 :]
    assert values.min() >= 0.1 * (1 - 1e-6) and values.max() <= 0.4 * (1 + 1e-6)
    middle = 0.25 if kind == "uniform" else math.sqrt(0.1 * 0.4)
    assert values.median().item() == pytest.approx(middle, rel=0.2)


@pytest.mark.parametrize(
    ("share", "shape"), [(None, (V, D)), (None, (D,)), ("word", (D,)), ("dim", (V, 1)), (None, ())]
)
def test_given_frequencies_are_taken_as_they_are(share, shape):
    given = torch.randn(shape, dtype=torch.float64)
    emb = WaveEmbedding(V, D, share_frequency=share, frequency_init=given, padding_idx=None)
    assert emb.frequency.weight.dtype == torch.float32
    assert_close(emb.frequency.weight, given.float().expand_as(emb.frequency.weight))


def test_given_frequencies_are_copied_not_aliased():
    given = torch.ones(V, D)
    emb = WaveEmbedding(V, D, frequency_init=given, vectors=given)
    step(emb, torch.optim.SGD(emb.parameters(), lr=0.1))
    assert torch.equal(given, torch.ones(V, D))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_become_amplitudes(dtype):
    vectors = torch.randn(V, D, dtype=dtype)
    emb = WaveEmbedding(V, D, vectors=vectors)
    assert_close(emb.amplitude.weight[1:], vectors[1:].float())
    assert (emb.amplitude.weight[0] == 0).all()  # padding, whatever the file said


def test_amplitudes_start_with_variance_one_and_damping_close_to_none():
    emb = WaveEmbedding(500, 100, damping=True)
    assert emb.amplitude.weight[1:].std().item() == pytest.approx(1, abs=0.02)
    ids = torch.tensor([1])
    kept = emb(ids, positions=40).norm() / emb(ids, positions=0).norm()
    assert kept.item() == pytest.approx(0.9, abs=0.01)
