"""Recurrent layers against a loop over time in complex numbers (App. B, Eq. 11)."""

import math

import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave.layers import LSTM, RNN, word_mask

KINDS = {"rnn": RNN, "lstm": LSTM}
SHARES = ("none", "real", "tied")
B, L, IN, H = 3, 5, 2, 3
LENGTHS = torch.tensor([5, 2, 0])
PER_STEP = 2 * IN + 2 * H + 1  # terms of the sum in a step: a word, a state and a bias

for_each_kind = pytest.mark.parametrize("kind", KINDS)
for_each_share = pytest.mark.parametrize("share", SHARES)


def times(a, b):
    """A gate acts on each part by itself."""
    return torch.complex(a.real * b.real, a.imag * b.imag)


def rnn_step(oracle, way, z, state):
    (h,) = state
    W, U, b = oracle.weight(way.from_input), oracle.weight(way.from_hidden), oracle.bias(way.bias)
    return (oracle.by_part(torch.tanh, W @ z + U @ h + b),)


def lstm_step(oracle, way, z, state):
    h, c = state
    W, U, b = oracle.weight(way.from_input), oracle.weight(way.from_hidden), oracle.bias(way.bias)
    i, f, g, o = (W @ z + U @ h + b).chunk(4)
    i, f, o = (oracle.by_part(torch.sigmoid, gate) for gate in (i, f, o))
    c = times(f, c) + times(i, oracle.by_part(torch.tanh, g))
    return times(o, oracle.by_part(torch.tanh, c)), c


def run_one(oracle, layer, sentence, starts):
    """One sentence alone, word by word. Shape: (n, in) complex -> (n, out) and end states"""
    step = rnn_step if isinstance(layer, RNN) else lstm_step
    ends, ways = [], iter(zip(layer.directions, starts, strict=True))
    for _ in range(layer.n_layers):
        sides = []
        for backwards in range(layer.n_directions):
            way, state = next(ways)
            words = sentence.flip(0) if backwards else sentence
            outputs = []
            for z in words:
                state = step(oracle, way, z, state)
                outputs.append(state[0])
            outputs = outputs[::-1] if backwards else outputs
            sides.append(torch.stack(outputs) if outputs else sentence.new_zeros(0, H))
            ends.append(state)
        sentence = torch.cat(sides, dim=1)
    return sentence, ends


def check_against_loops(oracle, layer, x, lengths, state, **close):
    """Every sentence of a batch is what the loop gives for it; padding is exactly 0."""
    out, ends = layer(x, lengths, state)
    n_ways = len(layer.directions)
    assert out.shape == (B, L, 2 * layer.out_dim)
    assert len(ends) == layer.n_states and all(e.shape == (n_ways, B, 2 * H) for e in ends)
    begins = state or (torch.zeros(n_ways, B, 2 * H),) * layer.n_states
    for i, n in enumerate([L] * B if lengths is None else lengths.tolist()):
        starts = [tuple(oracle.native(s[way, i]) for s in begins) for way in range(n_ways)]
        expected, expected_ends = run_one(oracle, layer, oracle.native(x[i, :n]), starts)
        assert_close(oracle.native(out[i, :n]), expected, **close)
        assert (out[i, n:] == 0).all()
        for way in range(n_ways):
            for end, expected_end in zip(ends, expected_ends[way], strict=True):
                assert_close(oracle.native(end[way, i]), expected_end, **close)


@for_each_kind
@for_each_share
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
@pytest.mark.parametrize(("n_layers", "bidirectional"), [(1, False), (1, True), (2, True)])
@torch.no_grad()
def test_layer_is_a_loop_of_complex_steps(
    oracle, tolerance, kind, share, dtype, lengths, n_layers, bidirectional
):
    layer = KINDS[kind](IN, H, n_layers=n_layers, bidirectional=bidirectional, share=share)
    layer = oracle.randomise(layer).to(dtype)
    x = torch.randn(B, L, 2 * IN, dtype=dtype)
    check_against_loops(oracle, layer, x, lengths, None, **tolerance[dtype])
    n_ways = len(layer.directions)
    state = tuple(torch.randn(n_ways, B, 2 * H, dtype=dtype) for _ in range(layer.n_states))
    check_against_loops(oracle, layer, x, lengths, state, **tolerance[dtype])


@for_each_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_empty_sentence_gives_zeros_and_keeps_its_state(oracle, kind, dtype, bidirectional):
    layer = oracle.randomise(KINDS[kind](IN, H, bidirectional=bidirectional)).to(dtype)
    x = torch.randn(2, 40, 2 * IN, dtype=dtype)
    for start in (torch.zeros, torch.randn):
        shape = (layer.n_directions, 2, 2 * H)
        state = tuple(start(shape, dtype=dtype) for _ in range(layer.n_states))
        out, ends = layer(x, torch.tensor([0, 3]), state)
        assert (out[0] == 0).all()
        for begin, end in zip(state, ends, strict=True):
            assert torch.equal(end[:, 0], begin[:, 0])


@for_each_kind
def test_a_batch_without_any_word_gives_zeros_and_keeps_its_state(kind):
    layer = KINDS[kind](IN, H, bidirectional=True)
    state = tuple(torch.randn(2, B, 2 * H) for _ in range(layer.n_states))
    out, ends = layer(torch.zeros(B, 0, 2 * IN), torch.zeros(B, dtype=torch.long), state)
    assert out.shape == (B, 0, 4 * H)
    assert_close(ends, state)


@for_each_kind
def test_a_long_tail_of_wild_padding_leaves_the_end_state_untouched(oracle, kind):
    layer = oracle.randomise(KINDS[kind](IN, H))
    x = torch.randn(1, 300, 2 * IN)
    x[:, 4:] *= 1e6
    _, alone = layer(x[:, :4])
    _, padded = layer(x, torch.tensor([4]))
    assert_close(padded, alone, **rounding(terms=4 * PER_STEP))


@for_each_kind
@pytest.mark.parametrize("field", ["real", "complex"])
def test_sentences_may_be_run_in_two_halves(kind, field):
    layer = KINDS[kind](IN, H, n_layers=2, field=field)
    x = torch.randn(B, L, 2 * IN if field == "complex" else IN)
    whole, end = layer(x)
    first, state = layer(x[:, :2])
    second, later_end = layer(x[:, 2:], state=state)
    close = rounding(terms=2 * L * PER_STEP)
    assert_close(torch.cat([first, second], dim=1), whole, **close)
    assert_close(later_end, end, **close)


@for_each_kind
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_gets_no_gradient(kind, bidirectional):
    layer = KINDS[kind](IN, H, n_layers=2, bidirectional=bidirectional)
    x = torch.randn(B, L, 2 * IN, requires_grad=True)
    out, ends = layer(x, LENGTHS)
    (out.square().sum() + sum(e.square().sum() for e in ends)).backward()
    mask = word_mask(LENGTHS, L)
    assert (x.grad[~mask] == 0).all() and (x.grad[mask] != 0).any()


@for_each_kind
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_lengths_may_be_of_any_integer_type(kind, dtype):
    layer = KINDS[kind](IN, H, bidirectional=True)
    x = torch.randn(B, L, 2 * IN)
    assert_close(layer(x, LENGTHS.to(dtype)), layer(x, LENGTHS))


@for_each_kind
def test_dropout_lies_between_layers_in_training_only(kind):
    x = torch.randn(B, L, 2 * IN)
    one, two = (KINDS[kind](IN, H, n_layers=n, dropout=0.5) for n in (1, 2))
    assert torch.equal(one(x)[0], one(x)[0])
    assert not torch.equal(two(x)[0], two(x)[0])
    two.eval()
    assert torch.equal(two(x)[0], two(x)[0])


@pytest.mark.parametrize(
    ("field", "share"), [("real", "none"), *(("complex", share) for share in SHARES)]
)
def test_a_fresh_lstm_remembers(field, share):
    """Its forget gates start open, at sigmoid(1) = 0.73: nothing read, that much is kept."""
    parts = 2 if field == "complex" else 1
    layer = LSTM(IN, H, field=field, share=share)
    state = (torch.zeros(1, 1, parts * H), torch.ones(1, 1, parts * H))
    _, (_, c) = layer(torch.zeros(1, 1, parts * IN), state=state)
    assert_close(c, torch.full_like(c, 1 / (1 + math.exp(-1))))


def test_word_mask_is_true_up_to_the_length():
    expected = [[True] * 5, [True, True, False, False, False], [False] * 5]
    assert word_mask(LENGTHS, L).tolist() == expected


@pytest.mark.parametrize("kind", [RNN, LSTM])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_may_hold_anything(kind, bidirectional):
    layer = kind(2, 3, bidirectional=bidirectional)
    x, lengths = torch.randn(2, 4, 4), torch.tensor([4, 2])
    odd = x.clone()
    odd[1, 2:] = torch.nan
    out, state = layer(odd, lengths=lengths)
    expected, expected_state = layer(x, lengths=lengths)
    assert torch.equal(out, expected)
    assert all(map(torch.equal, state, expected_state))
    out.sum().backward()
    assert all(w.grad.isfinite().all() for w in layer.parameters())
