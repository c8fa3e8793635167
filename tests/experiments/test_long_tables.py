"""`python -m experiments table5` and `table6` in small."""

import json

import pytest

from experiments import table5
from experiments.choices import TABLE5_CHOICES, TABLE5_RATES

SMALL = {
    "dim": 8, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward_dim": 8,
    "bpe_size": 300, "words": "spaced", "max_length": 20, "batch_size": 100, "grad_accumulation": 1,
    "eval_every": 1, "eval_bleu": 2, "max_steps": 2,
}  # fmt: skip


def test_table5_estimates_trains_resumes_and_shows(experiments, monkeypatch, tmp_path):
    from wordwave.data import parallel
    from wordwave.data.parallel import ParallelSentences, ParallelSplits

    texts = [f"{'ab' * (i % 3 + 1)} cd {i % 7}" for i in range(20)]
    parts = ParallelSplits(*[ParallelSentences(texts, texts)] * 3)
    monkeypatch.setattr(parallel, "load_named", lambda *_: parts)
    monkeypatch.setattr(table5, "CPU", SMALL)
    words = ["table5", "--rows", "aed", "complex-order", "--jobs", "1"]
    words += ["--data", "built-in", "--out", tmp_path]
    code, out, err = experiments(*words, "--report-only")
    assert code == 2 and "run without --report-only" in err
    code, out, err = experiments(*words, "--estimate-only")
    assert code == 0 and "2 of 2 trainings are missing: about" in out
    assert not (tmp_path / "records.jsonl").exists()
    code, out, err = experiments(*words)
    assert code == 0 and "complex-order" in out and "table5.md" in out
    rows = [json.loads(line)["row"] for line in (tmp_path / "records.jsonl").open()]
    assert rows == ["AED", "complex-order"]
    code, out, err = experiments(*words, "--estimate-only")
    assert code == 0 and "No training is missing" in out
    words[2:4] = ["tpe"]
    code, out, err = experiments(*words)
    assert code == 0 and "1 of 1 trainings are missing" in out
    shown = (tmp_path / "table5.md").read_text()
    assert all(f"| {row} |" in shown for row in ("AED", "Transformer + tpe", "complex-order"))
    words[2:3] = ["complex-order"]
    code, out, err = experiments(*words, "--choices", "--steps", "1")
    assert code == 0 and "complex-order: low frequencies" in out and "choices.md" in out
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").open()]
    chosen = [r for r in records if ":" in r["row"]]
    assert len(chosen) == 1 + len(TABLE5_CHOICES) + len(TABLE5_RATES)
    assert all(r["test"] is None for r in chosen)
    tuned = [r for r in records if ":" not in r["row"]]
    assert all(r["length_penalty"] in table5.LENGTH_PENALTIES for r in tuned)
    for rows in ([], ["aed", "aed"]):
        code, out, err = experiments("table5", "--rows", *rows, "--out", tmp_path)
        assert code == 2 and "rows must name at least one, and each once" in err


def test_table6_trains_and_shows(experiments, tmp_path, monkeypatch):
    from dataclasses import replace

    from experiments import choices, table6

    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 60)
    recipes = table6.row_configs()

    def small(size):
        return {
            row: replace(
                config,
                data=replace(config.data, eval_chars=50, test_chars=50),
                model=replace(config.model, dim=8, n_layers=1, feed_forward_dim=8, n_heads=2),
                training=replace(config.training, batch_size=2, eval_every=1),
            )
            for row, config in recipes.items()
        }

    monkeypatch.setattr(table6, "row_configs", small)
    tiny = {"dim": 8, "feed_forward_dim": 8}
    few = {
        "complex-vanilla": {"two heads": tiny | {"n_heads": 2}},
        "complex-order": {
            "magnitude attention scores": tiny | {"score": "magnitude"},
            "positions within words": tiny | {"wave_positions": "word"},
        },
    }
    monkeypatch.setattr(choices, "TABLE6_CHOICES", few)
    words = ["table6", "--data", path, "--steps", "2", "--seeds", "1"]
    words += ["--budgets", "updates", "--jobs", "1", "--out", tmp_path / "out"]
    code, out, err = experiments(*words)
    assert code == 0 and "at equal updates" in out and "table6.png" in out
    code, out, err = experiments(*words, "--choices")
    assert code == 0 and "positions within words" in out and "choices.md" in out
    records = (tmp_path / "out/records.jsonl").read_text()
    assert records.count("test_bpc") == 6 and "magnitude attention scores" in records
    code, out, err = experiments(*words, "--choices", "--size", "paper")
    assert code == 2 and "choices are for the size 'small', got 'paper'" in err


def test_every_row_of_table6_has_as_many_choices():
    from pathlib import Path

    from experiments.choices import (
        TABLE6_BASELINE,
        TABLE6_CHOICES,
        TABLE6_SIZES,
        Table6Choices,
        baseline_of,
    )
    from experiments.table6 import ROWS

    configs = Table6Choices(Path("unused"), seeds=1).configs()
    rows = [baseline_of(row) for row in configs]
    assert len({rows.count(row) for row in rows}) == 1
    alike = {"transformer-xl + tpe", "complex-order, as in the paper"}
    assert {row.partition(":")[0] for row in rows} == set(ROWS) - alike
    for row, choices in TABLE6_CHOICES.items():
        pinned = TABLE6_BASELINE | TABLE6_SIZES[row]
        assert all(name in pinned for changes in choices.values() for name in changes)
    assert len({str(config) for config in configs.values()}) == len(configs)


@pytest.mark.parametrize("flag", ["--steps", "--jobs", "--seeds"])
def test_numbers_below_one_are_refused(experiments, flag):
    code, _, err = experiments("table6", flag, "0")
    assert code == 2 and f"{flag[2:]} must be at least 1, got 0" in err
