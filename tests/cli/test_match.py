"""train match → evaluate → predict, as a user meets them."""

import csv
import gzip
import json
import os
import random
import subprocess
import sys
from types import SimpleNamespace

import pytest

LABELS = ("[bold]same[/]", 'schön "anders"')
"""Odd names: of a sentence beside itself, and beside its reversal."""
QUICK = ("--dim", "16", "--hidden-dim", "16", "--dropout", "0", "--epochs", "3")
QUICK += ("--batch-size", "32", "--learning-rate", "0.01")


def pairs(n, seed=0, labels=LABELS):
    rng = random.Random(seed)
    for i in range(n):
        words = rng.sample([f"w{k}" for k in range(40)], 6)
        yield " ".join(words), " ".join(words[:: -1 if i % 2 else 1]), labels[i % 2]


def write_pairs(path, rows, columns=("text_a", "text_b", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def answers(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def train(cli, data, out, *more):
    return cli.call("train", "match", "--data", data, "--out", out, *QUICK, *more)


@pytest.fixture(scope="module")
def matcher(cli, tmp_path_factory):
    """A finished run, and what was said when it was trained. Not to be changed."""
    place = tmp_path_factory.mktemp("match")
    table, folder = write_pairs(place / "pairs.csv", pairs(400)), place / "run"
    said = train(cli, table, folder)
    assert said.code == 0, said.err
    return SimpleNamespace(folder=folder, table=table, said=said)


@pytest.fixture(scope="module")
def scorer(cli, tmp_path_factory):
    """A run that predicts a similarity from 1 to 5."""
    place = tmp_path_factory.mktemp("similarity")
    table = write_pairs(place / "p.csv", pairs(400, labels=(5, 1)), ("text_a", "text_b", "rating"))
    said = train(cli, table, place / "run", "--similarity", "rating")
    assert said.code == 0, said.err
    return SimpleNamespace(folder=place / "run", table=table, said=said)


def test_training_says_what_it_found_what_it_wrote_and_what_to_do_next(cli, matcher):
    out = matcher.said.out
    assert "360 pairs, 42 words, 2 classes" in out and matcher.said.err == ""
    assert "validation accuracy 1.0000" in out and "auc 1.0000" in out
    assert f"Next: wordwave predict {matcher.folder} pairs.tsv" in out
    assert not (matcher.folder / "state").exists()
    assert f"{matcher.folder} is finished already" in train(cli, matcher.table, matcher.folder).out


def test_evaluate_scores_its_own_pairs_and_a_file(cli, matcher, tmp_path):
    own = cli.call("evaluate", matcher.folder)
    assert own.code == 0 and "dev (which chose the weights: optimistic)" in own.out
    assert "accuracy 1.0000" in own.out and "40 pairs" in own.out
    rows = [(a, b, LABELS[0]) for a, b, _ in pairs(40, seed=3)]
    data = write_pairs(tmp_path / "new.csv", rows, ("one", "other", "verdict"))
    file = tmp_path / "scores.json"
    columns = ("--text-a", "one", "--text-b", "other", "--label", "verdict")
    shown = cli.call("evaluate", matcher.folder, data, *columns, "--json", file)
    assert shown.code == 0 and "new.csv: accuracy 0.5000, f1 0.0000, 40 pairs" in shown.out
    assert json.loads(file.read_text()) == {"n": 40, "accuracy": 0.5, "f1": 0.0}


@pytest.mark.parametrize("form", ["pipe", "txt", "csv", "tsv", "jsonl", "tsv.gz"])
def test_predict_answers_in_order_from_any_kind_of_file(cli, matcher, tmp_path, form):
    rows = list(pairs(50, seed=2))
    lines = [f"{a}\t{b}" for a, b, _ in rows]
    if form == "csv":
        lines = ["id,text_b,text_a", *(f"{i},{b},{a}" for i, (a, b, _) in enumerate(rows))]
    elif form.startswith("tsv"):
        lines.insert(0, "text_a\ttext_b")
    elif form == "jsonl":
        lines = [json.dumps({"text_a": a, "text_b": b, "n": 1}) for a, b, _ in rows]
    raw = ("\n".join(lines) + "\n").encode()
    if form == "pipe":
        told = answers(cli.call("predict", matcher.folder, stdin=raw))
    else:
        path = tmp_path / f"pairs.{form}"
        path.write_bytes(gzip.compress(raw) if form.endswith("gz") else raw)
        told = answers(cli.call("predict", matcher.folder, path))
    assert [(t["text_a"], t["text_b"], t["label"]) for t in told] == rows
    for answer in told:
        assert answer["probability"] == answer["probabilities"][answer["label"]] > 0.5


def test_two_arguments_are_a_pair(cli, matcher):
    (same,) = answers(cli.call("predict", matcher.folder, "w1 w2 w3 w4", "w1 w2 w3 w4"))
    assert (same["text_a"], same["label"]) == ("w1 w2 w3 w4", LABELS[0])
    (other,) = answers(cli.call("predict", matcher.folder, "w1 w2 w3 w4", "w4 w3 w2 w1", "--quiet"))
    assert list(other) == ["label", "probability"] and other["label"] == LABELS[1]
    (empty,) = answers(cli.call("predict", matcher.folder, "", ""))
    assert empty["text_a"] == empty["text_b"] == ""


def test_predictions_as_a_table_keep_all_other_columns(cli, matcher, scorer, tmp_path):
    rows = [(i, a, b, "old") for i, (a, b, _) in enumerate(pairs(6, seed=2))]
    data = write_pairs(tmp_path / "new.csv", rows, ("id", "text_a", "text_b", "score"))
    out = tmp_path / "told.csv"
    assert cli.call("predict", matcher.folder, data, "--out", out).code == 0
    with out.open(newline="") as file:
        told = list(csv.DictReader(file))
    assert [t["predicted"] for t in told] == [LABELS[i % 2] for i in range(6)]
    assert [(t["id"], t["score"]) for t in told] == [(str(i), "old") for i in range(6)]
    assert cli.call("predict", scorer.folder, data, "--out", out).code == 0
    with out.open(newline="") as file:
        told = list(csv.DictReader(file))
    assert list(told[0]) == ["id", "text_a", "text_b", "score", "wordwave_score"]
    assert [float(t["wordwave_score"]) > 3 for t in told] == [True, False] * 3


def test_similarities_are_learnt_scored_and_predicted(cli, scorer, tmp_path):
    assert "scores from 1 to 5" in scorer.said.out and "spearman" in scorer.said.out
    own = cli.call("evaluate", scorer.folder, "--json", tmp_path / "scores.json")
    assert own.code == 0 and "pearson" in own.out
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["n"] == 40 and found["pearson"] > 0.8 and found["spearman"] > 0.6
    rows = list(pairs(20, seed=3, labels=(4.5, 0)))
    data = write_pairs(tmp_path / "new.csv", rows, ("text_a", "text_b", "stars"))
    shown = cli.call("evaluate", scorer.folder, data, "--label", "stars")
    assert shown.code == 0 and "20 pairs" in shown.out
    told = answers(cli.call("predict", scorer.folder, data))
    assert [t["score"] > 3 for t in told] == [True, False] * 10
    assert all(set(t) == {"score", "text_a", "text_b"} and 1 <= t["score"] <= 5 for t in told)


def test_a_run_from_before_unknown_words_were_hashed_predicts_as_it_did(cli, tmp_path):
    table = write_pairs(tmp_path / "pairs.csv", pairs(40))
    run, pair = tmp_path / "run", ("qqq w1 zzz", "zzz w1 qqq")
    assert train(cli, table, run, "--unknown-words", "shared").code == 0
    before = cli.call("predict", run, *pair)
    config = (run / "config.yaml").read_text()
    assert "  unknown_words: shared\n" in config
    (run / "config.yaml").write_text(config.replace("  unknown_words: shared\n", ""))
    after = cli.call("predict", run, *pair)
    assert before.code == after.code == 0 and before.out == after.out


def test_truncated_sentences_are_counted_as_sentences(cli, matcher):
    long = "w1 " * 600
    result = cli.call("predict", matcher.folder, stdin=f"{long}\t{long}\na\t{long}\n".encode())
    assert result.code == 0 and "3 of 4 texts were truncated to 512 words" in result.err


def test_other_columns_dev_and_test_files_and_the_config_of_a_run(cli, tmp_path):
    files = {}
    for seed, (name, n) in enumerate((("train", 60), ("dev", 10), ("test", 12))):
        rows = list(pairs(n, seed))
        files[name] = write_pairs(tmp_path / f"{name}.csv", rows, ("q", "[b]r[/b]", "dup"))
    run = tmp_path / "run"
    columns = ("--text-a", "q", "--text-b", "[b]r[/b]", "--label", "dup", "--epochs", "1")
    parts = ("--dev", files["dev"], "--test", files["test"])
    said = train(cli, files["train"], run, *columns, *parts)
    assert said.code == 0 and "test accuracy" in said.out and "12 pairs" in said.out, said.err
    assert "test.csv: accuracy" in cli.call("evaluate", run).out
    again = tmp_path / "again"
    words = ("train", "match", "--config", run / "config.yaml", "--out", again)
    assert cli.call(*words).code == 0
    one, other = ((f / "model.safetensors").read_bytes() for f in (run, again))
    assert one == other


GOOD = "text_a,text_b,label\n" + "".join(f"a{i},b{i},{i % 2}\n" for i in range(20))
REFUSED = {
    "no such file": (None, (), ("does not exist",)),
    "no column": (
        "a,b\nx,y\n",
        (),
        ("there is no column 'text_a'", "'a', 'b'; name it with --text-a"),
    ),
    "a column twice": (GOOD, ("--text-a", "text_b"), ("three columns are needed",)),
    "empty sentence": (GOOD + ",b,1\n", (), ("line 22: 'text_a' must hold a text, got nothing",)),
    "no label": (GOOD + "a,b,\n", (), ("line 22: 'label' must hold a label",)),
    "one class": (GOOD.replace(",0\n", ",1\n"), (), ("two classes or more, got only '1'",)),
    "NaN": (GOOD + "a,b,nan\n", ("--similarity", "label"), ("'label' must hold a number",)),
    "one score": (GOOD.replace(",0\n", ",1\n"), ("--similarity", "label"), ("two scores",)),
    "renaming": (GOOD, ("--word-renaming", "1.5"), ("word_renaming must be",)),
    "views": (GOOD, ("--views", "start", "start"), ("only relative may be repeated",)),
    "damping": (GOOD, ("--damping",), ("damping goes with a single view",)),
    "rope": (GOOD, ("--embedding", "rope"), ("needs the encoder 'transformer'",)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_refused_in_one_line(cli, tmp_path, case):
    content, flags, said = REFUSED[case]
    if content is not None:
        (tmp_path / "p.csv").write_text(content)
    cli.refusal(train(cli, tmp_path / "p.csv", tmp_path / "run", *flags), *said)
    assert not (tmp_path / "run").exists()


def test_pairs_that_all_share_a_sentence_need_a_validation_file(cli, tmp_path):
    star = [("hub", f"b{i}", i % 2) for i in range(20)]
    table = write_pairs(tmp_path / "p.csv", star)
    cli.refusal(train(cli, table, tmp_path / "run"), "share sentences", "--dev")


def test_a_share_or_patience_that_would_be_ignored_is_refused(cli, matcher, tmp_path):
    def refused(data, *words, said):
        cli.refusal(train(cli, data, tmp_path / "run", *words), said)
        assert not (tmp_path / "run").exists()

    beside = ("--dev", matcher.table)
    refused(matcher.table, *beside, "--dev-share", "0.2", said="dev and dev_share both choose")
    refused("built-in", "--dev-share", "0.1", said="'built-in' has a validation set, got dev_share")
    no_share = ("--dev-share", "0", "--patience", "2")
    refused(matcher.table, *no_share, said="patience needs a dev_share above 0, got patience 2")
    said = train(cli, matcher.table, tmp_path / "run", *beside, "--patience", "2", "--epochs", "1")
    assert said.code == 0 and "400 pairs" in said.out, said.err
    assert "dev_share: null" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("how", ["command", "config"])
def test_a_run_with_a_share_is_resumed_and_used(cli, matcher, tmp_path, beside, how):
    """As earlier versions wrote it: also beside a validation file, where it is ignored."""
    run, more = tmp_path / "run", ("--dev", matcher.table) if beside else ()
    with cli.stopped_at(3):
        assert train(cli, matcher.table, run, *more, "--save-every", "0").code == 130
    path = run / "config.yaml"
    config = path.read_text()
    path.write_text(config.replace("dev_share: null", "dev_share: 0.1"))
    assert "dev_share: 0.1" in path.read_text()
    if how == "config":
        resumed = cli.call("train", "match", "--config", path, "--out", run)
    else:
        resumed = train(cli, matcher.table, run, *more)
    assert resumed.code == 0 and "Resuming" in resumed.out, resumed.err
    path.write_text(config.replace("dev_share: null", "dev_share: 0.1"))
    scored = cli.call("evaluate", run)
    assert scored.code == 0 and f"{400 if beside else 40} pairs" in scored.out, scored.err


def test_names_and_options_that_do_not_go_together(cli, tmp_path):
    def refused(*words, said):
        cli.refusal(cli.call("train", "match", *words, "--out", tmp_path / "run"), said)

    refused(said="there must be pairs to train on: --data FILE.tsv")
    refused("--data", "paws-wik", said="did you mean 'paws-wiki'")
    refused("--data", "buildin", said="did you mean 'built-in'")
    for name in ("sts-b", "built-in"):
        refused("--data", name, "--similarity", "x", said="go with files of your own")
    refused("--data", "built-in", "--dev", "dev.tsv", said="not with 'built-in'")


def test_built_in_pairs_need_no_file_and_are_tested_on_their_own_part(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path / "nothing"))
    said = train(cli, "built-in", tmp_path / "run", "--max-steps", "2")
    assert said.code == 0 and "6,400 pairs" in said.out and "800 pairs" in said.out
    again = cli.call("evaluate", tmp_path / "run")
    assert again.code == 0 and "built-in test" in again.out


def test_what_cannot_be_predicted_is_refused_in_one_line(cli, matcher, trained, tmp_path):
    def refused(*words, said, stdin=b"", run=matcher.folder):
        cli.refusal(cli.call("predict", run, *words, stdin=stdin), said)

    table = write_pairs(tmp_path / "p.csv", [("a", "b", "c")], ("x", "text_b", "y"))
    refused("dog bites man", said="a pair has two sentences, got one, 'dog bites man'")
    refused(table, said="there is no column 'text_a'")
    refused(table, "--text-a", "text_b", said="a pair needs two columns, got 'text_b' twice")
    refused(table, "--text", "x", said="--text is for texts")
    refused(table, "more.csv", said="a pair has two sentences, got a file")
    refused(said="line 2 must hold 2 texts separated by tabs, got 1", stdin=b"a\tb\nc\n")
    refused(said="line 1 must hold 2 texts separated by tabs, got 3", stdin=b"a\tb\tc\n")
    refused("a b", "c d", "--encoding", "latin-1", said="--encoding must go with a file or stand")
    refused("a b", "c d", said="a run of train match only", run=trained.folder)
    refused("a b", "--text-a", "x", said="a run of train match only", run=trained.folder)


def test_what_cannot_be_evaluated_is_refused_in_one_line(cli, matcher, scorer, tmp_path):
    def refused(run, *words, said):
        cli.refusal(cli.call("evaluate", run.folder, *words), said)

    refused(matcher, "--label", "x", said="name columns of --data FILE, which is missing")
    refused(matcher, tmp_path / "none.csv", said="does not exist")
    table = write_pairs(tmp_path / "p.csv", [("a", "b", "new")])
    refused(matcher, table, said="has the label 'new', which is not in the training set")
    refused(scorer, table, "--label", "label", said="'label' must hold a number, got 'new'")
    for verb in ("translate", "generate"):
        ended = cli.call(verb, matcher.folder)
        cli.refusal(ended, "is a run of 'match'", "wordwave predict")


@pytest.mark.parametrize("task", ["translate", "lm"])
def test_models_that_generate_text_count_from_the_start_only(cli, tmp_path, task):
    words = ("train", task, "--views", "start", "end", "--out", tmp_path / "run")
    cli.refusal(cli.call(*words), "views must be start for", "got start end")


MEASURED = """
import resource, sys
from wordwave.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in KiB")
def test_memory_does_not_grow_with_the_number_of_pairs(matcher, tmp_path):
    def kilobytes(n):
        """The most memory that predicting n pairs takes; 2 kB a row."""
        data, out = tmp_path / f"{n}.tsv", tmp_path / "told.jsonl"
        with data.open("w") as file:
            file.write("text_a\ttext_b\tnote\n")
            note = "n" * 2000
            file.writelines(f"w{i % 40} w2 w{i}\tw2 w{i % 40}\t{note}\n" for i in range(n))
        words = ["predict", str(matcher.folder), str(data), "--out", str(out), "--quiet"]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *words],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        with out.open() as file:
            assert sum(1 for _ in file) == n
        return int(done.stderr.split()[-1])

    assert kilobytes(50_000) - kilobytes(5_000) < 50_000  # of 90 MB more
