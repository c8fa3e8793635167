"""The network that compares two sentences, whatever encodes them."""

import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave.config_io import with_settings
from wordwave.embedding.config import EMBEDDING_KINDS
from wordwave.models.classifier import PairNetwork
from wordwave.models.config import ENCODERS, PairModelConfig, goes_with

V = 15
ALL = [(e, k) for e in ENCODERS for k in EMBEDDING_KINDS if goes_with(k, e)]
close = rounding(terms=256, size=8)


def network(encoder="fasttext", embedding="complex-order", n_classes=3, **settings):
    small = {"dim": 4, "hidden_dim": 5, "n_heads": 2, "n_filters": 3, "feed_forward_dim": 6}
    config = with_settings(
        PairModelConfig(), **small | settings, encoder=encoder, embedding=embedding
    )
    return PairNetwork(config, V, n_classes).eval()


def sentences(n, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, V, (n, length), generator=generator)
    for i in range(n):
        ids[i, length - i % length :] = 0  # of different lengths
    return ids


@pytest.mark.parametrize(("encoder", "embedding"), ALL)
def test_every_encoder_and_embedding_runs_alone_in_a_batch_and_padded(encoder, embedding):
    model = network(encoder, embedding)
    first, second = sentences(4, 6), sentences(4, 8, seed=1)
    logits = model(first, second)
    assert logits.shape == (4, 3) and logits.isfinite().all()
    assert_close(model(second, first), logits, **close)
    wider = (torch.nn.functional.pad(ids, (0, 3)) for ids in (first, second))
    assert_close(model(*wider), logits, **close)
    for i in range(4):
        one, other = (ids[i, ids[i] != 0].unsqueeze(0) for ids in (first, second))
        assert_close(model(one, other)[0], logits[i], **close)
    model.train()(first, second).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("readout", ["concat", "magnitude"])
@pytest.mark.parametrize("embedding", ["none", "complex-order"])
def test_sentence_vectors_are_normalized_in_blocks(embedding, readout):
    model = network(embedding=embedding, readout=readout, dim=16)
    vectors = model.normalized(sentences(5, 7))
    n_blocks = {"none": 1}.get(embedding, 8 if readout == "concat" else 4)
    assert vectors.shape == (5, model.sentence_dim) == (5, 16 * n_blocks)
    blocks = vectors.unflatten(-1, (n_blocks, 16))
    assert_close(blocks.mean(-1), torch.zeros(5, n_blocks), rtol=0, atol=1e-5)
    assert_close(blocks.var(-1, correction=0), torch.ones(5, n_blocks), rtol=0.02, atol=0)


def test_a_directed_matcher_tells_the_two_sides_of_a_pair_apart():
    model = network(symmetric=False)
    first, second = sentences(4, 6), sentences(4, 6, seed=1)
    assert not torch.allclose(model(first, second), model(second, first), **close)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("hidden_dim", [0, 3])
def test_gradients_of_the_comparison(symmetric, hidden_dim):
    model = network(embedding="none", symmetric=symmetric, hidden_dim=hidden_dim).double()
    u, v = (torch.randn(3, model.sentence_dim, dtype=torch.double) for _ in range(2))
    assert torch.autograd.gradcheck(model.compare, (u.requires_grad_(), v.requires_grad_()))


def test_positions_of_both_sentences_are_used():
    model = network(views=("start",))
    first, second = sentences(2, 5), sentences(2, 6, seed=1)
    usual = torch.arange(1, 6).expand(2, 5), torch.arange(1, 7).expand(2, 6)
    assert_close(model(first, second, usual), model(first, second), **close)
    moved = usual[0], usual[1] * 3
    assert not torch.allclose(model(first, second, moved), model(first, second), **close)
