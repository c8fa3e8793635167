"""`wordwave export` as a user meets it."""

import pytest

from wordwave.cli.export import export
from wordwave.config_io import with_settings
from wordwave.models.classifier import Classifier, PairNetwork
from wordwave.models.config import ModelConfig, PairModelConfig
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig, MatchingConfig
from wordwave.tasks.matcher import TextMatcher
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer
from wordwave.text.vocabulary import Vocabulary


@pytest.fixture
def folder(tmp_path):
    """A run of a small model."""
    vocabulary = Vocabulary.build([["not", "good", "but", "bad"]])
    config = with_settings(ModelConfig(), embedding="none", dim=4, hidden_dim=4, max_length=10)
    model = Classifier(config, len(vocabulary), 2)
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=10)
    TextClassifier(model, encoder, ["pos", "neg"], ClassificationConfig(model=config)).save(
        tmp_path
    )
    return tmp_path


def test_a_run_becomes_a_file_that_was_checked(folder, capsys):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    export([str(folder)], prog="wordwave export")
    said = capsys.readouterr()
    assert "Checked: 21 random sentences, largest difference of probabilities" in said.out
    assert f"Written: {folder / 'model.onnx'}, {folder / 'model.onnx.json'}" in said.out
    assert said.err == "" and (folder / "model.onnx").stat().st_size > 500


def test_a_matcher_becomes_a_file_that_was_checked(tmp_path, capsys):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    vocabulary = Vocabulary.build([["not", "good", "but", "bad"]])
    config = with_settings(PairModelConfig(), dim=4, hidden_dim=4, max_length=10)
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=10)
    model = PairNetwork(config, len(vocabulary), 2)
    TextMatcher(model, encoder, ["no", "yes"], MatchingConfig(model=config)).save(tmp_path)
    export([str(tmp_path), str(tmp_path / "pairs.onnx")], prog="wordwave export")
    said = capsys.readouterr()
    assert "Checked: 42 random pairs, largest difference of probabilities" in said.out
    assert said.err == "" and (tmp_path / "pairs.onnx").stat().st_size > 500


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((".", "model.pt"), "must end in .onnx, got 'model.pt'"), (("nowhere",), "is not a run")],
)
def test_mistakes_are_told_in_one_line(arguments, said):
    with pytest.raises(ValueError, match=said):
        export(list(arguments), prog="wordwave export")
