"""`wordwave demo`, with small models and few steps."""

import json
from dataclasses import replace

import pytest

from wordwave.cli import demo
from wordwave.data.pairs import load_pair_splits
from wordwave.lab.laboratory import Budget
from wordwave.lab.paraphrases import EXAMPLES, GUESSING, KEY, ROWS, SETTINGS, is_record

SMALL = {**SETTINGS, "dim": 8, "hidden_dim": 8, "epochs": 1, "max_steps": 2}


@pytest.fixture
def small(monkeypatch):
    budget = Budget(dim=8, n_train=64, n_test=20, epochs=1)
    monkeypatch.setattr(demo, "LABORATORY", replace(demo.LABORATORY, budget=budget))
    monkeypatch.setattr(demo, "SETTINGS", SMALL)


@pytest.mark.slow
def test_the_demo_measures_draws_and_says_how_to_go_on(cli, tmp_path, small):
    out = tmp_path / "[bold]out"
    first = cli.call("demo", "--jobs", "1", "--out", out)
    assert first.code == 0, first.err
    for words in ("precedence", *ROWS.values(), *EXAMPLES[0], "train match --data", str(out)):
        assert words in first.out
    for name in ("demo.png", "waves.png", "heat-map.png", "paraphrases.md", "paraphrases.csv"):
        assert (out / name).stat().st_size > 100
    lines = (out / "paraphrases.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {r["embedding"] for r in records} == set(ROWS) and all(map(is_record, records))
    for r in records:
        assert r["n_test"] == 800 and set(KEY) <= r.keys()

    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
    again = cli.call("demo", "--jobs", "1", "--out", out)
    assert again.code == 0
    assert (out / "paraphrases.jsonl").read_text().splitlines() == lines
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/*")}

    predicted = cli.call("predict", out / "complex-order", *EXAMPLES[1][:2])
    assert predicted.code == 0 and '"paraphrase"' in predicted.out


def test_the_examples_are_test_pairs_of_the_same_words():
    test = load_pair_splits("built-in").test
    assert set(EXAMPLES) <= set(zip(test.first, test.second, test.labels, strict=True))
    for first, second, _ in EXAMPLES:
        assert sorted(first.lower().split()) == sorted(second.lower().split())
    assert {label for *_, label in EXAMPLES} == set(test.labels)
    assert test.labels.count("different") / len(test) == GUESSING


@pytest.mark.slow
def test_matchers_of_other_settings_are_not_mixed_up(cli, tmp_path, small, monkeypatch):
    assert cli.call("demo", "--jobs", "1", "--out", tmp_path).code == 0
    monkeypatch.setattr(demo, "SETTINGS", {**SMALL, "dim": 4})
    changed = cli.call("demo", "--jobs", "1", "--out", tmp_path)
    cli.refusal(changed, "holds a run with dim 8, here it is 4")
