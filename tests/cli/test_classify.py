"""train → evaluate → predict, as a user meets them."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from safetensors.torch import load_file

from wordwave.cli import VERBS
from wordwave.config_io import read_yaml

WORDWAVE = str(Path(sys.executable).with_name("wordwave"))
SLOW_TO_LOAD = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "accelerate"}
SLOW_TO_LOAD |= {"optuna", "tokenizers", "huggingface_hub", "datasets", "requests", "sacrebleu"}


def bytes_of(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def same_weights(one, other):
    one, other = (load_file(folder / "model.safetensors") for folder in (one, other))
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


def answers(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def train(cli, data, out, *more):
    result = cli.call("train", "classify", "--data", data, "--out", out, *cli.quick, *more)
    assert result.code == 0, result.err
    return result


def test_training_says_what_it_found_what_it_wrote_and_what_to_do_next(trained):
    assert "25 words, 3 classes" in trained.said.out
    assert re.search(r"epoch +1 +loss \d", trained.said.out)
    assert "validation accuracy 1.0000" in trained.said.out
    assert f'Next: echo "a text" | wordwave predict {trained.folder}' in trained.said.out
    assert trained.said.err == ""
    written = {p.name for p in trained.folder.iterdir()}
    assert {"config.yaml", "vocab.json", "model.safetensors", "metrics.jsonl"} <= written
    assert "state" not in written and json.loads((trained.folder / "result.json").read_text())


def test_evaluate_scores_the_dev_part_where_there_is_no_test_part(cli, trained):
    shown = cli.call("evaluate", trained.folder)
    assert shown.code == 0 and "dev (which chose the weights: optimistic): 48 examp" in shown.out
    assert "accuracy 1.0000, 95% interval" in shown.out and "macro-F1 1.0000" in shown.out


def test_evaluate_scores_a_file_and_shows_and_writes_who_was_taken_for_whom(cli, trained, tmp_path):
    rows = list(cli.examples(30, seed=1))
    wrong = [(rows[0][0], "[bold]x[/]"), *rows[1:]]
    data = cli.write_table(tmp_path / "new.csv", wrong)
    file = tmp_path / "new" / "scores.json"
    shown = cli.call("evaluate", trained.folder, "--data", data, "--json", file)
    assert shown.code == 0, shown.err
    assert all(label in shown.out for _, label in rows[:3])  # brackets are no style
    figures = json.loads(file.read_text())
    assert figures["accuracy"] == 29 / 30 and figures["n"] == 30
    assert "precision" in shown.out and "recall" in shown.out
    assert sum(one["n"] for one in figures["classes"]) == 30
    named = dict(zip(figures["labels"], figures["confusion"], strict=True))
    assert named["[bold]x[/]"][figures["labels"].index('good "one"')] == 1


def test_predictions_as_a_table_keep_all_other_columns(cli, trained, tmp_path):
    given, out = tmp_path / "new.csv", tmp_path / "said.csv"
    given.write_text(
        'id,text,predicted,id\n7,"w1, yes",old,a\n8,"no ""no\n no",,"b\rc"\n', newline=""
    )
    said = cli.call("predict", trained.folder, given, "--out", out)
    assert said.code == 0 and said.out == "" and f"Written: {out}" in said.err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["id"], r["text"], r["predicted"]) for r in rows] == [
        ("7", "w1, yes", "old"),
        ("8", 'no "no\n no', ""),
    ]
    assert [r["id.1"] for r in rows] == ["a", "b\rc"]
    assert [r["wordwave_predicted"] for r in rows] == ['good "one"', "[bold]x[/]"]
    assert all(0.5 < float(r["probability"]) <= 1 for r in rows)
    piped = cli.call("predict", trained.folder, "--out", tmp_path / "x.tsv", stdin=b"yes\nno\n")
    assert piped.code == 0
    assert (tmp_path / "x.tsv").read_text().splitlines()[0] == "text\tpredicted\tprobability"
    (tmp_path / "odd.jsonl").write_text('{"text": "yes", "tags": ["a"]}\n{"text": "no"}\n')
    packed = tmp_path / "odd.CSV.gz"
    assert cli.call("predict", trained.folder, tmp_path / "odd.jsonl", "--out", packed).code == 0
    assert (
        gzip.decompress(packed.read_bytes()).decode().splitlines()[1].startswith('yes,"[""a""]",')
    )
    (tmp_path / "odd.jsonl").write_text('{"text": "yes"}\n{"text": "no", "extra": 1}\n')
    cli.refusal(
        cli.call("predict", trained.folder, tmp_path / "odd.jsonl", "--out", out),
        "a row has 'extra', which the first one lacks",
    )
    cli.refusal(
        cli.call("predict", trained.folder, given, "--out", tmp_path / "said.xlsx"),
        "out must end in .jsonl, .csv or .tsv",
    )


def test_predictions_in_a_table_of_predictions_have_names_of_their_own(cli, trained, tmp_path):
    table = tmp_path / "said.csv"
    table.write_text("text\nyes\n")
    for _ in range(3):
        assert cli.call("predict", trained.folder, table, "--out", table).code == 0
    names = [prefix + name for prefix in ("", *("wordwave_", "wordwave_wordwave_"))
             for name in ("predicted", "probability")]  # fmt: skip
    assert table.read_text().splitlines()[0].split(",") == ["text", *names]


@pytest.mark.parametrize(
    ("name", "is_list"),
    [
        *(("a.json", True), ("a.JSON", True), ("a.Json.gz", True)),
        *(("a.jsonl", False), ("a.json.jsonl", False), ("a.json.txt", False)),
    ],
)
def test_the_ending_of_a_file_says_whether_it_is_a_json_list(cli, trained, tmp_path, name, is_list):
    out = tmp_path / name
    assert cli.call("predict", trained.folder, "yes", "--out", out).code == 0
    content = out.read_bytes()
    found = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
    (one,) = found if is_list else [found]
    assert one["text"] == "yes"


def test_a_text_itself_is_classified_and_a_missing_file_is_not_taken_for_one(cli, trained):
    # A word, a text without spaces, and one that is too long for the name of a file.
    for text in ("w1 yes w2", "yes", "excellent!", "这个手机不好", "yes " * 300):
        (one,) = answers(cli.call("predict", trained.folder, text))
        assert one["text"] == text and one["label"] in ('good "one"', "[bold]x[/]")
    for name in ("my reviews.csv", "reviews.json", "folder/reviews"):
        cli.refusal(cli.call("predict", trained.folder, name), "does not exist")


def test_evaluate_takes_other_columns(cli, trained, tmp_path):
    data = tmp_path / "other.tsv"
    data.write_text("kind\tbody\n" + 'good "one"\tw1 yes\n' + "[bold]x[/]\tno no\n")
    columns = ("--text", "body", "--label", "kind")
    shown = cli.call("evaluate", trained.folder, "--data", data, *columns)
    assert shown.code == 0 and "accuracy 1.0000" in shown.out


def written_as(form, texts, folder):
    path = folder / f"texts.{form}"
    if form.startswith("txt"):
        content = "".join(text + "\n" for text in texts)
    elif form.startswith("jsonl"):
        content = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    else:
        content = "n,text\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts))
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if form.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize("form", ["pipe", "txt", "csv", "jsonl", "txt.gz", "csv.gz", "jsonl.gz"])
def test_predict_answers_in_order_from_any_kind_of_file(cli, trained, tmp_path, form):
    rows = list(cli.examples(50, seed=2))
    texts = [text for text, _ in rows]
    if form == "pipe":
        lines = "".join(text + "\n" for text in texts)
        told = answers(cli.call("predict", trained.folder, stdin=lines.encode()))
    else:
        told = answers(cli.call("predict", trained.folder, written_as(form, texts, tmp_path)))
    assert [(a["text"], a["label"]) for a in told] == rows
    for answer in told:
        assert answer["probabilities"][answer["label"]] == answer["probability"]
        assert answer["probability"] == max(answer["probabilities"].values())
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_predict_reads_any_number_of_texts(cli, trained, tmp_path):
    texts = [f"{i} yes" if i % 7 else f"{i} no" for i in range(20_000)]
    told = answers(cli.call("predict", trained.folder, written_as("txt", texts, tmp_path)))
    assert [a["text"] for a in told] == texts
    assert [a["label"] for a in told[:8]] == ["[bold]x[/]"] + 6 * ['good "one"'] + ["[bold]x[/]"]


def test_predict_answers_valid_json_whatever_the_text(cli, trained):
    odd = ['say "yes"', "back\\slash", "tab\there", "", " ", "ü ☂ 漢字 🎈", "a\x85b\u2028c", "[/b]"]
    told = answers(cli.call("predict", trained.folder, stdin="\n".join(odd).encode()))
    assert [a["text"] for a in told] == odd


def test_quiet_leaves_the_label_and_its_probability(cli, trained):
    told = answers(cli.call("predict", trained.folder, "--quiet", stdin=b"yes\nno\n"))
    assert [list(answer) for answer in told] == 2 * [["label", "probability"]]
    assert [answer["label"] for answer in told] == ['good "one"', "[bold]x[/]"]


def test_predict_makes_the_folder_of_out_and_replaces_a_file_that_is_there(cli, trained, tmp_path):
    out = tmp_path / "new" / "folder" / "answers.jsonl"
    for text in ("yes", "no"):
        told = cli.call("predict", trained.folder, "--out", out, stdin=text.encode())
        assert told.code == 0 and told.out == "" and told.err == f"Written: {out}\n"
        assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == [text]
    assert list(out.parent.iterdir()) == [out]


def test_answers_come_before_the_pipe_is_closed_and_a_reader_may_leave_early(trained):
    process = subprocess.Popen(
        [WORDWAVE, "predict", str(trained.folder), "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    for text, label in (("yes", 'good "one"'), ("no", "[bold]x[/]")):
        process.stdin.write(text.encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["label"] == label
    process.stdout.close()  # as `head -2` does
    process.stdin.write(b"yes\n")
    process.stdin.flush()  # and it is not closed: more may come, but nobody waits for it
    assert process.wait(60) == 0 and process.stderr.read() == b""


def test_the_same_command_again_says_that_it_is_finished_and_changes_nothing(cli, trained):
    before = bytes_of(trained.folder)
    again = train(cli, trained.table, trained.folder)
    assert f"{trained.folder} is finished already" in again.out
    assert "validation accuracy 1.0000" in again.out and bytes_of(trained.folder) == before


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(cli, trained, tmp_path):
    train(cli, trained.table, tmp_path / "same")
    assert same_weights(trained.folder, tmp_path / "same")
    train(cli, trained.table, tmp_path / "other", "--seed", "1")
    assert not same_weights(trained.folder, tmp_path / "other")


def test_the_config_of_a_run_trains_it_again_and_flags_count_more(cli, trained, tmp_path):
    config = trained.folder / "config.yaml"
    words = ("train", "classify", "--config", config, "--out")
    assert cli.call(*words, tmp_path / "again").code == 0
    assert same_weights(trained.folder, tmp_path / "again")
    assert (tmp_path / "again" / "config.yaml").read_text() == config.read_text()
    assert cli.call(*words, tmp_path / "short", "--epochs", "1").code == 0
    assert json.loads((tmp_path / "short" / "result.json").read_text())["epochs"] == 1


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_the_same_examples_give_the_same_weights_from_any_file(cli, trained, tmp_path, form):
    rows = list(cli.examples(480))
    data = tmp_path / f"odd.{form}"
    if form == "tsv":
        lines = ["text\tlabel", *("\t".join(row) for row in rows)]
    else:
        lines = [json.dumps({"label": label, "text": text}) for text, label in rows]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    train(cli, data, tmp_path / "run")
    assert same_weights(trained.folder, tmp_path / "run")


def test_a_run_with_pieces_of_words_is_saved_and_loaded(cli, trained, tmp_path):
    train(cli, trained.table, tmp_path / "run", "--tokenizer", "bpe", "--bpe-size", "300")
    assert (tmp_path / "run" / "tokenizer.json").exists()
    shown = cli.call("evaluate", tmp_path / "run")
    assert shown.code == 0 and "accuracy 1.0000" in shown.out
    told = answers(cli.call("predict", tmp_path / "run", stdin="w3 öfter w5\n漢字 no".encode()))
    assert [answer["label"] for answer in told] == ["schön ☂", "[bold]x[/]"]


def test_a_run_with_vectors_is_as_wide_as_they_are_and_is_known_again(cli, trained, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("yes 1 2 3 4 5 6\nno 6 5 4 3 2 1\n")
    for said in ("2 of them have a pretrained vector", "is finished already"):
        result = train(cli, trained.table, tmp_path / "run", "--vectors", vectors)
        assert said in result.out
    assert "dim: 6\n" in (tmp_path / "run" / "config.yaml").read_text()


def test_dev_and_test_files_are_used_as_such(cli, trained, tmp_path):
    dev, test = (
        cli.write_table(tmp_path / f"{name}.csv", cli.examples(n, seed=n))
        for name, n in (("dev", 12), ("test", 15))
    )
    words = ("--data", trained.table, "--out", tmp_path / "run", "--dev", dev, "--test", test)
    result = cli.call("train", "classify", *words, *cli.whole)
    assert "test accuracy 1.0000" in result.out and "15 examples" in result.out
    assert "test.csv: 15 examples" in cli.call("evaluate", tmp_path / "run").out


@pytest.fixture(scope="module")
def help_of():
    """The help of a verb, and which of the modules that take long to load it loaded."""
    code = (
        "import sys\nfrom wordwave.cli import main\n"
        "try:\n    main()\nfinally:\n"
        f"    print(*{SLOW_TO_LOAD!r} & sys.modules.keys(), file=sys.stderr)"
    )

    @cache
    def show(verb):
        done = subprocess.run(
            [sys.executable, "-c", code, *verb.split(), "--help"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "80"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.split()

    return show


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_loads_nothing_that_takes_long(help_of, verb):
    shown, loaded = help_of(verb)
    assert "usage: wordwave" in shown and not loaded


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_explained(help_of, verb):
    inner = [line.strip("│").rstrip() for line in help_of(verb)[0].splitlines() if "│" in line]
    flags = [i for i, line in enumerate(inner) if re.match(r" (--?\w|[A-Z]{2,})", line)]
    assert any("--help" in inner[i] for i in flags)
    for i, end in zip(flags, [*flags[1:], len(inner)], strict=True):
        _, *same_line = re.split(r" {2,}", inner[i].strip(), maxsplit=1)
        text = " ".join([*same_line, *inner[i + 1 : end]])
        text = re.sub(r"\((default|required|repeatable)[^)]*\)", "", text)
        assert re.search(r"[a-z]{3}", text), inner[i]


EMPTY = {
    "a.txt": "yes\n\nno\n",
    "a.csv": 'text\nyes\n""\nno\n',
    "b.csv": "id,text\n1,yes\n2,\n3,no\n",
    "a.tsv": "id\ttext\n1\tyes\n2\t\n3\tno\n",
    "a.jsonl": '{"text": "yes"}\n{"text": null}\n{"text": "no"}\n',
    "b.jsonl": '{"text": "yes"}\n{"text": ""}\n{"text": "no"}\n',
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_text_is_predicted_as_it_is_alone(cli, trained, tmp_path, name):
    file = tmp_path / name
    file.write_text(EMPTY[name])
    said = answers(cli.call("predict", trained.folder, file))
    (alone,) = answers(cli.call("predict", trained.folder, ""))
    assert [a["text"] for a in said] == ["yes", "", "no"]
    assert said[1]["label"] == alone["label"]
    assert said[1]["probability"] == pytest.approx(alone["probability"], abs=2e-6)
    table = tmp_path / "said.csv"
    assert cli.call("predict", trained.folder, file, "--out", table).code == 0
    with table.open(newline="") as rows:
        assert [row["text"] for row in csv.DictReader(rows)] == ["yes", "", "no"]


def test_a_text_of_spaces_is_a_text_without_words(cli, trained):
    (empty,), (spaces,) = (answers(cli.call("predict", trained.folder, t)) for t in ("", "  "))
    assert empty["probabilities"] == spaces["probabilities"] and spaces["text"] == "  "


def test_an_empty_text_can_be_explained(cli, trained, tmp_path):
    file = tmp_path / "b.csv"
    file.write_text(EMPTY["b.csv"])
    assert cli.call("explain", trained.folder, "--file", file, "--shuffles", "3").code == 0
    assert cli.call("explain", trained.folder, "").code == 0


@pytest.fixture(scope="module")
def reviews(cli, tmp_path_factory):
    """A run that was trained on the checklist's first template, with the word "not"."""
    words = {"poor": ("bad", "dull", "slow"), "well": ("good", "fresh", "warm")}
    rows = [(word, mood) for mood in words for word in words[mood]]
    rows += [(f"not {word}", {"poor": "well", "well": "poor"}[mood]) for word, mood in rows]
    folder = tmp_path_factory.mktemp("checklist")
    data = cli.write_table(folder / "reviews.csv", rows * 20)
    train(cli, data, folder / "run", "--epochs", "20")
    return folder / "run"


def test_evaluate_scores_a_checklist_of_minimal_pairs(cli, reviews, tmp_path):
    file = tmp_path / "scores.json"
    words = [reviews, "--checklist", "--checklist-classes", "poor", "well", "--json", file]
    shown = cli.call("evaluate", *words, "--checklist-noun", "phone")
    assert shown.code == 0, shown.err
    assert "6 of 241 words are in the vocabulary of the model" in shown.out
    assert '"not" + well word, predicted poor: 1.00' in shown.out
    assert '"not" + poor word, predicted well: 1.00' in shown.out
    assert "not a x phone" in shown.out
    scores = json.loads(file.read_text())
    first = scores["templates"][0]
    assert first["opposite"] == "not {x}" and first["n_pairs"] == 6
    assert first["texts"] == first["pairs"] == scores["not_positive_is_negative"] == 1.0
    (tmp_path / "poor").write_text("bad\nslow\n")
    (tmp_path / "well").write_text("good\nfresh\n")
    words += ["--checklist-words", tmp_path / "poor", tmp_path / "well"]
    shown = cli.call("evaluate", *words, "--checklist-part", "open")
    assert shown.code == 0 and "vocabulary" not in shown.out, shown.err
    scores = json.loads(file.read_text())
    assert {t["part"] for t in scores["templates"]} == {"open"}
    assert scores["templates"][0]["n_pairs"] == 4


def test_a_checklist_needs_two_classes_and_words_that_the_model_knows(cli, reviews, tmp_path):
    cli.refusal(
        cli.call("evaluate", reviews, "--checklist"),
        "none of the classes 'poor', 'well' is called negative or positive",
        "--checklist-classes NEGATIVE POSITIVE",
    )
    cli.refusal(
        cli.call("evaluate", reviews, "--checklist", "--data", tmp_path / "x.csv"),
        "--checklist has texts of its own: leave out --data",
    )
    named = ("--checklist-classes", "poor", "well")
    cli.refusal(cli.call("evaluate", reviews, *named), "go with --checklist")
    (tmp_path / "odd").write_text("zzz\nyyy\n")
    files = ("--checklist-words", tmp_path / "odd", tmp_path / "odd")
    cli.refusal(
        cli.call("evaluate", reviews, "--checklist", *named, *files),
        "class 'poor' must have two words or more",
    )
    files = ("--checklist-words", tmp_path / "missing", tmp_path / "odd")
    cli.refusal(cli.call("evaluate", reviews, "--checklist", *named, *files), "does not exist")


def settings_of(run):
    return read_yaml(run / "config.yaml")


def test_a_run_without_room_for_ngrams_is_resumed_and_known_as_finished(
    cli, table, tmp_path, monkeypatch
):
    from wordwave.tasks import stacking

    monkeypatch.setattr(stacking, "MAX_COEFFICIENTS", 3)
    run = tmp_path / "run"
    command = ("train", "classify", "--data", table, "--out", run, *cli.quick, "--save-every", "0")
    with cli.stopped_at(20):
        result = cli.call(*command)
    assert result.code == 130 and "no linear model of n-grams" in result.out
    assert settings_of(run)["model"]["ngrams"] is False
    result = cli.call(*command)
    assert result.code == 0 and "Resuming" in result.out, result.err
    assert "is finished already" in cli.call(*command).out
    assert "is finished already" in cli.call(*command, "--no-ngrams").out
    cli.refusal(cli.call(*command, "--ngrams"), "holds a run with ngrams False, here it is True")
    refused = cli.call(*command[:-2], "--ngrams", "--out", tmp_path / "other")
    cli.refusal(refused, "ngrams must be off for 25 words", "got True")


def test_a_run_of_the_former_default_has_the_settings_of_a_command_without_the_flag(cli, trained):
    assert settings_of(trained.folder)["model"]["ngrams"] is True
    command = ("train", "classify", "--data", trained.table, "--out", trained.folder, *cli.quick)
    for more in ((), ("--ngrams",)):
        assert "is finished already" in cli.call(*command, *more).out
    cli.refusal(cli.call(*command, "--no-ngrams"), "ngrams True, here it is False")
    assert "--ngrams, --no-ngrams" in cli.call(*command[:2], "--help").out


def test_more_subwords_than_there_is_room_for_are_refused(cli, table, tmp_path, monkeypatch):
    from wordwave.tasks import stacking

    monkeypatch.setattr(stacking, "MAX_COEFFICIENTS", 3 * 225)
    command = ("train", "classify", "--data", table, *cli.quick, "--n-bigrams", "100")
    result = cli.call(*command, "--out", tmp_path / "a", "--n-subwords", "101")
    cli.refusal(result, "n_subwords must be at most 100 with 25 words", "got 101")
    result = cli.call(*command, "--out", tmp_path / "b", "--n-subwords", "100")
    assert result.code == 0, result.err


def test_a_share_beside_a_validation_file_is_refused_but_a_run_that_has_both_is_used(
    cli, table, tmp_path
):
    dev, run = cli.write_table(tmp_path / "dev.csv", cli.examples(12, seed=5)), tmp_path / "run"
    command = ("train", "classify", "--data", table, "--dev", dev, "--out", run, *cli.whole)
    refused = cli.call(*command, "--dev-share", "0.1")
    cli.refusal(refused, "dev and dev_share both choose the validation set", "0.1")
    result = cli.call(*command)
    assert result.code == 0, result.err
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("dev_share: null", "dev_share: 0.1"))
    assert "12 examples" in cli.call("evaluate", run).out
    assert "is finished already" in cli.call(*command).out
