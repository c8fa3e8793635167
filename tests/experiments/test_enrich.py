"""`python -m experiments enrich` with a tiny encoder: trained once, resumed, shown, scored once."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")

RESULTS = Path(__file__).parents[2] / "results/pairs"
COMMITTED = ("--data", "paws-wiki-qqp", "--pairs", "4000", "--epochs", "2")
"""What the committed table was made with."""
SMALL = ("--epochs", "1", "--max-length", "24", "--learning-rates", "1e-3", "1e-2")


@pytest.mark.slow
def test_every_variant_is_trained_once_and_shown(paws, tmp_path, experiments, encoder_folder):
    out = tmp_path / "out"
    command = ("enrich", "--weights", encoder_folder, "--out", out, *SMALL)
    code, said, err = experiments(*command, "--estimate-only")
    assert code == 0 and "8 of 8 trainings are missing: about" in said, err
    code, said, err = experiments(*command)
    assert code == 0 and "waves for positions" in said, err
    records = [json.loads(line) for line in (out / "enrich.jsonl").open()]
    assert len(records) == 8 and {r["part"] for r in records} == {"validation"}
    assert all(r["n"] == 8 and 0 <= r["auc"] <= 1 for r in records)
    assert {bool(r["gate"]) for r in records if r["variant"] in ("enriched", "replaced")} == {True}
    code, said, _ = experiments(*command)
    assert code == 0 and "missing" not in said
    assert len((out / "enrich.jsonl").read_text().splitlines()) == 8
    table = (out / "enrich.md").read_text()
    assert table.count("| waves added |") == 2 and "| **" in table
    assert (out / "enrich.csv").exists()


@pytest.mark.slow
def test_the_test_pairs_are_read_by_score_test_alone(
    paws, write_pairs, tmp_path, experiments, encoder_folder
):
    out, variants = tmp_path / "out", ("--variants", "frozen", "enriched")
    command = ("enrich", "--weights", encoder_folder, "--out", out, *SMALL, *variants)
    code, _, err = experiments(*command, "--score-test")
    assert code == 2 and "0 of 4 trainings. Train all" in err
    assert experiments(*command)[0] == 0
    code, _, err = experiments(*command, "--score-test")
    assert code == 2 and "paws-wiki.test.tsv.gz' is not in the data home" in err
    write_pairs(paws / "paws-wiki.test.tsv.gz", 80)
    code, _, err = experiments(*command, "--score-test")
    assert code == 0, err
    records = [json.loads(line) for line in (out / "enrich.jsonl").open()]
    tests = [r for r in records if r["part"] == "test"]
    assert sorted(r["variant"] for r in tests) == ["enriched", "frozen"]
    for test in tests:
        runs = [r for r in records if r["variant"] == test["variant"] and r["part"] != "test"]
        assert test["n"] == 40 and max(r["auc"] for r in runs) in [
            r["auc"] for r in runs if r["learning_rate"] == test["learning_rate"]
        ]
    assert experiments(*command, "--score-test")[0] == 0
    assert len((out / "enrich.jsonl").read_text().splitlines()) == len(records)


def test_impossible_options_are_one_line(experiments):
    for words, said in {
        ("--learning-rates", "0"): "learning_rates must be above 0",
        ("--epochs", "0"): "epochs must be at least 1",
        ("--variants", "plain", "plain"): "variants must name at least one, and each once",
    }.items():
        code, _, err = experiments("enrich", *words)
        assert code == 2 and said in err and err.count("\n") == 1
    code, _, err = experiments("--jobs", "2", "enrich")
    assert code == 2 and "enrich must come before its options" in err


def test_too_many_pairs_are_one_line(paws, tmp_path, experiments, encoder_folder):
    code, _, err = experiments(
        "enrich",
        "--weights",
        encoder_folder,
        "--out",
        tmp_path,
        "--pairs",
        "1000",
        "--data",
        "paws-wiki-qqp",
    )
    assert code == 2 and "pairs must be at most 72, got 1,000" in err


def test_the_committed_table_is_that_of_its_records(tmp_path, experiments):
    shutil.copy(RESULTS / "enrich.jsonl", tmp_path)
    code, _, err = experiments("enrich", *COMMITTED, "--report-only", "--out", tmp_path)
    assert code == 0, err
    for suffix in (".md", ".csv", ".tex"):
        made, kept = (folder / f"enrich-qqp{suffix}" for folder in (tmp_path, RESULTS))
        assert made.read_text() == kept.read_text()
