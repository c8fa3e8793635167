"""Encoders and embeddings side by side, under one recipe an encoder."""

import csv
import random
import sys

import pytest

from wordwave import cli
from wordwave.errors import WordwaveError
from wordwave.models.config import ENCODERS
from wordwave.recipes import FOLDER, read_recipe
from wordwave.search.compare import (
    Candidate,
    Comparison,
    candidates,
    examples_to_compare_on,
    is_record,
    mean_scores,
    result_table,
)
from wordwave.tasks.config import DataConfig


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_that_comes_along_is_read(path):
    if path.stem in ENCODERS:
        assert read_recipe(path.stem).model.encoder == path.stem


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(ValueError, match="no recipe 'cnm' for classify; there are: cnn, fasttext"):
        read_recipe("cnm")


def test_every_embedding_under_an_encoder_has_the_same_settings():
    recipes = {encoder: read_recipe(encoder) for encoder in ENCODERS}
    comparison = Comparison(DataConfig(data="trec"), recipes, "")
    waves, words = (
        comparison.key(Candidate("cnn", embedding, 3))["config"]
        for embedding in ("complex-order", "none")
    )
    assert waves["model"]["embedding"].pop("kind") == "complex-order"
    assert words["model"]["embedding"].pop("kind") == "none"
    assert waves == words and waves["training"]["seed"] == 3


def test_rope_and_alibi_go_with_the_transformer_only():
    made = candidates(("cnn", "transformer"), ("none", "rope", "alibi"), seeds=2)
    assert len(made) == 2 * (1 + 3)


@pytest.fixture
def tables(tmp_path):
    rng = random.Random(0)
    for name, n in (("train", 80), ("test", 20)):
        rows = ["text,label"]
        for _ in range(n):
            mood = rng.choice(["good", "bad"])
            rows.append(f"a {'fine' if mood == 'good' else 'dull'} film {rng.randrange(9)},{mood}")
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    for encoder in ("fasttext", "cnn"):
        (recipes / f"{encoder}.yaml").write_text(
            f"model: {{encoder: {encoder}, dim: 16, n_filters: 16, dropout: 0.0}}\n"
            "training: {epochs: 10, batch_size: 8, learning_rate: 0.03}\n"
        )
    return tmp_path


def compare(folder, *more, encoders=("fasttext", "cnn"), baselines=()):
    words = ["compare", "--data", folder / "train.csv", "--test", folder / "test.csv"]
    words += ["--encoders", *encoders, "--embeddings", "none", "complex-order"]
    words += ["--baselines", *baselines]
    words += ["--recipes", folder / "recipes", "--out", folder / "out", "--jobs", "1", *more]
    cli._run([str(w) for w in words])


def test_a_comparison_makes_a_table_and_goes_on_where_it_stopped(tables, capsys):
    compare(tables)
    records = (tables / "out" / "records.jsonl").read_text()
    assert len(records.splitlines()) == 4
    compare(tables, "--seeds", "2")
    grown = (tables / "out" / "records.jsonl").read_text()
    assert grown.startswith(records) and len(grown.splitlines()) == 8
    with (tables / "out" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["encoder"], r["embedding"], r["seeds"]) for r in rows] == [
        ("fasttext", "none", "2"),
        ("fasttext", "complex-order", "2"),
        ("cnn", "none", "2"),
        ("cnn", "complex-order", "2"),
    ]
    assert all(float(r["test_accuracy"]) > 0.8 for r in rows)
    assert "| fasttext | none | 2 |" in (tables / "out" / "table.md").read_text()
    assert "Written:" in capsys.readouterr().out


def test_baselines_stand_beside_the_bag_and_do_not_repeat_what_has_no_seed(tables, capsys):
    pytest.importorskip("fasttext")
    baselines = "tfidf", "tfidf-char", "fasttext-library"
    (tables / "recipes" / "bag.yaml").write_text("training: {epochs: 2}\n")
    compare(tables, "--seeds", "2", encoders=["bag"], baselines=baselines)
    shown = capsys.readouterr().out
    assert "tfidf-char" in shown and "seconds" in shown
    with (tables / "out" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["encoder"], r["embedding"], r["seeds"]) for r in rows] == [
        ("bag", "none", "2"),
        ("bag", "complex-order", "2"),
        ("tfidf", "none", "1"),
        ("tfidf-char", "none", "1"),
        ("fasttext-library", "none", "2"),
    ]
    for r in rows[2:]:
        assert r["test_accuracy"] == r["test_macro_f1"] == r["dev_accuracy"] == "1.0"
        assert float(r["seconds"]) > 0 and int(r["parameters"]) > 0
    records = (tables / "out" / "records.jsonl").read_text()
    compare(tables, encoders=["bag"], baselines=baselines)
    assert (tables / "out" / "records.jsonl").read_text() == records


def test_without_fasttext_one_line_says_how_to_install_it(tables, monkeypatch):
    monkeypatch.setitem(sys.modules, "fasttext", None)
    expected = r"pip install 'wordwave\[anchors\]', or leave it out of --baselines"
    with pytest.raises(WordwaveError, match=expected):
        compare(tables, baselines=["fasttext-library"])


def test_without_a_test_part_a_tenth_of_the_examples_is_one(tables):
    parts = examples_to_compare_on(DataConfig(data=str(tables / "train.csv")))
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (65, 8, 7)


def test_without_the_vectors_of_a_recipe_the_defaults_are_used(tables, monkeypatch, capsys):
    monkeypatch.setenv("WORDWAVE_DATA", str(tables))
    words = ["compare", "--data", tables / "train.csv", "--encoders", "fasttext", "--jobs", "1"]
    words += ["--embeddings", "none", "--baselines", "--out", tables / "plain"]
    cli._run([str(w) for w in words])
    assert "fasttext: no pretrained vectors, so the default settings" in capsys.readouterr().out


def test_the_spread_is_over_seeds():
    record = {
        "encoder": "cnn", "embedding": "none", "test_macro_f1": 0.5, "dev_accuracy": 0.5,
        "parameters": 1, "epochs": 3, "epoch_seconds": 1.0, "words_per_second": 1,
        "predictions_per_second": 1,
    }  # fmt: skip
    (row,) = mean_scores([record | {"test_accuracy": x} for x in (0.8, 0.9)])
    assert row["test_accuracy"] == pytest.approx(0.85)
    assert row["spread"] == pytest.approx(0.0707, abs=1e-4)
    assert row["seconds"] == 3.0


def test_a_table_has_a_spread_if_there_are_several_seeds_and_tenths_of_seconds():
    record = {
        "encoder": "cnn", "embedding": "none", "test_accuracy": 0.5, "test_macro_f1": 0.5,
        "dev_accuracy": 0.5, "parameters": 1, "epochs": 3, "epoch_seconds": 411.51234,
        "words_per_second": 1, "predictions_per_second": 1,
    }  # fmt: skip
    for records, has_spread in (([record], False), ([record] * 2, True)):
        table = result_table(records, "a title")
        assert ("±" in table.columns) == has_spread
        (row,) = table.rows
        assert row[table.columns.index("seconds")] == "1,234.5"
        assert len(row) == len(table.columns)


def test_a_record_without_a_field_or_with_one_of_another_type_is_none():
    record = {
        "encoder": "cnn", "embedding": "none", "seed": 0, "test_accuracy": 0.5, "dev_accuracy": 0.5,
        "test_macro_f1": 0.5, "parameters": 1, "epochs": 3, "epoch_seconds": 1.0,
        "words_per_second": 1, "predictions_per_second": 1,
    }  # fmt: skip
    assert is_record(record)
    for name in record:
        assert not is_record({k: v for k, v in record.items() if k != name})
        bad = (None, "x", [], {}, -1, float("nan"), 10**400, True)
        assert sum(is_record({**record, name: value}) for value in bad) <= 1
