"""Weights saved under former parameter names load into the models of today."""

import pytest
import torch

from wordwave.migrate import upgrade_weights
from wordwave.models.classifier import Classifier
from wordwave.models.config import (
    ENCODERS,
    ModelConfig,
    TransformerXLConfig,
    TranslationModelConfig,
)
from wordwave.models.encoder_decoder import translation_model
from wordwave.models.transformer_xl import TransformerXL

PARTS = ("weight.a", "weight.b", "bias.c")
NORM = ("weight", "bias")


def under(module, names):
    return [f"{module}.{name}" for name in names]


def linear(*modules):
    return [name for module in modules for name in under(module, PARTS)]


def attention(module):
    return linear(*under(module, ("to_query", "to_key", "to_value", "to_out")))


def layer(module, n_norms):
    norms = [f"{module}.shortcuts.{i}.norm.{name}" for i in range(n_norms) for name in NORM]
    hidden = linear(f"{module}.feed_forward.widen", f"{module}.feed_forward.narrow")
    return [*attention(f"{module}.attention"), *hidden, *norms]


EMBEDDING = ["embedding.amplitude.weight", "embedding.frequency.weight"]
DIRECTION = ("from_input.a", "from_input.b", "from_hidden.a", "from_hidden.b", "bias.c")
OLD = {
    "transformer": [
        *EMBEDDING,
        "to_words.weight.a",
        *layer("encoder.0", 2),
        *layer("decoder.0", 3),
        *attention("decoder.0.to_source"),
        *under("norms.0", NORM),
        *under("norms.1", NORM),
    ],
    "aed": [
        *EMBEDDING,
        "to_words.weight.a",
        *under("encoder.directions.0", DIRECTION),
        *under("encoder.directions.1", DIRECTION),
        *under("decoder.directions.0", DIRECTION),
        *attention("to_source"),
        *linear("narrow", "bridges.0", "combine"),
    ],
}


@pytest.mark.parametrize("architecture", OLD)
def test_old_names_of_translation_models_become_those_of_today(architecture):
    config = TranslationModelConfig(
        architecture=architecture,
        dim=8,
        encoder_layers=1,
        decoder_layers=1,
        n_heads=2,
        feed_forward_dim=12,
    )
    weights = translation_model(config, 9).state_dict()
    assert upgrade_weights(dict.fromkeys(OLD[architecture])).keys() == weights.keys()
    for prefix in ("model.", "best.", "optimizer.exp_avg.", "optimizer.step.", "task.1."):
        saved = {prefix + name: i for i, name in enumerate(OLD[architecture])}
        upgraded = upgrade_weights(saved)
        assert upgraded.keys() == {prefix + name for name in weights}
        assert [*upgraded.values()] == [*saved.values()]


def test_names_of_today_stay_as_they_are():
    letters = torch.ones(9, dtype=torch.bool)
    for model in (
        *(Classifier(ModelConfig(encoder=encoder, dim=8), 9, 2) for encoder in ENCODERS),
        *(translation_model(TranslationModelConfig(architecture=a), 9) for a in OLD),
        *(TransformerXL(TransformerXLConfig(position=p), 9, letters) for p in ("relative", "none")),
    ):
        weights = model.state_dict()
        assert upgrade_weights(weights).keys() == weights.keys()
