"""`python -m experiments acceptability`: its scores, its reordered sentences, one small table."""

import gzip
import json
import random

import pytest
import torch
from sklearn.metrics import matthews_corrcoef

from experiments import acceptability
from experiments.acceptability import best_threshold, higher, matthews, reordered, unmarked
from tolerance import rounding
from wordwave.tasks.config import ClassificationConfig


def test_the_best_threshold_is_that_of_a_search_of_all():
    generator = torch.Generator().manual_seed(0)
    for n in (2, 3, 40):
        scores = torch.randn(n, generator=generator).double().round(decimals=1)
        targets = torch.arange(n) % 2
        values = scores.unique()
        middles = (values[1:] + values[:-1]) / 2
        wanted = max((matthews_corrcoef(targets, scores > t) for t in middles), default=0.0)
        found, threshold = best_threshold(scores, targets)
        if len(middles):
            torch.testing.assert_close(found, wanted, **rounding(terms=n, dtype=torch.float64))
            torch.testing.assert_close(
                matthews(scores > threshold, targets),
                found,
                **rounding(terms=n, dtype=torch.float64),
            )


def test_equal_scores_count_half():
    good, bad = torch.tensor([1.0, 2.0, 3.0, 5.0]), torch.tensor([0.0, 2.0 + 1e-6, 4.0, 4.0])
    assert higher(good, bad) == 2.5 / 4


def test_reordered_sentences_have_the_same_words_in_another_order():
    rng = random.Random(0)
    for text in ("a b", "The dog the dog bites", "dog bites man and man bites dog"):
        for _ in range(20):
            other = reordered(text, rng)
            assert sorted(other.split()) == sorted(text.split()) and other != text
    assert unmarked('He said: "Go!"') == 'He said: "Go'


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """A data home with sentences, CoLA and BLiMP in small."""
    home = tmp_path / "home"
    for name in ("pairs", "sentences"):
        (home / name).mkdir(parents=True)

    def write(name, lines):
        (home / name).write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))

    texts = [f"the dog{i} bites the man{i}" for i in range(40)]
    others = [f"bites dog{i} the man{i} the" for i in range(40)]
    both = [
        row
        for one, other in zip(texts, others, strict=True)
        for row in (f"1\t{one}.", f"0\t{other}.")
    ]
    write("cola.train.tsv.gz", both)
    write("cola.dev.tsv.gz", both[:10])
    write("cola.dev-out-of-domain.tsv.gz", both[10:20])
    rows = [f"swap\t{one}.\t{other}?" for one, other in zip(texts, others, strict=True)]
    write("pairs/blimp.same-words.tsv.gz", ["phenomenon\tgood\tbad", *rows])
    monkeypatch.setenv("WORDWAVE_DATA", str(home))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(acceptability, "training_sentences", lambda: texts)
    monkeypatch.setattr(acceptability, "N_VALIDATION", 8)
    for cached in (acceptability.order_splits, acceptability.cola_splits):
        cached.cache_clear()
    yield home
    for cached in (acceptability.order_splits, acceptability.cola_splits):
        cached.cache_clear()


@pytest.mark.slow
def test_a_row_is_trained_and_scored_once(sentences, tmp_path, experiments):
    out, weights = tmp_path / "out", tmp_path / "weights"
    for data, n_records in (("blimp", 3), ("cola-pretrained", 5)):
        command = ("acceptability", "--data", data, "--rows", "DCT", "--jobs", "1")
        command += ("--out", out, "--weights", weights)
        for _ in range(2):
            code, said, err = experiments(*command, "--score-test")
            assert code == 0 and "DCT" in said, err
        records = [json.loads(line) for line in (out / "validation.jsonl").open()]
        assert sum(r["data"] == data for r in records) == n_records
    looks = [json.loads(line)["set"] for line in (out / "test-looks.jsonl").open()]
    assert looks == ["blimp same-word pairs"] * 3 + ["cola-pretrained dev"] * 3
    assert "| swap |" in (out / "blimp-phenomena.md").read_text()
    assert "| DCT |" in (out / "cola-pretrained.md").read_text()


def test_every_cell_has_a_config():
    for data in acceptability.SEARCHES:
        cell = acceptability.AcceptabilityCell(data, "sum of waves, 3 views and context")
        assert isinstance(cell.config(), ClassificationConfig)


def test_models_from_elsewhere_are_refused(experiments):
    code, _, err = experiments("acceptability", "--rows", "WordLlama")
    assert code == 2 and "is a row of pairs only" in err and err.count("\n") == 1
