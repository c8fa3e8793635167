"""Convolution with max pooling by kernels is that of torch: values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tolerance import rounding
from wordwave.compiled import SWITCH, compiled
from wordwave.config_io import with_settings
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.models.windows import can_pool_windows

FIELDS = [("none", "none"), *(("complex-order", share) for share in ("none", "real", "tied"))]


def outcome(model, ids, upstream):
    model.zero_grad()
    logits = model(ids)
    (logits * upstream).sum().backward()
    return [logits.detach(), *(p.grad.to_dense().clone() for p in model.parameters())]


@pytest.mark.parametrize("padding", ["wide", "narrow"])
@pytest.mark.parametrize(("embedding", "share"), FIELDS)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    sparse=st.booleans(),
)
def test_kernels_and_torch_agree(embedding, share, padding, seed, lengths, sparse):
    torch.manual_seed(seed)
    settings = {"embedding": embedding, "share": share, "dim": 4, "n_filters": 3, "dropout": 0.0}
    settings["padding"] = padding
    config = with_settings(ModelConfig(), encoder="cnn", hidden_dim=0, **settings)
    model = Classifier(config, 20, 3, sparse=sparse)
    ids = torch.randint(1, 20, (len(lengths), max(lengths)))
    ids *= torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    upstream = torch.randn(len(lengths), 3)
    fast = outcome(model, ids, upstream)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(SWITCH, "1")
        slow = outcome(model, ids, upstream)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, **rounding(terms=60, size=10))


@pytest.mark.parametrize("without", ["", "1"])
@pytest.mark.parametrize("padding", ["wide", "narrow"])
def test_windows_are_those_of_torch_conv1d(padding, without, monkeypatch):
    """Against torch's own convolution of each sentence alone, values and gradients; wide windows
    take padding for 0 whatever it holds."""
    monkeypatch.setenv(SWITCH, without)
    config = with_settings(
        ModelConfig(), encoder="cnn", embedding="none", dim=4, n_filters=3, padding=padding
    )
    model = Classifier(config, 20, 2)
    lengths = [1, 2, 4, 7]
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    given = torch.randn(4, 7, 4, requires_grad=True)
    x = given * mask.unsqueeze(-1) if padding == "narrow" else given
    variables = [given, *model.encoder.parameters()]
    found = model.encoder(x, mask)
    upstream = torch.randn_like(found)
    rows = []
    for sentence, n, row in zip(x, lengths, found, strict=True):
        pooled = []
        for convolution, k in zip(model.encoder.convolutions, config.widths, strict=True):
            zeros = k - 1 if padding == "wide" else 0
            words = sentence[:n].T
            if not zeros and n < k:
                words = F.pad(words, (0, k - n))
            y = F.conv1d(words, convolution.weight(), convolution.bias(), padding=zeros)
            pooled.append(F.relu(y).amax(1))
        rows.append(torch.cat(pooled))
        torch.testing.assert_close(row, rows[-1], **rounding(terms=20, size=10))
    gradients = torch.autograd.grad(found, variables, upstream, retain_graph=True)
    expected = torch.autograd.grad(torch.stack(rows), variables, upstream)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, **rounding(terms=60, size=10))


@pytest.mark.skipif(compiled() is None, reason="needs numba")
def test_the_kernels_are_used_for_float32_only():
    model = Classifier(ModelConfig(encoder="cnn", dim=4), 20, 3)
    (first, *_) = model.encoder.convolutions
    assert can_pool_windows(torch.zeros(1, 5, 8), first)
    assert not can_pool_windows(torch.zeros(1, 5, 8, dtype=torch.double), first)
    assert not can_pool_windows(torch.zeros(1, 5, 8), first.double())


@pytest.mark.parametrize("without", ["", "1"])
def test_a_weight_that_is_not_a_number_is_not_hidden(without, monkeypatch):
    monkeypatch.setenv(SWITCH, without)
    config = with_settings(ModelConfig(), encoder="cnn", embedding="none", dim=8, n_filters=4)
    model = Classifier(config, 20, 2).eval()
    with torch.no_grad():
        next(model.encoder.convolutions[0].parameters()).view(-1)[0] = torch.nan
        logits = model(torch.randint(1, 20, (3, 9)))
    assert logits.isnan().any(1).all()
