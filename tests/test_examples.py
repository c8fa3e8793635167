"""The scripts in examples/ run, and show what they say they show."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def main(name):
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_a_wave_embedding_in_a_model_of_ones_own(capsys):
    scores = main("custom_model.py")()
    assert scores["WaveEmbedding"] > 0.9 > 0.6 > scores["nn.Embedding"]
    assert "accuracy" in capsys.readouterr().out


def test_a_classifier_is_trained_saved_and_explained(tmp_path, capsys):
    predicted = main("explain_classifier.py")(tmp_path / "run")
    assert list(predicted.values()) == ["positive", "negative"]
    assert "without it" in capsys.readouterr().out


def test_every_example_has_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))
