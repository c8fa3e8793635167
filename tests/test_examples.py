"""The scripts in examples/ run, and show what they say they show."""

import runpy
from pathlib import Path

import pytest

import wordwave as ww
from tolerance import approx

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
    assert "its place" in capsys.readouterr().out


@pytest.mark.slow
def test_mteb_scores_an_encoder_on_local_pairs(tmp_path):
    for name in ("mteb", "sentence_transformers", "datasets"):
        pytest.importorskip(name)
    texts = ["a dog sleeps", "the sun shines", "he reads a book", "a puppy is asleep"]
    rows = [(a, b, f"{5 * (a == b) + 1 / (1 + i + j)}") for i, a in enumerate(texts)
            for j, b in enumerate(texts)]  # fmt: skip
    lines = [("text_a", "text_b", "score"), *rows]
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
    found = main("mteb_similarity.py")(tmp_path / "pairs.tsv")
    encoder = ww.SentenceEncoder.from_pretrained()
    from scipy.stats import pearsonr

    cosines = encoder.similarity(texts, texts).flatten()
    wanted = pearsonr(cosines, [float(score) for _, _, score in rows]).statistic
    assert found["cosine_pearson"] == approx(wanted, terms=1000)


def test_every_example_has_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))
