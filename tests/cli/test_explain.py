"""`wordwave explain` as a user meets it."""

import io
import json
import re
import subprocess
import sys

import pytest
import torch

from wordwave.cli.explain import BLUES, ORANGES, explain, words_line
from wordwave.config_io import with_settings
from wordwave.models.classifier import Classifier, PairNetwork
from wordwave.models.config import ModelConfig, PairModelConfig
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig, MatchingConfig
from wordwave.tasks.matcher import TextMatcher
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer
from wordwave.text.vocabulary import Vocabulary

TEXT = "not good but [b] bad $"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of small models: one with waves, one blind to order; matchers of pairs."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.build([["not", "good", "but", "bad"]])
    folders = {}
    for embedding in ("complex-order", "none"):
        config = with_settings(
            ModelConfig(), embedding=embedding, dim=8, hidden_dim=8, max_length=60
        )
        model = Classifier(config, len(vocabulary), 2)
        encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=config.max_length)
        folders[embedding] = tmp_path_factory.mktemp(embedding)
        settings = ClassificationConfig(model=config)
        TextClassifier(model, encoder, ["p$o$s", "neg"], settings).save(folders[embedding])
    for name, labels in (("pairs", ("no", "p$[b]")), ("scores", ())):
        config = with_settings(PairModelConfig(), dim=8, hidden_dim=8, max_length=60)
        model = PairNetwork(config, len(vocabulary), len(labels) or 1)
        folders[name] = tmp_path_factory.mktemp(name)
        settings = MatchingConfig(model=config)
        if not labels:
            settings = with_settings(settings, similarity="score")
        TextMatcher(model, encoder, labels, settings, (0.0, 5.0)).save(folders[name])
    return folders


def run(*arguments):
    explain([str(argument) for argument in arguments], prog="wordwave explain")


def pipe(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_help_needs_no_torch():
    check = "import sys; from wordwave.cli import explain, export; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_the_nearest_words_are_listed_and_written(runs, tmp_path, capsys):
    figures = tmp_path / "near.json"
    run(runs["complex-order"], "--nearest", "good", "--json", figures)
    found = json.loads(figures.read_text())
    assert sorted(one["word"] for one in found) == ["bad", "but", "not"]
    assert found == sorted(found, key=lambda one: -one["cosine"])
    said = capsys.readouterr().out
    assert all(f"{one['cosine']:.3f}" in said for one in found)
    for arguments, message in [
        ((runs["none"], "--nearest", "god"), "'god' must be one word of the vocabulary.*good"),
        ((runs["none"], TEXT, "--nearest", "good"), "--nearest good goes without texts"),
        ((runs["pairs"], "--nearest", "good"), "--nearest goes with a run of train classify"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(*arguments)


def test_a_text_is_told_drawn_and_written(runs, tmp_path, capsys):
    picture, figures = tmp_path / "new" / "why.png", tmp_path / "why.json"
    run(runs["complex-order"], TEXT, "--picture", picture, "--json", figures, "--shuffles", "7")
    said = capsys.readouterr().out
    assert f"“{TEXT}”" in said and "[ ?" in said and "Shuffled 7 times" in said
    assert "Most harmful: " in said and f"Written: {picture}" in said.replace("\n", "")
    (told,) = json.loads(figures.read_text(encoding="utf-8"))
    assert told["text"] == TEXT and len(told["words"]) == 8 and told["n_shuffles"] == 7
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_model_blind_to_order_says_so(runs, capsys):
    run(runs["none"], "not good but bad")
    said = capsys.readouterr().out
    assert "another class at 0 of 12" in said and "No move lowers p." in said
    assert "the log-odds change by 0.00 on average, another class 0 times" in " ".join(said.split())


def test_texts_of_a_pipe_are_numbered(runs, tmp_path, capsys, monkeypatch):
    pipe(monkeypatch, "not bad\ngood\n")
    run(runs["none"], "--picture", tmp_path / "why.svg", "--json", tmp_path / "why.json")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"why-1.svg", "why-2.svg", "why.json"}
    told = json.loads((tmp_path / "why.json").read_text())
    assert [entry["text"] for entry in told] == ["not bad", "good"]
    assert "<svg" in (tmp_path / "why-2.svg").read_text()


def test_texts_of_a_file_come_from_a_column(runs, tmp_path, capsys):
    (tmp_path / "texts.csv").write_text("id,review\n1,not bad\n2,good\n")
    run(runs["none"], "--file", tmp_path / "texts.csv", "--column", "review")
    said = capsys.readouterr().out
    assert "“not bad”" in said and "“good”" in said


def test_long_texts_say_what_was_left_out(runs, tmp_path, capsys):
    text = " ".join(["not good but bad"] * 17)
    run(
        runs["none"],
        text,
        "--most-moves",
        "100",
        "--shuffles",
        "2",
        "--picture",
        tmp_path / "a.png",
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "the model does not see the last 8 words" in said
    assert "Moves to some positions only" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a text", "--file", "b.txt"), "a text or --file, got both 'a text' and 'b.txt'"),
        (("a text", "--picture", "why.bmp"), "a picture must end in .png, .svg, .pdf, got"),
        (("a text", "--shuffles", "-1"), "shuffles must be at least 0, got -1"),
        (("a text", "--shuffles", "1000000000"), "shuffles must be at most 100000, got"),
        (("a text", "another"), "pairs of sentences go with a run of train match only"),
    ],
)
def test_mistakes_are_told_in_one_line(runs, arguments, said):
    with pytest.raises(ValueError, match=said):
        run(runs["none"], *arguments)


def test_a_pair_is_told_and_written(runs, tmp_path, capsys):
    figures = tmp_path / "why.json"
    run(runs["pairs"], TEXT, "bad but [b] good", "--json", figures, "--shuffles", "7")
    said = capsys.readouterr().out
    assert f"“{TEXT}”\n“bad but [b] good”\n→ " in said and "p$[b] 0." in said
    assert "Second sentence shuffled 7 times" in said and "[ ?" in said and "not *" in said
    assert re.search("No swap lowers p|(Closest to a|A)nother class: “.+” .* swapped with", said)
    (told,) = json.loads(figures.read_text(encoding="utf-8"))
    assert (told["text_a"], told["text_b"]) == (TEXT, "bad but [b] good")
    assert len(told["words_b"]) == 6 and told["n_moves"] == 30 and told["n_swaps"] == 15


def test_a_score_is_explained_without_classes(runs, capsys):
    run(runs["scores"], "not good", "good but bad")
    said = capsys.readouterr().out
    assert "→ score " in said and "changes of the score" in said and "class" not in said


def test_pairs_of_a_file_and_of_a_pipe(runs, tmp_path, capsys, monkeypatch):
    (tmp_path / "pairs.csv").write_text("one,two\nnot bad,good\nbad,not good\n")
    columns = ("--text-a", "one", "--text-b", "two")
    run(runs["pairs"], "--file", tmp_path / "pairs.csv", *columns)
    of_file = capsys.readouterr().out
    assert "“not bad”\n“good”" in of_file and "“bad”\n“not good”" in of_file
    pipe(monkeypatch, "not bad\tgood\nbad\tnot good\n")
    run(runs["pairs"])
    assert capsys.readouterr().out == of_file


def test_long_pairs_say_what_was_left_out(runs, capsys):
    run(runs["pairs"], "good", "not good but bad " * 17, "--most-moves", "90", "--shuffles", "2")
    said = capsys.readouterr().out
    assert "does not see the last 8 words of the second sentence" in said
    assert "Moves to some positions only" in said and "Swaps of near words only: 90" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a text",), "a pair has two sentences, got one, 'a text'"),
        (("a", "b", "--picture", "why.png"), "--picture goes with a run of train classify"),
        (("--file", "b.csv", "--column", "x"), "--column goes with a run of train classify"),
        (("a", "b", "--file", "b.csv"), "a text or --file, got both"),
    ],
)
def test_mistakes_with_pairs_are_told_in_one_line(runs, arguments, said):
    with pytest.raises(ValueError, match=said):
        run(runs["pairs"], *arguments)


def test_a_line_shows_what_each_word_and_its_place_bring():
    line = words_line([("good", 0.4, 0.0), ("not", -0.2, 0.1), ("[b]", 0.0, 0.05)])
    assert line.plain.split() == ["good", "not", "█", "[b]", "▄"]
    styles = [str(span.style) for span in line.spans if "white on" in str(span.style)]
    assert styles == [f"white on {BLUES[-1]}", f"white on {ORANGES[2]}"]


def test_the_line_stands_above_the_table(runs, capsys):
    run(runs["complex-order"], TEXT)
    shown = capsys.readouterr().out
    assert shown.index("block: what its position changes") < shown.index("ampli-")
    run(runs["pairs"], "not good", "good not")
    assert "block: what its position changes" in capsys.readouterr().out
