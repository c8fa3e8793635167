"""Sums of waves by kernels are those of torch: values, gradients and dropout, on every option."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tolerance import rounding
from wordwave.compiled import SWITCH, compiled
from wordwave.embedding import build_embedding
from wordwave.embedding.summed import Added, bigrams_of, summed, summed_by_torch
from wordwave.embedding.table import Bigrams, Table
from wordwave.text.batching import Batch, Sentences

V, D, N = 40, 5, 12
KINDS = {
    "none": ("none", {}),
    "complex-vanilla": ("complex-vanilla", {}),
    "waves": ("complex-order", {}),
    "phases": ("complex-order", {"phase": True}),
    "shared": ("complex-order", {"share_frequency": "word"}),
    "shared, phases": ("complex-order", {"share_frequency": "word", "phase": True}),
    "frozen": ("complex-order", {"freeze_frequency": True}),
    "vectors frozen": ("complex-order", {"freeze_vectors": True}),
}
SLOW = {
    "one frequency a word": ("complex-order", {"share_frequency": "dim"}),
    "damped": ("complex-order", {"damping": True}),
    "pe": ("pe", {}),
    "tpe": ("tpe", {}),
}


def batch_of(seed, *, positions=None, one_each=True):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 7, (6,), generator=generator)
    n = int(lengths.sum())
    ids = torch.randint(1, V, (n,), generator=generator)
    weights = torch.rand(n, generator=generator)
    sentences = Sentences(ids, lengths, weights=weights, positions=positions)
    return sentences.batch(torch.randperm(6, generator=generator)[:4])._replace(one_each=one_each)


def outcome(compute, parameters, upstream):
    for parameter in parameters:
        parameter.grad = None
    x = compute()
    x.backward(upstream)
    found = [None if p.grad is None else p.grad.to_dense().clone() for p in parameters]
    return [x.detach(), *found]


def check(embedding, batch, power, dropout, added, seed):
    parameters = [p for p in embedding.parameters() if p.requires_grad]
    parameters += [] if added is None else [added.table.weight]
    upstream = torch.randn(batch.size, embedding.out_dim)
    torch.manual_seed(seed)
    drawn = int(torch.randint(2**32, ()))
    torch.manual_seed(seed)
    options = {"power": power, "dropout": dropout, "added": added}
    fast = outcome(lambda: summed(embedding, batch, **options), parameters, upstream)
    slow = outcome(
        lambda: summed_by_torch(embedding, batch, power, dropout, drawn, added),
        parameters,
        upstream,
    )
    reach = float(batch.positions.max())
    for one, other in zip(fast, slow, strict=True):
        if one is not None or other is not None:
            size = 10 * reach  # a frequency's gradient is that of an angle, times the position
            torch.testing.assert_close(one, other, **rounding(terms=20, size=size))


@pytest.mark.parametrize("kind", [*KINDS, *SLOW])
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    power=st.sampled_from([0.0, 0.5, 1.0]),
    dropout=st.sampled_from([0.0, 0.3]),
    adds=st.booleans(),
)
def test_kernels_and_torch_agree(kind, seed, sparse, power, dropout, adds):
    torch.manual_seed(seed)
    name, options = (KINDS | SLOW)[kind]
    embedding = build_embedding(name, V, 6 if kind == "tpe" else D, sparse=sparse, **options)
    batch = batch_of(seed)
    added = None
    if adds and kind != "damped":
        table = Table(torch.randn(N, embedding.dim), vocab_size=N, sparse=sparse, padding_idx=0)
        added = Added(torch.randint(0, N, batch.ids.shape), table, 0.5)
    check(embedding, batch, power, dropout, added, seed)


@pytest.mark.skipif(compiled() is None, reason="needs numba")
def test_sparse_gradients_add_up_from_a_batch_without_known_bigrams():
    table = Bigrams(N, D, n_words=V, sparse=True)
    table.assign(torch.tensor([2 * V + 3]))
    embedding = build_embedding("complex-order", V, D, padding_idx=0, sparse=True)
    known = Sentences.from_lists([[2, 3, 4]]).batch([0])
    without = Sentences.from_lists([[4, 5]]).batch([0])
    for batch in (without, known, without, known):
        summed(embedding, batch, added=bigrams_of(table, batch)).sum().backward()
    found = table.weight.grad.to_dense().clone()
    table.weight.grad = None
    summed(embedding, known, added=bigrams_of(table, known)).sum().backward()
    torch.testing.assert_close(found, 2 * table.weight.grad.to_dense())
    assert found.count_nonzero() == D


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_are_used(kind):
    """Or the test above compares torch with itself."""
    name, options = KINDS[kind]
    x = summed(build_embedding(name, V, D, **options), batch_of(0))
    assert x.grad_fn.name() == "_SumBackward"


@pytest.mark.parametrize("at", [1, 500, 100_000, 1_000_000])
def test_phases_are_exact_at_any_position(at):
    torch.manual_seed(0)
    embedding = build_embedding("complex-order", V, D, frequency_range=(-3.0, 3.0),
                                frequency_init="uniform")  # fmt: skip
    batch = batch_of(0)
    batch = batch._replace(positions=batch.positions + at)
    exact = embedding.double()(batch.ids, batch.positions) * batch.weights.unsqueeze(1)
    exact = torch.zeros(4, 2 * D, dtype=torch.double).index_add(0, batch.owners, exact)
    found = summed(embedding.float(), batch)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


def test_several_ids_at_one_position_are_a_word_of_parts():
    torch.manual_seed(0)
    embedding = build_embedding("complex-order", V, D)
    ids, positions = torch.tensor([2, 3, 4, 5]), torch.tensor([1, 1, 2, 2])
    weights = torch.tensor([0.5, 0.5, 1.0, 0.0])
    sentences = Sentences(ids, torch.tensor([4]), positions=positions, weights=weights)
    expected = (embedding(ids, positions) * weights.unsqueeze(1)).sum(0)
    batch = sentences.batch([0])
    assert batch.n_words == 2 and not batch.one_each
    torch.testing.assert_close(summed(embedding, batch)[0], expected)
    check(embedding, batch, 1.0, 0.0, None, 0)


def test_padding_adds_nothing_and_ids_out_of_range_are_refused():
    embedding = build_embedding("complex-order", V, D, sparse=True)
    with torch.no_grad():
        embedding.amplitude.weight[0] = 1.0  # as no training would leave it
    ones = torch.ones(3)
    batch = Batch(torch.tensor([0, 3, 0]), torch.tensor([0, 3]), torch.arange(1, 4), ones)
    check_row = summed(embedding, batch)
    check_row.sum().backward()
    assert embedding.amplitude.weight.grad.coalesce().indices().tolist() == [[3]]
    for bad in (-1, V):
        with pytest.raises(
            ValueError, match=rf"ids must be in \[0, {V}\), got {bad} at index \(1,"
        ):
            summed(embedding, batch._replace(ids=torch.tensor([1, bad, 2])))


@given(seed=st.integers(0, 1000), n=st.integers(1, 200), drops=st.booleans())
def test_bigrams_have_the_same_rows_on_both_paths(seed, n, drops):
    batch = batch_of(seed)
    table = Bigrams(n, 2, n_words=V, dropout=0.5 * drops)
    table.assign(torch.randperm(V * V)[:100] + V)
    with pytest.MonkeyPatch.context() as patched:
        torch.manual_seed(seed)
        fast = bigrams_of(table, batch).rows
        patched.setenv(SWITCH, "1")
        torch.manual_seed(seed)
        assert torch.equal(bigrams_of(table, batch).rows, fast)
    assert (fast[batch.starts[:-1][batch.lengths > 0]] == 0).all()
    assert int(fast.min()) >= 0 and int(fast.max()) <= n


@pytest.mark.parametrize(
    "change",
    [
        {"starts": torch.tensor([0, 3, 400])},
        {"starts": torch.tensor([0, 9, 4])},
        {"positions": torch.arange(1, 3)},
        {"weights": torch.ones(9)},
    ],
    ids=["too long", "falling", "positions", "weights"],
)
def test_a_malformed_batch_is_refused(change):
    embedding = build_embedding("complex-order", V, D, sparse=True)
    batch = Batch(
        torch.tensor([1, 2, 3, 4]), torch.tensor([0, 3, 4]), torch.arange(1, 5), torch.ones(4)
    )
    with pytest.raises(ValueError, match="batch"):
        summed(embedding, batch._replace(**change))


def test_dropout_keeps_its_share_and_the_scale():
    from wordwave.dropout import kept

    for p in (0.1, 0.5, 0.9):
        factors = kept(p, 12345, 200, 500)
        share = float((factors > 0).float().mean())
        assert abs(share - (1 - p)) < 5 * math.sqrt(p * (1 - p) / factors.numel())
        assert factors.max() == pytest.approx(1 / (1 - p))
        assert not torch.equal(factors, kept(p, 12346, 200, 500))


@pytest.mark.skipif(compiled() is None, reason="needs numba")
@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 200])
def test_rows_in_use_are_the_distinct_ids_in_their_order(n_rows):
    every, some = np.arange(n_rows), np.random.default_rng(0).integers(0, n_rows, 40)
    for ids, padding in ((every, -1), (every[::-1].copy(), 0), (some, -1), (every[:0], 0)):
        rows, slots = compiled().rows_in_use(ids, n_rows, padding)
        assert rows.tolist() == sorted(set(ids.tolist()) - {padding})
        assert slots[rows].tolist() == list(range(len(rows)))
