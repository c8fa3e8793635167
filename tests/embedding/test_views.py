"""Waves at positions counted from the start, the end, relative to the length, or in contexts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tolerance import rounding
from wordwave import WaveEmbedding
from wordwave.embedding.views import WINDOW, WaveViews

V, D = 12, 3
VIEWS = ("start", "end", "relative")
SHARING = (None, "word", "dim")
sentences = st.lists(st.integers(1, V - 1), min_size=1, max_size=9)
orders = st.permutations(VIEWS).flatmap(lambda v: st.sampled_from([v[:1], v[:2], v])).map(tuple)
close = rounding(terms=16)


def views(*names, **options):
    return WaveViews(V, D, views=names or VIEWS, phase=True, **options)


def parts(z, n=3):
    """The complex numbers of each view, from [all real parts | all imaginary parts]."""
    real, imag = z.double().chunk(2, dim=-1)
    return torch.complex(real, imag).unflatten(-1, (n, D)).unbind(-2)


def oracle(emb, ids, positions):
    """r·e^{i(ω_v·p_v + θ)} in complex128, sentence by sentence."""

    def value(table):
        return table.weight.detach().double().expand(V, D)

    found = []
    tables = [emb.frequency, *emb.more_frequencies]
    for row, given_positions in zip(ids, positions.double().expand(ids.shape), strict=True):
        words, pos = row[row != 0], given_positions[row != 0]
        counted = {"start": pos, "end": pos.max() + 1 - pos, "relative": pos / (pos.max() + 1)}
        waves = []
        for name, table in zip(emb.views, tables, strict=True):
            angles = value(table)[words] * counted[name].unsqueeze(-1) + value(emb.phase)[words]
            waves.append(torch.polar(torch.ones_like(angles), angles) * value(emb.amplitude)[words])
        padded = torch.zeros(len(row), len(emb.views) * D, dtype=torch.complex128)
        padded[row != 0] = torch.cat(waves, dim=-1)
        found.append(padded)
    return torch.stack(found)


@pytest.mark.parametrize("share", SHARING)
@given(rows=st.lists(sentences, min_size=1, max_size=3), order=orders, start=st.integers(0, 5000))
def test_every_view_is_the_wave_at_its_positions(share, rows, order, start):
    ids = torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, rows)), batch_first=True)
    emb = views(*order, share_frequency=share).double()
    positions = torch.arange(ids.shape[1]) + start
    found = emb(ids, positions)
    assert found.shape == (*ids.shape, 2 * D * len(order)) and emb.out_dim == found.shape[-1]
    expected = oracle(emb, ids, positions)
    assert_close(torch.cat(parts(found, len(order)), dim=-1), expected, rtol=1e-9, atol=1e-9)


def context_oracle(emb, words, positions):
    """√D·Σ_k r_j·c_k·(r₁·e^{iω})^(p_j − p_k)·e^{iθ_j} in complex128, word by word."""
    r, c, theta = (t.weight.detach() for t in (emb.amplitude, emb.context, emb.phase))
    omega = emb.more_frequencies[emb.views.index("context") - 1].weight.detach()[0]
    rho = torch.nn.functional.softplus(emb.context_damping.weight.detach()[0])
    found = torch.zeros(len(words), D, dtype=torch.complex128)
    for j in range(len(words)):
        for k in range(max(j - WINDOW, 0), j):
            d = positions[j] - positions[k]
            size = D**0.5 * r[words[j]] * c[words[k]] * torch.exp(-rho * abs(d))
            found[j] += size * torch.exp(1j * (omega * d + theta[words[j]]))
    return found


@given(
    rows=st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=40), min_size=1, max_size=3),
    steps=st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_a_context_holds_the_words_before_as_damped_waves_of_their_distance(rows, steps):
    ids = torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, rows)), batch_first=True)
    emb = views("start", "context").double()
    own = torch.tensor(steps).cumsum(0)[: ids.shape[1]]
    for positions in (None, own):
        found = parts(emb(ids, positions), 2)[1]
        places = torch.arange(40) if positions is None else positions
        for row, sentence in zip(found, rows, strict=True):
            n = len(sentence)
            assert_close(row[:n], context_oracle(emb, sentence, places), rtol=1e-9, atol=1e-9)
            assert not row[n:].any()


@given(sentence=st.lists(st.integers(1, V - 1), min_size=2, max_size=9), offset=st.integers(1, 99))
def test_contexts_depend_on_distances_and_on_the_order_of_words(sentence, offset):
    emb, ids = views("start", "context").double(), torch.tensor(sentence)
    context = parts(emb(ids), 2)[1]
    moved = parts(emb(ids, torch.arange(len(ids)) + offset), 2)[1]
    assert_close(moved, context, rtol=1e-9, atol=1e-9)
    two = torch.tensor([3, 4])
    forward, backward = (parts(emb(words), 2)[1].sum(0) for words in (two, two.flip(0)))
    assert not torch.allclose(forward, backward)


@given(sentence=sentences, extra=st.integers(0, 5), low=st.integers(-9, 9))
def test_padding_changes_no_word_and_stays_zero(sentence, extra, low):
    emb, ids = views(*VIEWS, "context"), torch.tensor([sentence])
    padded = torch.nn.functional.pad(ids, (0, extra))
    n = len(sentence)
    for positions in (None, torch.arange(low, low + n + extra)):
        alone = emb(ids, None if positions is None else positions[:n])
        found = emb(padded, positions)
        assert_close(found[:, :n], alone, **close)
        assert not found[:, n:].any()


@pytest.mark.parametrize("share", SHARING)
@given(rows=st.lists(sentences, min_size=1, max_size=3), order=orders, start=st.integers(0, 5000))
def test_the_fast_sum_is_the_sum(share, rows, order, start):
    ids = torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, rows)), batch_first=True)
    for views_of, phase in ((order, False), (order, True), ((*order, "context"), False)):
        emb = WaveViews(V, D, views=views_of, share_frequency=share, phase=phase).double()
        for positions in (None, start, torch.arange(ids.shape[1]) + start):
            expected = emb(ids, positions).sum(1)
            assert_close(emb.summed(ids, positions), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 4, WINDOW, 2 * WINDOW, 2 * WINDOW + 1, 5 * WINDOW - 3])
@pytest.mark.parametrize("dim", [3, 4, 48])
def test_gradients_of_the_fast_sum_are_those_of_the_sum(length, dim):
    emb = WaveViews(V, dim, views=(*VIEWS, "context"), share_frequency="word").double()
    ids = torch.randint(1, V, (3, length))
    ids[1, length // 2 :], ids[2] = 0, 0
    assert_close(emb.summed(ids), emb(ids).sum(1), rtol=1e-9, atol=1e-9)
    gradients = []
    for total in (emb.summed(ids), emb(ids).sum(1)):
        weighted = (total * torch.arange(total.shape[-1])).square().sum()
        gradients.append(torch.autograd.grad(weighted, tuple(emb.parameters())))
    for fast, slow in zip(*gradients, strict=True):
        assert_close(fast, slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("share", SHARING)
def test_the_start_alone_is_a_wave_embedding(share):
    torch.manual_seed(1)
    emb = views("start", share_frequency=share)
    torch.manual_seed(1)
    wave = WaveEmbedding(V, D, phase=True, share_frequency=share)
    ids = torch.tensor([[3, 1, 4, 1], [5, 9, 0, 0]])
    assert emb.state_dict().keys() == wave.state_dict().keys()
    for positions in (None, 7, torch.tensor([2.5, 0, -3, 9])):
        assert_close(emb(ids, positions), wave(ids, positions), **close)


@given(sentence=sentences)
def test_reversing_a_sentence_exchanges_start_and_end(sentence):
    emb = views("start", "end")  # which begin with the same frequencies
    ids = torch.tensor([sentence])
    start, end = parts(emb(ids), 2)
    reversed_start, reversed_end = parts(emb(ids.flip(-1)), 2)
    assert_close(reversed_start.flip(1), end, **close)
    assert_close(reversed_end.flip(1), start, **close)


@given(
    word=st.integers(1, V - 1), n=st.integers(1, 9), place=st.integers(1, 9), k=st.integers(1, 4)
)
def test_a_relative_position_is_a_fraction_of_the_length_at_any_scale(word, n, place, k):
    place = min(place, n)
    emb = views("relative")
    short, long = torch.full((n,), word), torch.full((k * (n + 1) - 1,), word)
    assert_close(emb(short)[place - 1], emb(long)[k * place - 1], **close)


def test_positions_may_be_of_any_shape_and_there_may_be_no_words():
    for padding_idx in (0, None):
        emb = views(*VIEWS, "context", padding_idx=padding_idx)
        ids = torch.tensor([[3, 1, 4], [5, 9, 2]])
        for positions in (4, torch.tensor([[1], [2]]), torch.tensor([1.5, 2.5, 9])):
            spread = torch.as_tensor(positions).expand(ids.shape)
            assert_close(emb(ids, positions), emb(ids, spread))
            assert emb(ids, positions).isfinite().all()
        assert emb(ids, torch.tensor([-3, -2, -1])).isfinite().all()
        assert emb(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, emb.out_dim)
    assert not views(*VIEWS, "context")(torch.zeros(2, 3, dtype=torch.long)).any()


@pytest.mark.parametrize("share", SHARING)
def test_gradients_are_right_and_reach_every_frequency(share):
    emb = views(*VIEWS, "context", share_frequency=share, share_amplitude=share).double()
    ids = torch.tensor([[3, 1, 4], [5, 9, 2]])
    names = [name for name, _ in emb.named_parameters()]

    def embedded(*weights):
        return torch.func.functional_call(emb, dict(zip(names, weights, strict=True)), (ids,))

    assert torch.autograd.gradcheck(embedded, tuple(emb.parameters()))
    emb(torch.tensor([[3, 1, 4], [5, 9, 0]])).sum().backward()
    for table in (emb.frequency, *emb.more_frequencies, emb.context, emb.context_damping):
        assert table.weight.grad.any() and (not table.per_word or not table.weight.grad[0].any())


def test_sparse_gradients_are_the_dense_ones():
    dense, sparse = (views(*VIEWS, "context", sparse=is_sparse) for is_sparse in (False, True))
    sparse.load_state_dict(dense.state_dict())
    ids = torch.tensor([[3, 1, 3], [5, 9, 0]])
    for emb in (dense, sparse):
        emb(ids).square().cumsum(-1).sum().backward()
    for one, other in zip(dense.parameters(), sparse.parameters(), strict=True):
        assert other.grad.is_sparse == (len(other) == V)
        assert_close(other.grad.to_dense(), one.grad, **rounding(terms=64, size=100))


def test_resize_keeps_known_words_in_all_views():
    emb, ids = views(*VIEWS, "context"), torch.tensor([[3, 1, 4]])
    before = emb(ids)
    emb.resize(V + 5)
    assert_close(emb(ids), before)
    assert emb(torch.tensor([[V + 4, 2]])).shape == (1, 2, emb.out_dim)
    emb.resize(5)
    assert_close(emb(ids), before)
    with pytest.raises(ValueError, match="ids must be in"):
        emb(torch.tensor([7]))


def test_what_makes_no_sense_is_refused():
    for names in ((), ("start", "middle"), "start"):
        with pytest.raises(ValueError, match="views must be one or more of 'start'"):
            WaveViews(V, D, views=names)
    with pytest.raises(ValueError, match="views must begin with start, end or relative"):
        views("context", "start")
    with pytest.raises(ValueError, match="damping goes with a single view"):
        views(damping=True)
    with pytest.raises(ValueError, match="counted from the start"):
        views().shift(torch.tensor([1]), torch.zeros(1, 6 * D), 1)
