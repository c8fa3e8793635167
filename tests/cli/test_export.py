"""`wordwave export` as a user meets it."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

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


def test_a_table_that_float16_cannot_hold_stays_float32(tmp_path, capsys):
    rng = np.random.default_rng(0)
    word = "".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz0123456789"], 3000))
    model = WaveClassifier(dim=8, hidden_dim=4, epochs=1).fit([*TEXTS, word], [*LABELS, 1])
    run, small = tmp_path / "run", tmp_path / "small"
    model.save(run)
    _run(["export", str(run), str(small), "--half"])
    before, after = (load_file(folder / "model.safetensors") for folder in (run, small))
    assert before["ngrams.words"].max() > torch.finfo(torch.float16).max
    assert torch.equal(after["ngrams.words"], before["ngrams.words"])
    assert {after[f"ngrams.{name}"].dtype for name in ("bigrams", "subwords")} == {torch.float16}
    loaded = WaveClassifier.load(small)
    assert loaded.predict([*TEXTS, word]).tolist() == model.predict([*TEXTS, word]).tolist()
    loaded.save(tmp_path / "again", "float16")
    again = (tmp_path / "again" / "model.safetensors").read_bytes()
    assert again == (small / "model.safetensors").read_bytes()


def test_amplitudes_that_float16_cannot_hold_are_saved_too(tmp_path, folder):
    classifier = TextClassifier.load(folder)
    table = next(iter(classifier.model.embedding.parameters()))
    with torch.no_grad():
        table[1, 0] = 1e6
    classifier.save(tmp_path / "half", "float16")
    loaded = TextClassifier.load(tmp_path / "half")
    assert torch.equal(next(iter(loaded.model.embedding.parameters())), table)
    with pytest.raises(ValueError, match="float16"):
        classifier.save(tmp_path / "other", "float8")
    assert not (tmp_path / "other").exists()


def test_each_tensor_of_a_file_must_have_a_dtype_that_is_written(tmp_path, with_ngrams):
    with_ngrams().save(tmp_path, "float16")
    path = tmp_path / "model.safetensors"
    saved = load_file(path)
    for name, tensor in saved.items():
        if not tensor.is_floating_point():
            continue
        for dtype in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
            save_file({**saved, name: tensor.to(dtype)}, path, {"format": "pt"})
            if dtype == tensor.dtype:
                TextClassifier.load(tmp_path)
                continue
            with pytest.raises(ValueError, match=f"dtype mismatch for the tensor '{name}'"):
                TextClassifier.load(tmp_path)
