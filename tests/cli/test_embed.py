"""train embed → encode → evaluate, as a user meets them."""

import gzip
import json
import random
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from wordwave import SentenceEncoder

QUICK = ("--dim", "8", "--order-dim", "4", "--bpe-size", "300", "--epochs", "2")


@pytest.fixture(scope="module")
def embedded(cli, tmp_path_factory):
    """A run of train embed with a teacher, and pairs to score it on."""
    folder, rng = tmp_path_factory.mktemp("embed"), random.Random(0)
    texts = [" ".join(rng.choices([f"w{i}" for i in range(30)], k=5)) for _ in range(80)]
    with gzip.open(folder / "sentences.txt.gz", "wt") as file:
        file.write("\n".join(texts) + "\n")
    vectors = np.random.default_rng(0).normal(size=(80, 12)).astype(np.float16)
    np.save(folder / "teacher.npy", vectors)
    command = ("train", "embed", "--data", folder / "sentences.txt.gz", *QUICK)
    command += ("--teacher", folder / "teacher.npy", "--out", folder / "run")
    said = cli.call(*command)
    assert said.code == 0, said.err
    rows = [(a, b, i % 2, i) for i, (a, b) in enumerate(pairwise(texts))]
    table = [("text_a", "text_b", "label", "score"), *rows]
    (folder / "pairs.tsv").write_text("".join("\t".join(map(str, r)) + "\n" for r in table))
    return SimpleNamespace(
        folder=folder / "run", files=folder, command=command, said=said, texts=texts, rows=rows
    )


def test_training_tells_what_it_did_and_how_to_go_on(cli, embedded):
    out = embedded.said.out
    assert "72 sentences to train on" in out and "vectors of width 32" in out
    assert "validation total" in out and "teacher cosine" in out and "order auc" in out
    assert f"Next: wordwave encode {embedded.folder}" in out.replace("\n", " ")
    again = cli.call(*embedded.command)
    assert again.code == 0 and "is finished already" in again.out
    result = json.loads((embedded.folder / "result.json").read_text())
    scores = result["dev"]
    assert scores["total"] == pytest.approx(scores["teacher_cosine"] + scores["order_auc"])


def test_encode_writes_the_vectors_of_the_encoder(cli, embedded, tmp_path):
    out = tmp_path / "vectors.npy"
    said = cli.call("encode", embedded.folder, embedded.files / "sentences.txt.gz", "--out", out)
    assert said.code == 0, said.err
    wanted = SentenceEncoder.load(embedded.folder).encode(embedded.texts)
    np.testing.assert_allclose(np.load(out), wanted, rtol=1e-4, atol=1e-5)
    one = cli.call("encode", embedded.folder, "w1 w2")
    np.testing.assert_allclose(np.linalg.norm(json.loads(one.out)), 1, rtol=1e-5)


def test_evaluate_scores_the_cosine_of_pairs(cli, embedded, tmp_path):
    pairs, encoder = embedded.files / "pairs.tsv", SentenceEncoder.load(embedded.folder)
    scores = {}
    for name, flags in {
        "auc": (),
        "rho": ("--similarity", "score"),
        "bag": ("--order-weight", "0"),
    }.items():
        out = tmp_path / f"{name}.json"
        said = cli.call("evaluate", embedded.folder, pairs, *flags, "--json", out)
        assert said.code == 0, said.err
        assert "79 pairs" in said.out
        scores[name] = json.loads(out.read_text())
    first, second, labels, numbers = zip(*embedded.rows, strict=True)
    cosines = (encoder.encode(first) * encoder.encode(second)).sum(1)
    assert scores["auc"]["auc"] == pytest.approx(roc_auc_score(labels, cosines), abs=1e-3)
    wanted = spearmanr(numbers, cosines).statistic
    assert scores["rho"]["spearman"] == pytest.approx(wanted, abs=1e-3)
    encoder.order_weight = 0
    cosines = (encoder.encode(first) * encoder.encode(second)).sum(1)
    assert scores["bag"]["auc"] == pytest.approx(roc_auc_score(labels, cosines), abs=1e-3)


def test_mistakes_are_told_in_one_line(cli, embedded, tmp_path):
    run, pairs = embedded.folder, embedded.files / "pairs.tsv"
    cli.refusal(cli.call("train", "embed"), "sentences to train on: --data FILE.txt")
    cli.refusal(cli.call("evaluate", run), "name pairs of sentences to score")
    cli.refusal(
        cli.call("evaluate", run, pairs, "--label", "score"), "must have two labels, got 79"
    )
    cli.refusal(cli.call("evaluate", run, pairs, "--similarity", "text_c"), "no column 'text_c'")
    cli.refusal(
        cli.call("evaluate", run, pairs, "--order-weight", "2"), "order_weight must be at most 1"
    )
    cli.refusal(cli.call("predict", run, "a text"), "is a run of 'embed'", "wordwave encode")
    data = embedded.command[:4]
    out = ("--out", tmp_path / "run")
    cli.refusal(cli.call(*data, *out, "--views", "start", "start"), "views must be one or more")
    cli.refusal(cli.call(*data, *out, "--word-dropout", "0.1"), "no meaning for sentence encoders")
    cli.refusal(
        cli.call(*data, *out, "--teacher", tmp_path / "none.npy"), "teacher must be a .npy file or"
    )
    wide = cli.call(*data, *out, "--teacher", embedded.files / "teacher.npy", "--dim", "13")
    cli.refusal(wide, "dim must be at most the width of the teacher, 12, got 13")
