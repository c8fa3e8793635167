"""Every gradient is the slope of its function, checked by finite differences in float64."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

from wordwave import WaveEmbedding, build_embedding
from wordwave import complex as cx
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
)
from wordwave.positions import POSITIONS

B, L, D = 2, 3, 2
SHARES = ("none", "real", "tied")
IDS = torch.tensor([[1, 2, 1], [3, 0, 0]])
LENGTHS = torch.tensor([3, 1])
MASK = torch.tensor([[True, True, True], [True, False, False]])
NOTHING = torch.tensor([[True, True, True], [False, False, False]])


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check_module(module, run, *inputs):
    """Gradients with respect to all parameters and inputs of a module in float64."""
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach().double().requires_grad_() for p in module.parameters()]
    module.double()

    class Runner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *x):
            return run(self.inner, *x)

    runner = Runner()

    def function(*tensors):
        parameters = dict(zip((f"inner.{name}" for name in names), tensors, strict=False))
        return functional_call(runner, parameters, tensors[len(names) :])

    assert gradcheck(function, (*values, *inputs))


def test_phasor_once_and_twice():
    phase = leaf(2, 3)
    assert gradcheck(cx.phasor, phase)
    assert gradgradcheck(cx.phasor, phase)


def test_magnitude_away_from_zero():
    z = leaf(2, 6)
    z.data += torch.sign(z.data)
    assert gradcheck(cx.magnitude, z)
    assert gradgradcheck(cx.magnitude, z)


def test_multiply_scale_rotate_and_conj():
    a, b = leaf(2, 6), leaf(2, 6)
    assert gradcheck(cx.multiply, (a, b))
    assert gradcheck(cx.scale, (a, leaf(2, 3)))
    assert gradcheck(cx.rotate, a)
    assert gradcheck(cx.conj, a)


@pytest.mark.parametrize(
    "sharing", list(itertools.product((None, "word", "dim"), repeat=3)), ids=str
)
@pytest.mark.parametrize("phase", [False, True])
@pytest.mark.parametrize("damping", [False, True])
def test_wave_embedding(sharing, phase, damping):
    emb = WaveEmbedding(
        4,
        D,
        share_frequency=sharing[0],
        share_amplitude=sharing[1],
        share_phase=sharing[2],
        phase=phase,
        damping=damping,
        padding_idx=None,  # a padding row has no gradient by design, not by calculus
    )
    check_module(emb, lambda m: m(IDS, positions=torch.tensor([1, 2, 7])))
    check_module(emb, lambda m, z: m.shift(IDS, z, 3), leaf(B, L, 2 * D))


@pytest.mark.parametrize("kind", ["none", "pe", "tpe", "complex-vanilla"])
def test_other_embeddings(kind):
    emb = build_embedding(
        kind, 4, 2, padding_idx=None, **({"max_length": 4} if kind == "pe" else {})
    )
    check_module(emb, lambda m: m(IDS))


@pytest.mark.parametrize("share", SHARES)
def test_linear_conv_and_feed_forward(share):
    x = leaf(B, L, 2 * D)
    check_module(Linear(D, 3, share=share), lambda m, x: m(x), x)
    check_module(Conv1d(D, 2, 2, padding=1, share=share), lambda m, x: m(x), x)
    check_module(FeedForward(D, 3, share=share, activation=torch.tanh), lambda m, x: m(x), x)


@pytest.mark.parametrize("kind", [RNN, LSTM])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_recurrent(kind, share, lengths):
    layer = kind(D, 2, bidirectional=True, share=share)
    starts = [leaf(2, B, 4) for _ in range(layer.n_states)]

    def run(module, x, *state):
        out, ends = module(x, lengths, state)
        return (out, *ends)

    check_module(layer, run, leaf(B, L, 2 * D), *starts)


@pytest.mark.parametrize("score", ["magnitude", "real"])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("mask", [None, MASK, NOTHING], ids=["all", "some", "nothing"])
def test_attention(score, share, mask):
    layer = MultiHeadAttention(D, 2, score=score, share=share)
    check_module(layer, lambda m, x: m(x, mask=mask, causal=True), leaf(B, L, 2 * D))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_positions(position, causal):
    layer = MultiHeadAttention(2 * D, 2, field="real", score="real", position=position, bias=False)
    with torch.no_grad():
        for parameter in layer.position.parameters():
            parameter.normal_()
    positions = torch.tensor([1, 2, 7])
    run = lambda m, x: m(x, mask=MASK, causal=causal, positions=positions)  # noqa: E731
    check_module(layer, run, leaf(B, L, 2 * D))


@pytest.mark.parametrize("score", ["magnitude", "real"])
def test_cross_attention(score):
    layer = MultiHeadAttention(D, 1, score=score)
    run = lambda m, x, source: m(x, source)  # noqa: E731
    check_module(layer, run, leaf(B, L, 2 * D), leaf(B, 2, 2 * D))


@pytest.mark.parametrize("field", ["real", "complex"])
def test_norms(field):
    width = 3 * (2 if field == "complex" else 1)
    x = leaf(B, L, width)
    check_module(LayerNorm(3, field=field), lambda m, x: m(x), x)

    def words(module, x):
        return module(x, MASK)[MASK]

    check_module(BatchNorm(3, field=field), words, x)
    check_module(BatchNorm(3, field=field).eval(), words, x)
