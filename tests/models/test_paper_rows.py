"""What the paper describes and the tables have as rows, against direct complex computations."""

import pytest
import torch

from tolerance import rounding
from wordwave import complex as cx
from wordwave.config_io import with_settings
from wordwave.embedding.config import EmbeddingConfig
from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig, PairModelConfig, TranslationModelConfig

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0]])
MASK = IDS != 0
CLOSE = rounding(terms=100, size=10)


def model(**settings):
    torch.manual_seed(0)
    settings = {"embedding": "complex-order", "dim": 4, "hidden_dim": 0, "n_filters": 3} | settings
    made = Classifier(with_settings(ModelConfig(), **settings), 10, 3).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # biases start at 0, which would hide a mistake
            parameter += 0.1 * torch.randn_like(parameter)
    return made


def native(z):
    """[real | imag] as torch's own complex numbers."""
    return torch.complex(*cx.split(z))


def weights(layer):
    """W and b of a complex linear layer, as complex numbers."""
    c, d = layer.bias.c[0]
    return torch.complex(layer.weight.a, layer.weight.b), torch.complex(c, d)


def by_parts(function, z):
    return torch.complex(function(z.real), function(z.imag))


@pytest.mark.parametrize("hidden_dim", [0, 5])
def test_logits_are_the_norms_of_a_complex_dense_layer(hidden_dim):
    made = model(encoder="fasttext", readout="logit-magnitude", hidden_dim=hidden_dim)
    z = native(made.sentence_vectors(IDS))
    linear = [layer for layer in made.head if hasattr(layer, "weight")]
    assert len(linear) == 1 + bool(hidden_dim)
    for i, layer in enumerate(linear):
        matrix, bias = weights(layer)
        z = (by_parts(torch.relu, z) if i else z) @ matrix.T + bias
    torch.testing.assert_close(made(IDS), z.abs(), **CLOSE)
    loss = made.train()(IDS).sum()
    loss.backward()
    assert all(p.grad is not None for p in made.parameters())


def test_logit_magnitudes_need_a_classifier():
    with pytest.raises(WordwaveError, match="logit-magnitude"):
        PairModelConfig(readout="logit-magnitude")


def test_batch_normalization_is_of_each_part_over_the_words():
    made = model(encoder="transformer", normalization="batch", n_heads=2)
    norm = made.encoder.layers[0].norms[0].train()
    z = native(made.embedding(IDS))
    words = z[MASK]
    scale, shift = native(norm.weight), native(norm.bias)

    def normal(part, own):
        return (part - own.mean(0)) / torch.sqrt(own.var(0, unbiased=False) + norm.eps)

    expected = torch.complex(
        normal(z.real, words.real) * scale.real + shift.real,
        normal(z.imag, words.imag) * scale.imag + shift.imag,
    )
    found = native(norm(made.embedding(IDS), MASK))
    torch.testing.assert_close(found, expected, **CLOSE)


def test_batch_normalization_counts_no_padding():
    made = model(encoder="transformer", normalization="batch", n_heads=2, dropout=0.0).train()
    padded = torch.cat([IDS, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    torch.testing.assert_close(made(IDS), made(padded), **CLOSE)
    before = made.eval()(IDS)
    assert torch.equal(before, made(IDS)), "running statistics, the same for any batch"
    torch.testing.assert_close(made(IDS[:1]), before[:1], **CLOSE)


@pytest.mark.parametrize("embedding", ["none", "complex-order"])
def test_the_rnn_is_tanh_of_each_part(embedding):
    made = model(encoder="rnn", embedding=embedding, state_dim=3, pooling="mean")
    vectors = made.embedding(IDS)
    is_complex = embedding != "none"
    x = native(vectors) if is_complex else vectors
    tanh = (lambda z: by_parts(torch.tanh, z)) if is_complex else torch.tanh

    def run(direction, words):
        if is_complex:
            w, u = (torch.complex(d.a, d.b) for d in (direction.from_input, direction.from_hidden))
            b = torch.complex(*direction.bias.c[0])
        else:
            w, u = direction.from_input.a, direction.from_hidden.a
            b = direction.bias.c[0, 0]
        h, states = torch.zeros(3, dtype=x.dtype), []
        for word in words:
            h = tanh(w @ word + u @ h + b)
            states.append(h)
        return torch.stack(states)

    forward, backward = made.encoder.lstm.directions
    for sentence, n, found in zip(x, MASK.sum(1), made.sentence_vectors(IDS), strict=True):
        words = sentence[:n]
        states = torch.cat([run(forward, words), run(backward, words.flip(0)).flip(0)], dim=1)
        mean = states.mean(0)
        expected = torch.cat([mean.real, mean.imag]) if is_complex else mean
        torch.testing.assert_close(found, expected, **CLOSE)


def test_trainable_sinusoids_start_as_sinusoids_and_follow_their_frequencies():
    plain = model(encoder="fasttext", embedding="tpe").embedding
    learned = model(encoder="fasttext", embedding="tpe", train_sinusoids=True)
    learned.embedding.words.weight.data.copy_(plain.words.weight)
    learned.embedding.frequency.data.copy_(plain.frequencies)
    torch.testing.assert_close(learned.embedding(IDS), plain(IDS), **CLOSE)
    frequency = torch.tensor([0.7, 0.05])
    learned.embedding.frequency.data.copy_(frequency)
    position = torch.arange(1, IDS.shape[1] + 1).unsqueeze(1)
    wave = torch.polar(torch.ones(IDS.shape[1], 2), frequency * position)
    added = torch.stack([wave.imag, wave.real], dim=-1).flatten(-2)
    expected = plain.words(IDS) + plain.position_scale * added
    torch.testing.assert_close(
        learned.embedding(IDS), expected * MASK.unsqueeze(-1), **rounding(terms=100, size=10)
    )
    learned(IDS).sum().backward()
    assert learned.embedding.frequency.grad.abs().sum() > 0


@pytest.mark.parametrize("encoder", ["cnn", "transformer", "lstm"])
def test_real_layers_take_both_parts_side_by_side(encoder):
    made = model(encoder=encoder, layers="real", n_heads=2)
    embedding = made.embedding
    position = torch.arange(1, IDS.shape[1] + 1).view(1, -1, 1)
    wave = torch.polar(torch.ones(3, 7, 4), embedding.frequency(IDS) * position)
    wave = wave * embedding.amplitude(IDS)
    parts = torch.cat([wave.real, wave.imag], dim=-1)
    torch.testing.assert_close(embedding(IDS), parts, **CLOSE)
    real = with_settings(
        ModelConfig(), embedding="none", encoder=encoder, dim=8, n_filters=3, n_heads=2
    )
    plain = Classifier(real, 10, 3).eval()
    plain.encoder.load_state_dict(made.encoder.state_dict())  # real layers of twice the width
    torch.testing.assert_close(
        made.sentence_vectors(IDS), plain.encoder(parts, MASK, None), **CLOSE
    )


def test_frequencies_may_start_slower():
    fast, slow = (model(encoder="fasttext", frequency_scale=s).embedding for s in (1.0, 0.1))
    change = slow.frequency.weight - fast.frequency.weight  # the rest is the same noise
    start = torch.logspace(0, -3, 4)
    torch.testing.assert_close(change[1:], (-0.9 * start).expand(9, 4), **CLOSE)


def test_real_layers_need_layers():
    with pytest.raises(WordwaveError, match="layers 'real'"):
        model(encoder="fasttext", layers="real")
    with pytest.raises(WordwaveError, match="layers must be complex"):
        TranslationModelConfig(embedding=EmbeddingConfig(layers="real"))
