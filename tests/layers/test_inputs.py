"""Every layer refuses a wrong rank, width or dtype with one ValueError; device and dtype as in
torch.nn."""

import pytest
import torch

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
from wordwave.layers.loss import linear_cross_entropy

LAYERS = {
    "Linear": lambda **options: Linear(4, 4, **options),
    "FeedForward": lambda **options: FeedForward(4, 4, **options),
    "Conv1d": lambda **options: Conv1d(4, 4, 2, **options),
    "LayerNorm": lambda **options: LayerNorm(4, **options),
    "BatchNorm": lambda **options: BatchNorm(4, **options),
    "RNN": lambda **options: RNN(4, 4, **options),
    "LSTM": lambda **options: LSTM(4, 4, **options),
    "MultiHeadAttention": lambda **options: MultiHeadAttention(4, 2, **options),
    "alibi": lambda **options: MultiHeadAttention(
        4, 2, position="alibi", **{**options, "field": "real"}
    ),
}
BATCHED = ("Conv1d", "RNN", "LSTM", "MultiHeadAttention", "alibi")
FIELDS = {"real": 4, "complex": 8}


def cases():
    return [(n, f) for n in LAYERS for f in FIELDS if (n, f) != ("alibi", "complex")]


@pytest.mark.parametrize(("name", "field"), cases())
def test_a_wrong_rank_is_a_value_error(name, field):
    layer = LAYERS[name](field=field)
    for rank in range(6):
        shape = (2,) * (rank - 1) + (FIELDS[field],) if rank else ()
        if rank == 3 or (rank and name not in BATCHED):
            layer(torch.zeros(shape))
            continue
        with pytest.raises(ValueError, match=r"^x must (be \(B, L|have a last dimension)"):
            layer(torch.zeros(shape))


@pytest.mark.parametrize(("name", "field"), [*cases(), ("Dropout", "real"), ("Dropout", "complex")])
def test_whole_and_native_complex_numbers_are_a_value_error(name, field):
    layer = Dropout(0.5, field=field) if name == "Dropout" else LAYERS[name](field=field)
    for train in (True, False):
        for dtype in (torch.int64, torch.bool):
            with pytest.raises(ValueError, match=f"^x must be of a floating.*{dtype}$"):
                layer.train(train)(torch.zeros(2, 3, FIELDS[field], dtype=dtype))
        with pytest.raises(ValueError, match=r"^x must be of a real dtype .*from_complex converts"):
            layer.train(train)(torch.zeros(2, 3, FIELDS[field], dtype=torch.complex64))


def test_a_scalar_cannot_be_dropped():
    with pytest.raises(ValueError, match="at least one dimension"):
        Dropout(0.5, field="real")(torch.tensor(1.0))


def test_a_source_and_positions_are_checked_as_well():
    attention, x = MultiHeadAttention(4, 2), torch.zeros(2, 3, 8)
    for source in (torch.zeros(8), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"^source must be \(B, L, width\)"):
            attention(x, source)
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(ValueError, match=r"^positions must be integers or real numbers, got"):
            attention(x, positions=torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize(
    ("x", "target"),
    [
        (torch.zeros(8), torch.zeros(1, dtype=torch.long)),
        (torch.zeros(3, 7), torch.zeros(3, dtype=torch.long)),
        (torch.zeros(3, 8), torch.zeros(3)),
        (torch.zeros(3, 8), torch.zeros(2, dtype=torch.long)),
    ],
)
def test_cross_entropy_names_what_does_not_fit(x, target):
    with pytest.raises(ValueError, match=r"^(x and weight|target) must be"):
        linear_cross_entropy(x, torch.zeros(5, 8), target)


@pytest.mark.parametrize(("name", "field"), cases())
def test_device_and_dtype_are_those_asked_for(name, field):
    layer = LAYERS[name](field=field, device="cpu", dtype=torch.float64)
    assert {p.dtype for p in layer.parameters()} == {torch.float64}
    out = layer(torch.zeros(2, 3, FIELDS[field], dtype=torch.float64))
    assert (out[0] if isinstance(out, tuple) else out).dtype == torch.float64
    empty = LAYERS[name](field=field, device="meta")
    assert {t.device.type for t in (*empty.parameters(), *empty.buffers())} == {"meta"}
    with pytest.raises(ValueError, match="dtype must be a real floating-point one"):
        LAYERS[name](field=field, dtype=torch.complex64)


@pytest.mark.parametrize(("name", "field"), cases())
def test_without_them_all_is_as_before(name, field):
    torch.manual_seed(0)
    one = LAYERS[name](field=field)
    torch.manual_seed(0)
    other = LAYERS[name](field=field, device="cpu", dtype=torch.float32)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
