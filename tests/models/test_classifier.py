"""Classifiers of every combination: shapes, padding, batches, gradients, order."""

from dataclasses import replace

import pytest
import torch

from wordwave.config_io import with_settings
from wordwave.embedding.config import IN_ATTENTION, PAPER_EMBEDDINGS
from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier, Tagger
from wordwave.models.config import ENCODERS, ModelConfig
from wordwave.models.utils import count_parameters

COMBINATIONS = [
    (encoder, embedding)
    for encoder in ENCODERS
    for embedding in (*PAPER_EMBEDDINGS, *(IN_ATTENTION if encoder == "transformer" else ()))
]
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0]])

for_each = pytest.mark.parametrize(("encoder", "embedding"), COMBINATIONS)


def model(encoder, embedding, kind=Classifier, **options):
    torch.manual_seed(0)
    config = with_settings(
        ModelConfig(), embedding=embedding, encoder=encoder, dim=8, n_filters=4, **options
    )
    return kind(config, 10, 3).eval()


@for_each
@pytest.mark.parametrize("readout", ["concat", "magnitude"])
def test_padding_and_the_rest_of_the_batch_change_nothing(encoder, embedding, readout):
    net = model(encoder, embedding, readout=readout)
    together = net(IDS)
    assert together.shape == (3, 3)
    for row, n in enumerate((7, 3, 1)):
        alone = net(IDS[row : row + 1, :n])
        longer = net(torch.nn.functional.pad(IDS[row : row + 1, :n], (0, 4)))
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(longer, alone, atol=1e-5, rtol=1e-4)


@for_each
def test_every_parameter_gets_a_finite_gradient(encoder, embedding):
    net = model(encoder, embedding, readout="magnitude").train()
    net(IDS).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("embedding", PAPER_EMBEDDINGS)
def test_a_bag_is_sensitive_to_word_order_only_with_waves(embedding):
    net = model("fasttext", embedding).double()
    same = torch.allclose(net(IDS[:1]), net(IDS[:1].flip(1)), atol=1e-12)
    assert same == (embedding != "complex-order")


@pytest.mark.parametrize("embedding", ["rope", "alibi"])
def test_positions_inside_attention_are_relative(embedding):
    net = model("transformer", embedding).double()
    here = net(IDS[:1])
    there = net(IDS[:1], torch.arange(1, 8).unsqueeze(0) + 100)
    torch.testing.assert_close(here, there)
    apart = net(IDS[:1], torch.arange(1, 8).unsqueeze(0) * 3)
    assert not torch.allclose(here, apart)


@pytest.mark.parametrize(
    ("encoder", "embedding"), [c for c in COMBINATIONS if c[0] in ("lstm", "transformer")]
)
def test_a_tagger_has_logits_for_every_word(encoder, embedding):
    net = model(encoder, embedding, Tagger)
    assert net(IDS).shape == (3, 7, 3)
    torch.testing.assert_close(net(IDS)[1:2, :3], net(IDS[1:2, :3]), atol=1e-5, rtol=1e-4)


def test_wrong_combinations_are_refused():
    with pytest.raises(ValueError, match=r"inside attention.*got 'cnn'"):
        with_settings(ModelConfig(), embedding="rope", encoder="cnn")
    with pytest.raises(ValueError, match=r"a tagger needs.*got 'fasttext'"):
        model("fasttext", "none", Tagger)


def test_parameters_are_counted_as_trained():
    config = with_settings(ModelConfig(), embedding="none", encoder="fasttext", dim=8, hidden_dim=0)
    assert count_parameters(Classifier(config, 10, 3)) == 10 * 8 + 8 * 3 + 3


def test_word_vectors_and_features_have_a_dropout_each():
    config = with_settings(ModelConfig(), encoder="cnn", dim=4, dropout=0.5)
    assert Classifier(config, 9, 2).dropout.p == 0.5
    model = Classifier(replace(config, embedding_dropout=0.0), 9, 2)
    assert model.dropout.p == 0.0 and model.head[0].p == 0.5
    with pytest.raises(WordwaveError, match="embedding_dropout"):
        replace(config, embedding_dropout=1.5)


def test_max_norm_holds_the_weights_of_classes_in_training_only():
    config = with_settings(ModelConfig(), encoder="cnn", dim=4, hidden_dim=0, max_norm=3.0)
    model, ids = Classifier(config, 9, 2), torch.ones(1, 5, dtype=torch.long)
    with torch.no_grad():
        model.head[-1].weight.fill_(1.0)
        model.head[-1].weight[1] = 0.01
    before = model.head[-1].weight.clone()
    model.eval()(ids)
    assert torch.equal(model.head[-1].weight, before)
    model.train()(ids)
    after = model.head[-1].weight
    assert after[0].norm().item() == pytest.approx(3.0, rel=1e-4)
    assert torch.equal(after[1], before[1])
