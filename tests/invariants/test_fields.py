"""The two fields agree: a real layer is a complex one without imaginary parts, and is torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tolerance import rounding
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    Dropout,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
)

B, L, D = 2, 5, 4
MASK = torch.tensor([[True] * 5, [True, True, True, False, False]])
LENGTHS = MASK.sum(1)

# name: (how to build it over a field, how to run it)
LAYERS = {
    "linear": (lambda **o: Linear(D, 3, **o), lambda m, x: m(x)),
    "conv": (lambda **o: Conv1d(D, 3, 3, padding=1, **o), lambda m, x: m(x)),
    "feed-forward": (lambda **o: FeedForward(D, 7, **o), lambda m, x: m(x)),
    "rnn": (
        lambda **o: RNN(D, 3, n_layers=2, bidirectional=True, **o),
        lambda m, x: m(x, LENGTHS)[0],
    ),
    "lstm": (
        lambda **o: LSTM(D, 3, n_layers=2, bidirectional=True, **o),
        lambda m, x: m(x, LENGTHS)[0],
    ),
    "attention-magnitude": (
        lambda **o: MultiHeadAttention(D, 2, **o),
        lambda m, x: m(x, mask=MASK, causal=True),
    ),
    "attention-real": (
        lambda **o: MultiHeadAttention(D, 2, score="real", **o),
        lambda m, x: m(x, mask=MASK, causal=True),
    ),
    "layer-norm": (lambda **o: LayerNorm(D, **o), lambda m, x: m(x)),
    "batch-norm": (lambda **o: BatchNorm(D, **o), lambda m, x: m(x, MASK)),
    "batch-norm-eval": (lambda **o: BatchNorm(D, **o), lambda m, x: m.eval()(x)),
    "dropout": (lambda **o: Dropout(0.4, **o), lambda m, x: m(x)),
}
WITH_WEIGHTS = [
    n for n in LAYERS if n not in ("layer-norm", "batch-norm", "batch-norm-eval", "dropout")
]


@torch.no_grad()
def copy_as_real_parts(real, complex_):
    """Give a complex layer the weights of a real one, with every imaginary part 0."""
    source = dict(real.named_parameters())
    for name, parameter in complex_.named_parameters():
        parameter.zero_()
        if name in source and parameter.shape == source[name].shape:  # a matrix A
            parameter.copy_(source[name])
        elif name in source and parameter.dim() == 3:  # a bias (gates, parts, out)
            parameter[:, :1].copy_(source[name])
        elif name in source:  # a scale or shift [real | imag] of a norm
            parameter[: parameter.numel() // 2].copy_(source[name])
        else:
            assert name.endswith(".b")  # the B of A + i·B


@pytest.mark.parametrize(
    ("name", "share"),
    [*((name, "none") for name in LAYERS), *((name, "real") for name in WITH_WEIGHTS)],
)
def test_real_layer_is_the_complex_one_without_imaginary_parts(oracle, name, share):
    build, run = LAYERS[name]
    real = oracle.randomise(build(field="real"))
    complex_ = build(field="complex", **({} if share == "none" else {"share": share}))
    copy_as_real_parts(real, complex_)
    x = torch.randn(B, L, D)
    torch.manual_seed(1)
    expected = run(real, x)
    torch.manual_seed(1)
    y = run(complex_, torch.cat([x, torch.zeros_like(x)], dim=-1))
    width = expected.shape[-1]
    assert_close(y[..., :width], expected, **rounding(terms=4 * L * D))
    assert (y[..., width:] == 0).all()


def recurrent_state(layer):
    """The state dict of torch's own RNN or LSTM with the weights of a real layer."""
    state = {}
    for i, way in enumerate(layer.directions):
        suffix = f"l{i // layer.n_directions}" + ("_reverse" if i % layer.n_directions else "")
        state[f"weight_ih_{suffix}"] = way.from_input.a
        state[f"weight_hh_{suffix}"] = way.from_hidden.a
        state[f"bias_ih_{suffix}"] = way.bias.c.flatten()
        state[f"bias_hh_{suffix}"] = torch.zeros_like(way.bias.c.flatten())
    return state


@pytest.mark.parametrize(("ours", "theirs"), [(RNN, nn.RNN), (LSTM, nn.LSTM)])
@pytest.mark.parametrize(("n_layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize("ragged", [False, True])
def test_real_recurrent_layers_are_torchs(oracle, ours, theirs, n_layers, bidirectional, ragged):
    layer = oracle.randomise(
        ours(D, 3, n_layers=n_layers, bidirectional=bidirectional, field="real")
    )
    twin = theirs(D, 3, n_layers, batch_first=True, bidirectional=bidirectional)
    twin.load_state_dict(recurrent_state(layer))
    x = torch.randn(B, L, D)
    if ragged:
        packed = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True)
        out, end = twin(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        got, state = layer(x, LENGTHS)
    else:
        out, end = twin(x)
        got, state = layer(x)
    close = rounding(terms=n_layers * L * (D + 3 + 2))
    assert_close(got, out, **close)
    assert_close(state, end if ours is LSTM else (end,), **close)


def test_real_linear_and_conv_are_torchs(oracle):
    x = torch.randn(B, L, D)
    linear = oracle.randomise(Linear(D, 3, field="real"))
    assert_close(linear(x), F.linear(x, linear.weight.a, linear.bias.c.flatten()))
    conv = oracle.randomise(Conv1d(D, 3, 3, padding=2, field="real"))
    expected = F.conv1d(x.mT, conv.weight.a, conv.bias.c.flatten(), padding=2).mT
    assert_close(conv(x), expected, **rounding(terms=3 * D + 1))


def test_real_layer_norm_is_torchs(oracle):
    layer, twin = oracle.randomise(LayerNorm(D, field="real")), nn.LayerNorm(D)
    twin.load_state_dict(layer.state_dict())
    x = 3 * torch.randn(B, L, D) + 1
    assert_close(layer(x), twin(x), **rounding(terms=2 * D, size=3))


def test_real_batch_norm_is_torchs_in_training_and_evaluation(oracle):
    layer, twin = oracle.randomise(BatchNorm(D, field="real")), nn.BatchNorm1d(D)
    with torch.no_grad():
        twin.weight.copy_(layer.weight)
        twin.bias.copy_(layer.bias)
    for _ in range(3):
        x = 3 * torch.randn(B, L, D) + 1
        assert_close(layer(x), twin(x.mT).mT, rtol=1e-4, atol=1e-5)
    assert_close(layer.mean, twin.running_mean)
    assert_close(layer.variance, twin.running_var)
    assert_close(layer.eval()(x), twin.eval()(x.mT).mT, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_real_attention_of_the_real_score_is_torchs(oracle, causal):
    layer = oracle.randomise(MultiHeadAttention(D, 2, field="real", score="real"))
    twin = nn.MultiheadAttention(D, 2, batch_first=True)
    into = (layer.to_query, layer.to_key, layer.to_value)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([linear.weight.a for linear in into]))
        twin.in_proj_bias.copy_(torch.cat([linear.bias.c.flatten() for linear in into]))
        twin.out_proj.weight.copy_(layer.to_out.weight.a)
        twin.out_proj.bias.copy_(layer.to_out.bias.c.flatten())
    x = torch.randn(B, L, D)
    future = ~torch.ones(L, L, dtype=torch.bool).tril() if causal else None
    expected, _ = twin(x, x, x, key_padding_mask=~MASK, attn_mask=future)
    assert_close(layer(x, mask=MASK, causal=causal), expected, **rounding(terms=3 * D + L))
