"""`python -m experiments pairs`: its encoders, splits and search, its one look at a test set."""

import json
import sys

import numpy as np
import pytest
import torch
from scipy.fft import dct
from torch.testing import assert_close

from experiments import outside
from experiments.pair_commands import rows_named
from experiments.pairs import ABLATION, SEARCH, PairCell, PairTable, implied_pairs, load_splits
from experiments.sentence_rows import N_COSINES, OWN_ROWS, CosineTransform, HashedBigrams
from tolerance import rounding
from wordwave.data.pairs import TextPairs


def test_cosine_sums_are_a_discrete_cosine_transform():
    embedding = CosineTransform(20, 5)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [7, 7, 2, 8, 0, 0, 0]])
    found = embedding(ids).sum(1).unflatten(-1, (N_COSINES, 5))
    for row, sums in zip(ids, found, strict=True):
        words = embedding.words(row[row > 0]).detach().numpy()
        expected = dct(words, axis=0)[:N_COSINES] / 2
        n = min(len(expected), N_COSINES)
        assert_close(sums[:n], torch.from_numpy(expected[:n]), **rounding(terms=64))


def test_hashed_bigrams_depend_on_neighbours_alone():
    embedding = HashedBigrams(20, 4)
    one, other = (embedding(torch.tensor([row])).sum(1) for row in ([3, 1, 4], [1, 3, 4]))
    assert_close(one[:, :4], other[:, :4], **rounding(terms=16))
    assert not torch.allclose(one[:, 4:], other[:, 4:])
    padded = embedding(torch.tensor([[3, 1, 4, 0, 0]]))
    assert_close(padded.sum(1), one, **rounding(terms=16))
    assert not padded[:, 3:].any()
    assert not embedding(torch.tensor([[3]]))[:, :, 4:].any()  # a single word has no bigram


def test_every_cell_has_a_config():
    for row in OWN_ROWS:
        assert PairCell("paws-wiki", row, dim=128).config().model.dim == 128
    bag = "sum of waves, 3 views and context"
    configs = [PairCell("sick", bag, change=change).config() for change in ABLATION]
    assert all(config.data.similarity == "score" for config in configs)


def test_parts_share_no_sentence(paws, write_pairs):
    write_pairs(paws / "paws-qqp.dev.tsv.gz", 70)
    write_pairs(paws / "paws-wiki.test.tsv.gz", 100)
    for data, n in (("paws-wiki", 40), ("paws-qqp", 30)):
        parts = load_splits(data, with_test=True)
        assert len(parts.train) + len(parts.dev) == n and len(parts.test) == 40
        texts = [{*part.first, *part.second} for part in (parts.train, parts.dev, parts.test)]
        assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
        assert load_splits(data).test is None
    more = load_splits("paws-wiki", with_qqp=True)
    assert isinstance(more.train, TextPairs) and len(more.train) + len(more.dev) == 80


def test_pairs_are_implied_by_others():
    labels = ["1", "1", "0", "0"]
    pairs = TextPairs(["a", "b", "c", "d"], ["b", "c", "d", "e"], labels)
    found = implied_pairs(pairs)
    rows = {
        (frozenset(two), label)
        for *two, label in zip(found.first, found.second, found.labels, strict=True)
    }
    same, others = {frozenset("ac")}, {frozenset("ad"), frozenset("bd")}
    assert rows == {(pair, "1") for pair in same} | {(pair, "0") for pair in others}


def record(table, score, **cell):
    fields = PairCell("paws-wiki", "DCT", **cell)
    key = {name: getattr(fields, name) for name in table.store.key}
    sizes = {"best_epoch": 1, "seconds": 1.0, "parameters": 1}
    table.store.append({**key, "score": score, **sizes})


def test_settings_are_searched_one_after_the_other(tmp_path):
    table = PairTable("paws-wiki", tmp_path, tmp_path, rows=("DCT",))
    (first,), (second,), *later = table.rounds()
    usual = {name: values[0] for name, values in SEARCH.items()}
    assert {name: getattr(first, name) for name in usual} == usual
    assert second.word_renaming == 0 and later == [[], [], []] and not table.chosen()
    record(table, 0.6)
    record(table, 0.7, word_renaming=0.0)  # which is better, so the search goes on with it
    (third,), last, seeds = table.rounds()[2:]
    assert (third.word_renaming, third.learning_rate) == (0.0, 1e-3) and last == seeds == []
    record(table, 0.5, word_renaming=0.0, learning_rate=1e-3)
    record(table, 0.7, word_renaming=0.0, dim=128)  # no better: the first one stays
    chosen = table.chosen()["DCT"]
    assert (chosen.word_renaming, chosen.learning_rate, chosen.dim) == (0.0, 2e-3, 256)
    assert [cell.seed for cell in table.rounds()[-1]] == [1, 2]


@pytest.mark.slow
def test_rows_are_trained_once_and_scored_once(paws, write_pairs, tmp_path, experiments):
    out, weights = tmp_path / "out", tmp_path / "weights"
    command = ("pairs", "--rows", "DCT", "--out", out, "--weights", weights, "--jobs", "1")
    code, said, err = experiments(*command)
    assert code == 0 and "DCT" in said, err
    records = [json.loads(line) for line in (out / "validation.jsonl").open()]
    assert len(records) == 6 and {r["seed"] for r in records} == {0, 1, 2}
    assert experiments(*command, "--score-test")[0] == 2  # there is no test file
    write_pairs(paws / "paws-wiki.test.tsv.gz", 100)
    next(weights.glob("*DCT-1-*")).unlink()  # trained again
    for _ in range(2):
        code, _, err = experiments(*command, "--score-test")
        assert code == 0, err
        looks = [json.loads(line) for line in (out / "test-looks.jsonl").open()]
        assert [look["model"] for look in looks] == [f"DCT, seed {seed}" for seed in range(3)]
    assert len((out / "validation.jsonl").read_text().splitlines()) == 6
    assert "| DCT |" in (out / "paws-wiki.md").read_text()


@pytest.mark.slow
def test_vectors_from_elsewhere_are_scored_and_trained_on(paws, write_pairs, tmp_path, monkeypatch):
    called = []

    def fake(name, texts=()):
        def encode(texts):
            called.append(len(texts))
            return np.stack([np.tile(np.frombuffer(t.encode()[:9], "u1"), 2) for t in texts]) / 99

        return encode

    monkeypatch.setattr(outside, "outside_encoder", fake)
    write_pairs(paws / "paws-wiki.test.tsv.gz", 100)
    rows = ("WordLlama, frozen",)
    table = PairTable("paws-wiki", tmp_path / "out", tmp_path / "weights", rows)
    for i in range(len(table.rounds())):
        for cell in table.rounds()[i]:
            assert cell.word_renaming == 0
            table.store.append(table.run(cell))
    assert len(table.store.records()) == 5 and len(called) == 1  # the vectors are kept
    for _ in range(2):
        table.score_test()
        for part in ("validation", "test"):
            table.score_cosines(part)
    assert len(called) == 2 and len(table.tests.records()) == 3
    looks = [json.loads(line)["model"] for line in (tmp_path / "out/test-looks.jsonl").open()]
    assert looks == [*(f"{rows[0]}, seed {seed}" for seed in range(3)), "WordLlama, cosine"]
    shown = table.table().to_markdown()
    assert "| WordLlama, frozen |" in shown and "| WordLlama, cosine |" in shown


def test_a_missing_package_is_one_line(paws, tmp_path, experiments, monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    command = ("pairs", "--rows", "WordLlama", "--out", tmp_path, "--weights", tmp_path)
    code, _, err = experiments(*command, "--jobs", "1")
    assert code == 2 and "pip install wordllama" in err and err.count("\n") == 1


def test_rows_are_named_by_their_start():
    assert rows_named(()) == OWN_ROWS
    assert rows_named(("DCT", "sum of words")) == ("sum of words", "DCT")  # a whole name is one row
    assert len(rows_named(("sum of w",))) == 6


def test_an_unknown_row_is_one_line(experiments):
    code, _, err = experiments("pairs", "--rows", "GRU")
    assert code == 2 and "there is no row 'GRU'" in err and err.count("\n") == 1
