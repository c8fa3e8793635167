"""The checklist of negation and word order, after training on phrases."""

import json

from experiments.checklist import ChecklistTable, phrases
from wordwave.tasks.checklist import builtin_templates

FEW = ("--rows", "waves", "tfidf", "--epochs", "1", "--phrases", "60", "--jobs", "1")


def test_rows_are_trained_once_and_scored_on_open_templates_only(tiny_home, experiments, tmp_path):
    phrases.cache_clear()
    code, shown, err = experiments("checklist", *FEW, "--seeds", "1", "--out", tmp_path)
    assert code == 0, err
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    records = list(map(json.loads, lines))
    assert [(r["row"], r["seed"]) for r in records] == [("waves", 0), ("tfidf", 0)]
    open_templates = {template.name for template in builtin_templates("open")}
    for record in records:
        assert record["n_phrases"] == 60
        assert {t["template"] for t in record["templates"]} == open_templates
        assert {t["words"] for t in record["templates"]} == {"open"}
        assert {n["label"] for n in record["negated"]} == {"negative", "positive"}
    assert "TF-IDF" in shown and "Written:" in shown
    table = (tmp_path / "checklist.md").read_text()
    assert "| waves | " in table and "| TF-IDF | " in table
    experiments("checklist", *FEW, "--seeds", "1", "--out", tmp_path)
    assert (tmp_path / "records.jsonl").read_text().splitlines() == lines


def test_held_out_templates_and_words_are_scored_when_asked_for(tiny_home, tmp_path):
    phrases.cache_clear()
    table = ChecklistTable(tmp_path, ("tfidf",), 1, held_out=True, n_phrases=60)
    (record,) = table.grid.run_missing(1)
    found = {(t["template"], t["words"]) for t in record["templates"]}
    assert len(found) == 2 * len(builtin_templates())
    held_out = [n for n in record["negated"] if n["words"] == "held-out"]
    assert [n["label"] for n in held_out] == ["negative", "positive"]
    summary, by_template = table.tables([record])
    assert len(summary.rows) == 1 and len(summary.rows[0]) == len(summary.columns)
    assert len(by_template.rows) == len(builtin_templates()) + 3
    assert ChecklistTable(tmp_path, ("tfidf",), 1, n_phrases=60).grid.missing()


def test_only_what_depends_on_a_seed_is_repeated(tmp_path):
    cells = ChecklistTable(tmp_path, seeds=3).grid.cells
    assert {row: sum(c.row == row for c in cells) for row in ("waves", "tfidf")} == {
        "waves": 3,
        "tfidf": 1,
    }
