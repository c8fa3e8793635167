"""Translation models of every kind: shapes, masks, gradients, the cache, and recipes."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.translation import Recomputed
from wordwave.config_io import with_settings
from wordwave.models.config import TranslationModelConfig
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, translation_model
from wordwave.models.utils import count_parameters
from wordwave.recipes import read_recipe, recipe_names
from wordwave.tasks.config import TranslationConfig

V = 12
KINDS = [
    *(("transformer", e) for e in ("none", "pe", "tpe", "complex-vanilla", "complex-order")),
    ("transformer", "rope"),
    ("transformer", "alibi"),
    ("transformer", "cope"),
    ("transformer", "token-clock"),
    ("aed", "none"),
    ("aed", "complex-order"),
]
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 0, 0, 0]])
TARGET = torch.tensor([[BOS_ID, 5, 6, 7], [BOS_ID, 8, 0, 0]])

for_each = pytest.mark.parametrize(("architecture", "embedding"), KINDS)


def build(architecture="transformer", embedding="complex-order", **options):
    torch.manual_seed(0)
    sizes = {"dim": 8, "encoder_layers": 2, "decoder_layers": 2, "n_heads": 2}
    config = with_settings(
        TranslationModelConfig(),
        architecture=architecture,
        embedding=embedding,
        feed_forward_dim=16,
        **sizes | options,
    )
    return translation_model(config, V).double().eval()


@for_each
def test_padding_and_the_rest_of_the_batch_change_nothing(architecture, embedding):
    net = build(architecture, embedding)
    together = net(SOURCE, TARGET)
    assert together.shape == (2, 4, V)
    alone = net(SOURCE[1:, :2], TARGET[1:, :2])
    torch.testing.assert_close(together[1:, :2], alone)
    longer = net(F.pad(SOURCE[1:, :2], (0, 7)), F.pad(TARGET[1:, :2], (0, 5)))
    torch.testing.assert_close(longer[:, :2], alone)


@for_each
def test_a_token_does_not_depend_on_those_after_it(architecture, embedding):
    net = build(architecture, embedding)
    other = TARGET.clone()
    other[0, 3] = 9
    torch.testing.assert_close(net(SOURCE, other)[0, :3], net(SOURCE, TARGET)[0, :3])
    assert not torch.allclose(net(SOURCE, other)[0, 3], net(SOURCE, TARGET)[0, 3])


@for_each
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoding_step_by_step_equals_all_at_once(architecture, embedding, norm):
    net = build(architecture, embedding, norm_first=norm == "pre")
    whole = net(SOURCE, TARGET)
    for decoder in (net, Recomputed(net)):
        state = decoder.encode(SOURCE)
        for t in range(TARGET.shape[1]):
            logits, state = decoder.step(state, TARGET[:, t])
            torch.testing.assert_close(logits, whole[:, t])


@for_each
def test_selected_rows_continue_their_own_prefix(architecture, embedding):
    net = build(architecture, embedding)
    state = net.encode(SOURCE)
    state = state.select(torch.tensor([0, 0, 1, 1]))
    _, state = net.step(state, torch.tensor([BOS_ID] * 4))
    _, state = net.step(state, torch.tensor([4, 5, 6, 7]))
    state = state.select(torch.tensor([3, 2]), torch.tensor([1]))
    logits, _ = net.step(state, torch.tensor([8, 9]))
    target = torch.tensor([[BOS_ID, 7, 8], [BOS_ID, 6, 9]])
    torch.testing.assert_close(logits, net(SOURCE[[1, 1]], target)[:, -1])


@for_each
@pytest.mark.parametrize("readout", ["concat", "magnitude"])
def test_every_parameter_gets_a_finite_gradient(architecture, embedding, readout):
    net = build(architecture, embedding, readout=readout).train()
    net(SOURCE, TARGET).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@for_each
def test_attention_maps_are_distributions_over_the_source_words(architecture, embedding):
    net = build(architecture, embedding)
    weights = net.attention_map(SOURCE, TARGET)
    assert weights.shape == (2, 1 if architecture == "aed" else 2, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    assert (weights[1, ..., 2:] == 0).all()


@pytest.mark.parametrize("embedding", ["tpe", "complex-order", "complex-vanilla"])
def test_the_output_layer_is_tied_to_the_embedding(embedding):
    net = build(embedding=embedding)
    before = net(SOURCE, TARGET)
    with torch.no_grad():
        net.embedding.vectors[EOS_ID] = 0
    after = net(SOURCE, TARGET)
    assert (after[..., EOS_ID] == 0).all() and (before[..., EOS_ID] != 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 10, "n_heads": 4}, r"multiple of n_heads.*dim=10"),
        ({"architecture": "aed", "embedding": "rope"}, r"'rope' acts inside self-attention"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"encoder_layers": 0}, r"encoder_layers must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        with_settings(TranslationModelConfig(), **options)


def test_recipes_come_in_parameter_matched_pairs():
    n = {}
    for name in recipe_names(TranslationConfig):
        with torch.device("meta"):
            model = translation_model(read_recipe(name, TranslationConfig).model, 10_004)
        n[name.removeprefix("translate-")] = count_parameters(model)
    assert n["tiny-real"] == 2_606_080
    for name in ("tiny-complex", "tiny-complex-chosen", "tiny-aed"):
        assert n[name] == pytest.approx(n["tiny-real"], rel=0.01)
    assert n["paper-complex"] == pytest.approx(n["paper-real"], rel=0.01)
    with pytest.raises(ValueError, match=r"no recipe 'cnn' for translate; there are: "):
        read_recipe("cnn", TranslationConfig)
