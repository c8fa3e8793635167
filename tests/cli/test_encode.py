"""`wordwave encode`: vectors of texts as the models compute them."""

import gzip
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from wordwave import TextClassifier, TextMatcher

WORDS = [f"w{i}" for i in range(12)]


@pytest.fixture(scope="module")
def matched(cli, tmp_path_factory):
    """A run of train match: is the second sentence the first, or the first reversed?"""
    folder = tmp_path_factory.mktemp("match")
    rng, rows = random.Random(0), []
    for i in range(80):
        words = rng.sample(WORDS, 4)
        other, label = (words, "yes") if i % 2 else (words[::-1], "no")
        rows.append((" ".join(words), " ".join(other), label))
    table = "".join("\t".join(row) + "\n" for row in [("text_a", "text_b", "label"), *rows])
    (folder / "pairs.tsv").write_text(table)
    sizes = ("--dim", "8", "--hidden-dim", "8", "--epochs", "1", "--max-length", "6")
    said = cli.call(
        "train", "match", "--data", folder / "pairs.tsv", "--out", folder / "run", *sizes
    )
    assert said.code == 0, said.err
    return SimpleNamespace(folder=folder / "run", table=folder / "pairs.tsv", rows=rows)


def test_a_file_of_any_length_becomes_the_rows_of_an_array(cli, trained, tmp_path):
    """More texts than are encoded at once."""
    texts = [text for text, _ in cli.examples(5000, seed=1)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    out = tmp_path / "new" / "vectors.npy"
    said = cli.call("encode", trained.folder, tmp_path / "texts.txt", "--out", out)
    classifier = TextClassifier.load(trained.folder)
    got, wanted = np.load(out), classifier.encode(texts).numpy()
    assert got.dtype == np.float32 and got.shape == (5000, classifier.model.sentence_dim)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert (said.code, said.out) == (0, "")
    assert said.err == f"Written: {out} (5,000 vectors of width {got.shape[1]})\n"
    assert [path.name for path in out.parent.iterdir()] == ["vectors.npy"]


def test_the_vectors_of_a_classifier_are_what_its_head_sees(trained):
    classifier = TextClassifier.load(trained.folder)
    texts = ["yes w1", "no", "w2 öfter w3 w4", ""]
    classifier.model.ngrams = None  # which have no vectors
    logits = classifier.model.eval().head(classifier.encode(texts))
    np.testing.assert_allclose(logits.detach(), classifier.logits(texts), rtol=1e-4, atol=1e-4)
    assert classifier.encode([]).shape == (0, classifier.model.sentence_dim)


def test_the_vectors_of_a_matcher_are_compared_to_its_logits(cli, matched, tmp_path):
    out = {}
    for column in ("text_a", "text_b"):
        out[column] = tmp_path / f"{column}.npy"
        words = () if column == "text_a" else ("--text", column)
        said = cli.call("encode", matched.folder, matched.table, *words, "--out", out[column])
        assert said.code == 0, said.err
    matcher = TextMatcher.load(matched.folder)
    u, v = (torch.from_numpy(np.load(path)) for path in out.values())
    logits = matcher.model.eval().compare(u, v).detach()
    pairs = [row[:2] for row in matched.rows]
    np.testing.assert_allclose(logits, matcher.logits(pairs), rtol=1e-4, atol=1e-4)


def test_lines_of_json_hold_every_digit(cli, matched, tmp_path):
    texts = ["w1 w2", "", "w3 never"]
    wanted = TextMatcher.load(matched.folder).encode(texts)
    with gzip.open(tmp_path / "texts.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"id": 1, "note": text}) + "\n" for text in texts)
    said = cli.call("encode", matched.folder, tmp_path / "texts.jsonl.gz", "--text", "note")
    got = np.array([json.loads(line) for line in said.out.splitlines()], np.float32)
    assert np.array_equal(got, wanted.numpy()) and said.err == ""
    piped = cli.call("encode", matched.folder, stdin="\n".join([*texts, ""]).encode())
    np.testing.assert_allclose(
        [json.loads(line) for line in piped.out.splitlines()], wanted, rtol=1e-5, atol=1e-5
    )
    one = cli.call("encode", matched.folder, "w1 w2")
    np.testing.assert_allclose(json.loads(one.out), wanted[0], rtol=1e-5, atol=1e-5)


def test_truncated_texts_are_counted(cli, matched, tmp_path):
    (tmp_path / "long.txt").write_text("w1 " * 7 + "\nw1 w2\n")
    said = cli.call(
        "encode", matched.folder, tmp_path / "long.txt", "--out", tmp_path / "vectors.npy"
    )
    assert said.err.startswith("1 of 2 texts were truncated to 6 words\nWritten: ")


def test_a_mistake_within_the_file_leaves_the_old_vectors(cli, matched, tmp_path):
    out = tmp_path / "vectors.npy"
    out.write_bytes(b"the old ones")
    (tmp_path / "texts.jsonl").write_text('{"text_a": "w1"}\n' * 3000 + "{\n")
    said = cli.call("encode", matched.folder, tmp_path / "texts.jsonl", "--out", out)
    cli.refusal(said, "texts.jsonl", "line 3001 must be JSON")
    assert out.read_bytes() == b"the old ones" and len(list(tmp_path.iterdir())) == 2


def test_mistakes_are_told_in_one_line(cli, matched, tmp_path):
    said = cli.call("encode", matched.folder, "w1 w2", "--out", tmp_path / "vectors.csv")
    cli.refusal(said, "out must end in .npy, got", "vectors.csv")
    cli.refusal(cli.call("encode", matched.folder, "--threads", "0"), "threads must be at least 1")
    said = cli.call("encode", matched.folder, matched.table, "--text", "text_c")
    cli.refusal(said, "there is no column 'text_c', only 'text_a', 'text_b'")
    cli.refusal(cli.call("encode", tmp_path), "is not a run folder")
    (tmp_path / "empty.txt").write_text("")
    said = cli.call("encode", matched.folder, tmp_path / "empty.txt", "--out", tmp_path / "v.npy")
    cli.refusal(said, "must hold at least one text, got none")
    assert not (tmp_path / "v.npy").exists()
