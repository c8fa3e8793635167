"""`wordwave export` as a user meets it."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from wordwave import WaveClassifier
from wordwave.cli import _run
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
    stages = [f"Exporting to '{folder / 'model.onnx'}' …", "Checking against onnxruntime …"]
    assert said.err.splitlines() == stages
    assert len(said.out.splitlines()) == 2 and (folder / "model.onnx").stat().st_size > 500


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
    assert len(said.err.splitlines()) == 2 and (tmp_path / "pairs.onnx").stat().st_size > 500


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((".", "model.pt"), "must end in .onnx, got 'model.pt'"),
        (("nowhere",), "is not a run"),
        ((".", "--half"), "--half writes a run folder"),
        ((".", "model.onnx", "--half"), "--half writes a run folder"),
        ((".", "src", "--half"), "'src' must be a new or empty folder"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, said):
    with pytest.raises(ValueError, match=said):
        export(list(arguments), prog="wordwave export")


TEXTS = ["a good film", "a bad film", "not a good one", "one not so bad"] * 10
LABELS = [1, 0, 0, 1] * 10


def test_tables_of_half_precision_are_smaller_and_predict_the_same(tmp_path, capsys):
    model = WaveClassifier(dim=64, hidden_dim=4, epochs=4, learning_rate=0.01).fit(TEXTS, LABELS)
    run, small = tmp_path / "run", tmp_path / "small"
    model.save(run)
    _run(["export", str(run), str(small), "--half"])
    assert f"Written: {small} (model.safetensors:" in capsys.readouterr().out
    before, after = (load_file(folder / "model.safetensors") for folder in (run, small))
    for name, tensor in after.items():
        is_table = name.startswith(("embedding.", "ngrams.")) and tensor.dim() == 2
        is_half = is_table and "frequency" not in name
        assert tensor.dtype == (torch.float16 if is_half else before[name].dtype), name
        if not is_half:
            assert torch.equal(tensor, before[name])
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (run, small)]
    assert sizes[1] < 0.8 * sizes[0]
    loaded = WaveClassifier.load(small)
    assert all(p.dtype == torch.float32 for p in loaded.classifier_.model.parameters())
    assert loaded.predict(TEXTS).tolist() == model.predict(TEXTS).tolist()
    difference = loaded.predict_proba(TEXTS) - model.predict_proba(TEXTS)
    assert 0 < np.abs(difference).max() < 0.01  # float16 has 11 bits
    loaded.save(tmp_path / "again", "float16")
    again = (tmp_path / "again" / "model.safetensors").read_bytes()
    assert again == (small / "model.safetensors").read_bytes()
    _run(["predict", str(small), "a good film"])
    _run(["explain", str(small), "a good film"])
    assert '"label": "1"' in capsys.readouterr().out


def test_values_that_float16_cannot_hold_are_refused(tmp_path, folder):
    classifier = TextClassifier.load(folder)
    with torch.no_grad():
        next(iter(classifier.model.embedding.parameters()))[1, 0] = 1e6
    with pytest.raises(ValueError, match="has values up to 1e\\+06, too large for float16"):
        classifier.save(tmp_path / "half", "float16")
    with pytest.raises(ValueError, match="float16"):
        classifier.save(tmp_path / "half", "float8")
    assert not (tmp_path / "half").exists()
