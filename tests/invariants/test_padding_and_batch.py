"""A sentence means the same whoever its neighbours are and however far the batch is padded."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from wordwave import EMBEDDINGS, build_embedding
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    word_mask,
)

D = 4
FIELDS = {"real": 1, "complex": 2}


def attend(layer, x, lengths):
    return layer(x, mask=word_mask(lengths, x.shape[1]))


def attend_causally(layer, x, lengths):
    return layer(x, mask=word_mask(lengths, x.shape[1]), causal=True)


def run_recurrent(layer, x, lengths):
    return layer(x, lengths)[0]


def call(layer, x, lengths):
    return layer(x)


def convolve(layer, x, lengths):
    """Padding is 0 before a convolution, as it is after an embedding."""
    return layer(x * word_mask(lengths, x.shape[1]).unsqueeze(-1))


# name: (builder, runner, how many positions fewer than words come out)
LAYERS = {
    "linear": (lambda f: Linear(D, 3, field=f), call, 0),
    "feed-forward": (lambda f: FeedForward(D, 7, field=f), call, 0),
    "layer-norm": (lambda f: LayerNorm(D, field=f), call, 0),
    "batch-norm": (lambda f: BatchNorm(D, field=f), call, 0),
    "conv": (lambda f: Conv1d(D, 3, 3, field=f), convolve, 2),
    "conv-same": (lambda f: Conv1d(D, 3, 3, padding=1, field=f), convolve, 0),
    "rnn": (lambda f: RNN(D, 3, n_layers=2, bidirectional=True, field=f), run_recurrent, 0),
    "lstm": (lambda f: LSTM(D, 3, n_layers=2, bidirectional=True, field=f), run_recurrent, 0),
    "attention-magnitude": (lambda f: MultiHeadAttention(D, 2, field=f), attend, 0),
    "attention-real": (lambda f: MultiHeadAttention(D, 2, score="real", field=f), attend, 0),
    "attention-causal": (lambda f: MultiHeadAttention(D, 2, field=f), attend_causally, 0),
}

seeds = st.integers(0, 10**6)
batches_of_lengths = st.lists(st.integers(3, 7), min_size=1, max_size=4)
close = {"rtol": 1e-5, "atol": 1e-5}


def batch(sentences, extra, garbage):
    """Sentences one below the other; padding is whatever a careless user left there."""
    longest = max(len(s) for s in sentences) + extra
    x = garbage * torch.randn(len(sentences), longest, sentences[0].shape[1])
    for i, sentence in enumerate(sentences):
        x[i, : len(sentence)] = sentence
    return x, torch.tensor([len(s) for s in sentences])


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=10)
@given(seed=seeds, lengths=batches_of_lengths, extra=st.integers(0, 5), data=st.data())
def test_a_sentence_in_a_batch_is_the_sentence_alone(
    oracle, name, field, seed, lengths, extra, data
):
    build, run, fewer = LAYERS[name]
    torch.manual_seed(seed)
    layer = oracle.randomise(build(field)).eval()
    sentences = [torch.randn(n, D * FIELDS[field]) for n in lengths]
    order = data.draw(st.permutations(range(len(sentences))))
    together = run(layer, *batch([sentences[i] for i in order], extra, garbage=3.0))
    for row, i in enumerate(order):
        alone = run(layer, *batch([sentences[i]], 0, garbage=0.0))
        n = lengths[i] - fewer
        assert_close(together[row, :n], alone[0, :n], **close)


@pytest.mark.parametrize("kind", EMBEDDINGS)
@given(seed=seeds, lengths=batches_of_lengths, extra=st.integers(0, 5))
def test_a_sentence_embeds_alike_alone_and_in_a_batch(kind, seed, lengths, extra):
    torch.manual_seed(seed)
    emb = build_embedding(kind, 9, D)
    ids = torch.zeros(len(lengths), max(lengths) + extra, dtype=torch.long)
    for row, n in enumerate(lengths):
        ids[row, :n] = torch.randint(1, 9, (n,))
    together = emb(ids)
    for row, n in enumerate(lengths):
        assert_close(together[row, :n], emb(ids[row, :n]), **close)
        assert (together[row, n:] == 0).all()


@pytest.mark.parametrize("field", FIELDS)
@given(seed=seeds, lengths=batches_of_lengths, extra=st.integers(1, 5))
def test_batch_norm_in_training_does_not_count_padding(oracle, field, seed, lengths, extra):
    torch.manual_seed(seed)
    tight, loose = BatchNorm(D, field=field), BatchNorm(D, field=field)
    oracle.randomise(tight)
    loose.load_state_dict(tight.state_dict())
    sentences = [torch.randn(n, D * FIELDS[field]) for n in lengths]
    results = []
    for layer, padding in ((tight, 0), (loose, extra)):
        x, n_words = batch(sentences, padding, garbage=50.0)
        mask = word_mask(n_words, x.shape[1])
        results.append(layer(x, mask)[mask])
    assert_close(results[0], results[1], **close)
    assert_close(tight.mean, loose.mean, **close)
    assert_close(tight.variance, loose.variance, **close)


@pytest.mark.parametrize("kind", [RNN, LSTM])
@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=10)
@given(seed=seeds, lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_end_states_are_those_of_each_sentence_alone(oracle, kind, field, seed, lengths):
    torch.manual_seed(seed)
    layer = oracle.randomise(kind(D, 3, n_layers=2, bidirectional=True, field=field))
    width = FIELDS[field]
    x, n_words = batch([torch.randn(n, D * width) for n in lengths], 2, garbage=3.0)
    start = tuple(torch.randn(4, len(lengths), 3 * width) for _ in range(layer.n_states))
    _, together = layer(x, n_words, start)
    for i, n in enumerate(lengths):
        own = tuple(s[:, i : i + 1] for s in start)
        alone = layer(x[i : i + 1, :n], None, own)[1] if n else own
        for a, b in zip(together, alone, strict=True):
            assert_close(a[:, i : i + 1], b, **close)


@pytest.mark.parametrize("score", ["magnitude", "real"])
@pytest.mark.parametrize("field", FIELDS)
def test_what_lies_in_masked_keys_gets_no_gradient(score, field):
    layer = MultiHeadAttention(D, 2, score=score, field=field)
    x = torch.randn(2, 3, D * FIELDS[field])
    source = torch.randn(2, 5, D * FIELDS[field], requires_grad=True)
    mask = word_mask(torch.tensor([5, 2]), 5)
    layer(x, source, mask=mask).square().sum().backward()
    assert (source.grad[~mask] == 0).all() and (source.grad[mask] != 0).any()
