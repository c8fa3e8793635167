"""`wordwave reproduce table5` and `table6` in small."""

import json

import pytest

from experiments import table5
from experiments.table5 import CHOICES
from wordwave.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["wordwave", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr()

    return run


SMALL = {
    "dim": 8, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward_dim": 8,
    "bpe_size": 300, "words": "spaced", "max_length": 20, "batch_size": 100, "grad_accumulation": 1,
    "eval_every": 1, "eval_bleu": 2, "max_steps": 2,
}  # fmt: skip


def test_table5_estimates_trains_goes_on_and_shows(run, monkeypatch, tmp_path):
    from wordwave.data.parallel import ParallelSentences, ParallelSplits
    from wordwave.tasks import config as translate_config

    texts = [f"{'ab' * (i % 3 + 1)} cd {i % 7}" for i in range(20)]
    parts = ParallelSplits(*[ParallelSentences(texts, texts)] * 3)
    monkeypatch.setattr(translate_config, "load_named", lambda *_: parts)
    monkeypatch.setattr(table5, "CPU", SMALL)
    words = ["reproduce", "table5", "--rows", "aed", "complex-order", "--jobs", "1"]
    words += ["--data", "built-in", "--out", tmp_path]
    code, said = run(*words, "--report-only")
    assert code == 2 and "leave --report-only out" in said.err
    code, said = run(*words, "--estimate-only")
    assert code == 0 and "2 of 2 trainings are missing: about" in said.out
    assert not (tmp_path / "records.jsonl").exists()
    code, said = run(*words)
    assert code == 0 and "complex-order" in said.out and "table5.md" in said.out
    rows = [json.loads(line)["row"] for line in (tmp_path / "records.jsonl").open()]
    assert rows == ["AED", "complex-order"]
    code, said = run(*words, "--estimate-only")
    assert code == 0 and "No training is missing" in said.out
    words[3:5] = ["tpe"]
    code, said = run(*words)
    assert code == 0 and "1 of 1 trainings are missing" in said.out
    shown = (tmp_path / "table5.md").read_text()
    assert all(f"| {row} |" in shown for row in ("AED", "Transformer + tpe", "complex-order"))
    words[3:4] = ["complex-order"]
    code, said = run(*words, "--choices", "--steps", "1")
    assert code == 0 and "complex-order: slow waves" in said.out and "choices.md" in said.out
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").open()]
    chosen = [r for r in records if ":" in r["row"]]
    assert len(chosen) == 1 + len(CHOICES) and all(r["test"] is None for r in chosen)
    for rows in ([], ["aed", "aed"]):
        code, said = run("reproduce", "table5", "--rows", *rows, "--out", tmp_path)
        assert code == 2 and "rows must name at least one, and each once" in said.err


def test_table6_trains_and_shows(run, tmp_path, monkeypatch):
    from dataclasses import replace

    from experiments import table6
    from experiments import table6 as table6_choices

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
            "scores by magnitude": tiny | {"score": "magnitude"},
            "positions within words": tiny | {"wave_positions": "word"},
        },
    }
    monkeypatch.setattr(table6_choices, "CHOICES", few)
    words = ["reproduce", "table6", "--data", path, "--steps", "2", "--seeds", "1"]
    words += ["--budgets", "updates", "--jobs", "1", "--out", tmp_path / "out"]
    code, said = run(*words)
    assert code == 0 and "at equal updates" in said.out and "table6.png" in said.out
    code, said = run(*words, "--choices")
    assert code == 0 and "positions within words" in said.out and "choices.md" in said.out
    records = (tmp_path / "out/records.jsonl").read_text()
    assert records.count("test_bpc") == 5 and "scores by magnitude" in records
    code, said = run(*words, "--choices", "--size", "paper")
    assert code == 2 and "choices are for the size 'small', got 'paper'" in said.err


def test_every_row_of_table6_has_as_many_choices():
    from pathlib import Path

    from experiments.long_table import first_of
    from experiments.table6 import CHOICES, FIRST, ROWS, SIZES, Table6Choices

    configs = Table6Choices(Path("unused"), seeds=1).configs()
    rows = [first_of(row) for row in configs]
    assert len({rows.count(row) for row in rows}) == 1
    assert {row.partition(":")[0] for row in rows} == set(ROWS) - {"transformer-xl + tpe"}
    for row, choices in CHOICES.items():
        pinned = FIRST | SIZES[row]
        assert all(name in pinned for changes in choices.values() for name in changes)
    assert len({str(config) for config in configs.values()}) == len(configs)


@pytest.mark.parametrize("flag", ["--steps", "--jobs", "--seeds"])
def test_numbers_below_one_are_refused(run, flag):
    code, said = run("reproduce", "table6", flag, "0")
    assert code == 2 and f"{flag[2:]} must be at least 1, got 0" in said.err
