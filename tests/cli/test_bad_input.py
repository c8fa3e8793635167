"""Whatever is wrong with the input is one line and exit code 2, and nothing is lost."""

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from wordwave.training.run import MetricsLog, read_metrics

MILLION = 1_000_000


def bytes_of(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def same_weights(one, other):
    one, other = (load_file(folder / "model.safetensors") for folder in (one, other))
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


@pytest.fixture
def refused(cli, table, tmp_path):
    """Train with these flags: it must be refused with these words, before a folder is made."""

    def train(*words, said, data=table):
        out, how = tmp_path / "run", cli.whole if "--dev" in words else cli.quick
        result = cli.call("train", "classify", "--data", data, "--out", out, *how, *words)
        cli.refusal(result, *said)
        assert not out.exists()

    return train


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", ["a.csv", "got an empty file"]),
        ("a.csv", "text,label\n", ["a.csv", "at least one example, got none"]),
        ("a.csv", "text,label\n" + 30 * "a,x\n", ["a.csv", "two classes or more, got only 'x'"]),
        ("a.csv", "text,label\na,x\nb,\n", ["a.csv", "line 3", "must hold a label, got nothing"]),
        ("a.csv", "text,label\na,NaN\n", ["a.csv", "line 2", "must hold a label, got 'NaN'"]),
        ("a.csv", "text,label\na,x\n,y\n", ["a.csv", "line 3", "must hold a text, got nothing"]),
        (
            "a.csv",
            "body,label\na,x\n",
            ["no column 'text', only 'body', 'label'; name it with --text"],
        ),
        (
            "a.csv",
            "text,mood\na,x\n",
            ["no column 'label', only 'text', 'mood'; name it with --label"],
        ),
        ("a.csv", "text,label\na,b,x\n", ["a.csv", "line 2", "2 cells", "got 3"]),
        ("a.csv", "text,label\na,x\nb,y\n", ["a.csv", "a class of two examples or more"]),
        ("a.csv", b"\x00\xff\x80garbage", ["a.csv", "not a text file"]),
        ("a.csv", b"text,label\n\xff\xfe,x\n", ["a.csv", "line 2 must be UTF-8"]),
        ("a.csv.gz", b"\x00\xff\x80garbage", ["a.csv.gz", "is not a complete gzip file"]),
        ("a.jsonl", b"\xff\x80garbage", ["a.jsonl", "line 1 must be UTF-8"]),
        ("a.jsonl", '{"text": "a", "label": NaN}', ["line 1", "must hold a label, got nan"]),
        ("a.jsonl", '{"text": null, "label": 1}', ["line 1", "must hold a text, got nothing"]),
        ("a.jsonl", '{"text": "a"}', ["line 1", "'label', only 'text'; name it with --label"]),
        ("a.xls", "text,label\na,x\n", ["a.xls", "must end in one of .csv, .tsv, .jsonl"]),
        ("folder", None, ["folder' must be a file, got a folder"]),
    ],
)
def test_a_table_that_cannot_be_learnt_from_is_refused(refused, tmp_path, name, content, said):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(data=path, said=said)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--data nowhere.csv", ["file 'nowhere.csv' does not exist"]),
        ("--data trek", ["no data set or file 'trek'; did you mean 'trec'?"]),
        ("--dev nowhere.csv", ["file 'nowhere.csv' does not exist"]),
        ("--test nowhere.csv", ["file 'nowhere.csv' does not exist"]),
        ("--label lable", ["no column 'lable', only 'text', 'label'; did you mean 'label'?"]),
        ("--data trec --dev a.csv", ["--test and --multi-label go with files of your own"]),
        ("--data mr --fold 10", ["fold must be 0 … 9, got 10"]),
        ("--data trec --fold 1", ["fold must be 0 … 0 (trec has an official test set), got 1"]),
        ("--fold 1", ["--fold goes with data sets by name, not with", "odd.csv"]),
        ("--embedding rope", ["'rope' acts inside attention", "'transformer', got 'bag'"]),
        ("--vectors nowhere", ["vectors must be a file or a name in", "got 'nowhere'"]),
        ("--embedding tpe --dim 5", ["dim must be even for 'tpe'", "got 5"]),
        ("--encoder transformer --n-heads 3", ["dim must be a multiple of n_heads", "n_heads=3"]),
        ("--learning-rate 0", ["learning_rate must be above 0, got 0.0"]),
        ("--epochs 0", ["epochs must be at least 1, got 0"]),
        ("--threads 0", ["threads must be at least 1, got 0"]),
        ("--dim 0", ["dim must be at least 1, got 0"]),
        ("--hidden-dim -1", ["hidden_dim must be at least 0, got -1"]),
        ("--dropout 1", ["dropout must be in [0, 1), got 1.0"]),
        ("--widths", ["widths must be one or more", "got ()"]),
        ("--n-filters 0 --encoder cnn", ["n_filters must be at least 1, got 0"]),
        ("--n-layers 0 --encoder transformer", ["n_layers must be at least 1, got 0"]),
        ("--max-length 0", ["max_length must be at least 1, got 0"]),
        ("--bpe-size 10 --tokenizer bpe", ["bpe_size must be at least 256, got 10"]),
        ("--min-count 0", ["min_count must be at least 1, got 0"]),
        ("--max-vocabulary 0", ["max_vocabulary must be at least 1, got 0"]),
        ("--random-positions 3", ["random_positions must be 0 or at least 5", "got 3"]),
        ("--random-positions -3", ["random_positions must be at least 0", "got -3"]),
    ],
)
def test_a_setting_that_cannot_be_is_refused(refused, flags, said):
    refused(*flags.split(), said=said)


def test_vectors_that_are_none_are_refused(refused, table):
    refused("--vectors", table, said=["vectors file", "odd.csv", "line 1", "is this text?"])


@pytest.mark.parametrize("flag", ["--device cuda", "--embeding pe", "--dim x", "--encoder gru"])
def test_a_flag_that_does_not_exist_or_fit_is_explained(cli, table, tmp_path, flag):
    out = tmp_path / "run"
    result = cli.call("train", "classify", "--data", table, "--out", out, *flag.split())
    assert result.code == 2 and "Traceback" not in result.err and result.out == ""
    assert flag.split()[0] in result.err and "wordwave train classify --help" in result.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trian classify", "there is no verb 'trian'; did you mean 'train'?"),
        ("juggle", "there is no verb 'juggle'; see wordwave --help"),
        ("train", "'train' needs a second word: train classify"),
        ("data", "'data' needs a second word: data list, data prepare, data verify"),
    ],
)
def test_a_verb_that_does_not_exist_is_refused(cli, words, said):
    cli.refusal(cli.call(*words.split()), said)


@pytest.mark.parametrize("part", ["--dev", "--test"])
def test_a_label_that_training_does_not_have_is_named(refused, cli, tmp_path, part):
    other = cli.write_table(tmp_path / "other.csv", [("yes", "schön ☂"), ("no", "neutral")])
    refused(part, other, said=["other.csv has the label 'neutral'", "known: ", "'schön ☂'"])


def test_evaluate_names_a_label_that_training_does_not_have(cli, trained, tmp_path):
    other = cli.write_table(tmp_path / "other.csv", [("no", MILLION * "n")])
    result = cli.call("evaluate", trained.folder, "--data", other)
    line = cli.refusal(result, "other.csv has the label 'nnn", "known: ", "'schön ☂'")
    assert len(line) < 500


def test_a_text_of_a_million_characters_is_learnt_predicted_and_scored(cli, tmp_path):
    long = [("yes " * (MILLION // 4), "good"), ("x" * MILLION, "bad"), ("漢" * MILLION, "bad")]
    rows = [*long, *(("yes", "good"), ("no", "bad")) * 10]
    data = cli.write_table(tmp_path / "long.csv", rows)
    words = ("--data", data, "--dev", data, "--out", tmp_path / "run", *cli.whole)
    result = cli.call("train", "classify", *words)
    assert result.code == 0, result.err
    assert f"2 of 23 texts of {data} were truncated to 2048 words (--max-length)" in result.out
    told = cli.call("predict", tmp_path / "run", data)
    assert told.code == 0 and told.err == "2 of 23 texts were truncated to 2048 words\n"
    assert [json.loads(line)["text"] for line in told.out.splitlines()] == [r[0] for r in rows]
    shown = cli.call("evaluate", tmp_path / "run", "--data", data)
    assert shown.code == 0 and f"2 of 23 texts of {data} were truncated to 2048 words" in shown.out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("modle:\n  dim: 4", "unknown key 'modle'; did you mean 'model'?"),
        ("model:\n  dimm: 4", "model has an unknown key 'dimm'; did you mean 'dim'?"),
        ("model:\n  dim: wide", "model: dim must be int, got 'wide'"),
        ("model:\n  widths: [3, four]", "model: widths must be a list of int, got (3, 'four')"),
        ("model: 4", "model must hold names and values, got 4"),
        ("model:\n  embedding: rope", "model: embedding 'rope' acts inside attention"),
        ("training:\n  epochs: 0", "training: epochs must be at least 1, got 0"),
        ("task: translate", "is a config of 'translate', expected one of 'classify'"),
        ("model: {dim: [", "is not a YAML file"),
        ("- model", "must hold names and values, got list"),
        ("", "must hold names and values, got NoneType"),
        (None, "there is no config file"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused(refused, tmp_path, content, said):
    path = tmp_path / "my.yaml"
    if content is not None:
        path.write_text(content)
    refused("--config", path, said=["my.yaml", said])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--dim 6", "holds a run with dim 16, here it is 6"),
        ("--embedding pe", "holds a run with embedding 'complex-order', here it is 'pe'"),
        ("--label kind", "holds a run with label 'label', here it is 'kind'"),
        ("--seed 3", "holds a run with seed 0, here it is 3"),
    ],
)
def test_a_run_is_not_gone_on_with_under_other_settings(cli, trained, flags, said):
    before = bytes_of(trained.folder)
    words = ("--data", trained.table, "--out", trained.folder, *cli.quick, *flags.split())
    result = cli.call("train", "classify", *words)
    cli.refusal(result, str(trained.folder), said, "choose another --out", "--overwrite")
    assert bytes_of(trained.folder) == before


def test_two_processes_do_not_train_in_one_folder(cli, table, tmp_path):
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    words = ("train", "classify", "--data", table, "--out", tmp_path / "run", *cli.quick)
    with FileLock(tmp_path / "run" / ".training.lock"):
        cli.refusal(cli.call(*words), "another process is training in", "choose another --out")
    assert cli.call(*words).code == 0
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.parametrize("out", ["taken", "taken/run"])
def test_a_file_in_the_way_of_out_is_named_and_kept(cli, table, tmp_path, out):
    (tmp_path / "taken").write_text("dear to me")
    result = cli.call("train", "classify", "--data", table, "--out", tmp_path / out, *cli.quick)
    cli.refusal(result, f"{tmp_path / 'taken'}' is a file, not")
    assert (tmp_path / "taken").read_text() == "dear to me"


def with_text(text):
    return lambda path: path.write_text(text)


def replaced(old, new):
    def change(path):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_tensors(path):
    save_file({"weight": torch.zeros(3)}, path)


def told_of(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("model.safetensors", halved, "does not hold this model"),
        ("model.safetensors", other_tensors, "does not hold this model"),
        ("model.safetensors", with_text("no tensors at all"), "does not hold this model"),
        ("model.safetensors", with_text(""), "does not hold this model"),
        ("model.safetensors", os.remove, "holds no trained model yet: run the command"),
        ("config.yaml", replaced("dim: 16", "dim: 6"), "does not hold this model: size mismatch"),
        ("config.yaml", replaced("task: classify", "task: sing"), "a run of 'sing'"),
        ("config.yaml", replaced("dim: 16", "dimm: 16"), "did you mean 'dim'?"),
        ("config.yaml", replaced("dim: 16", "dim: wide"), "model: dim must be int, got 'wide'"),
        ("config.yaml", replaced("dim: 16", "dim: -4"), "model: dim must be at least 1, got -4"),
        ("config.yaml", with_text("task: [classify"), "is not a YAML file"),
        ("config.yaml", os.remove, "is not a run folder: it has no config.yaml"),
        ("config.yaml", replaced("tokenizer: plain", "tokenizer: bpe"), "tokenizer.json"),
        ("vocab.json", halved, "is not a vocabulary"),
        ("vocab.json", with_text("[]"), "is not a vocabulary"),
        ("vocab.json", lambda p: told_of(p, labels=None), "labels must be a list of str"),
        ("vocab.json", lambda p: told_of(p, labels=["a", "a", "b"]), "labels must differ"),
        ("vocab.json", lambda p: told_of(p, labels=["a", "b"]), "does not hold this model"),
        ("vocab.json", lambda p: told_of(p, words=["<pad>", "<unk>"]), "does not hold this model"),
        ("vocab.json", os.remove, "is not a vocabulary"),
    ],
)
def test_a_run_folder_that_is_broken_says_what_is_wrong(cli, trained, tmp_path, file, change, said):
    folder = tmp_path / "broken"
    shutil.copytree(trained.folder, folder)
    change(folder / file)
    for verb in ("predict", "evaluate"):
        cli.refusal(cli.call(verb, folder, stdin=b"yes\n"), str(folder), said)


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_a_folder_that_is_no_run_is_refused(cli, table, tmp_path, verb):
    for path in (tmp_path, tmp_path / "nowhere", table):
        cli.refusal(cli.call(verb, path), f"'{path}' is not a run folder")


def test_evaluate_asks_for_data_where_that_of_the_training_is_gone(cli, tmp_path):
    data = cli.write_table(tmp_path / "gone.csv", cli.examples(30))
    run = tmp_path / "run"
    assert cli.call("train", "classify", "--data", data, "--out", run, *cli.quick).code == 0
    data.unlink()
    result = cli.call("evaluate", run)
    cli.refusal(result, "gone.csv' does not exist; --data names other examples")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (None, b"", "the input: must hold at least one text, got none"),
        (None, b"yes\n\xff\xfe\n", "the input: line 2 must be UTF-8"),
        ("a.txt", b"", "a.txt': must hold at least one text, got none"),
        ("a.txt", b"\x00\x01\x02", "a.txt': line 1 holds a NUL byte: not a text file"),
        ("a.csv", b"body,label\nyes,1\n", "there is no column 'text', only 'body', 'label'"),
        ("a.jsonl", b'{"body": "yes"}\n', "line 1: there is no column 'text', only 'body'"),
        ("a.doc", b"yes\n", "must end in one of .txt, .csv, .tsv, .jsonl"),
        ("nowhere.txt", None, "nowhere.txt' does not exist"),
    ],
)
def test_predict_says_what_is_wrong_with_the_texts_and_keeps_the_old_answers(
    cli, trained, tmp_path, name, content, said
):
    out = tmp_path / "out" / "answers.jsonl"
    out.parent.mkdir()
    out.write_text("of yesterday\n")
    if name is not None and content is not None:
        (tmp_path / name).write_bytes(content)
    file = () if name is None else (tmp_path / name,)
    result = cli.call("predict", trained.folder, *file, "--out", out, stdin=content or b"")
    cli.refusal(result, said)
    assert bytes_of(out.parent) == {out: b"of yesterday\n"}


def test_predict_answers_the_texts_before_the_one_that_is_wrong(cli, trained):
    result = cli.call("predict", trained.folder, "--quiet", stdin=b"yes\nno\n\xff\xfe\n")
    cli.refusal(result, "the input: line 3 must be UTF-8")
    assert len(result.out.splitlines()) == 2


@pytest.mark.parametrize(("verb", "flag"), [("predict", "--out"), ("evaluate", "--json")])
def test_a_place_that_cannot_be_written_is_named(cli, trained, tmp_path, verb, flag):
    for place, said in (
        (tmp_path, f"'{tmp_path}' cannot be written: it is a folder"),
        (trained.table / "x", f"cannot be written: '{trained.table}' is a file, not a folder"),
    ):
        cli.refusal(cli.call(verb, trained.folder, flag, place, stdin=b"yes\n"), said)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(("verb", "flag"), [("predict", "--out"), ("evaluate", "--json")])
def test_a_device_without_room_is_named(cli, trained, verb, flag):
    result = cli.call(verb, trained.folder, flag, "/dev/full", stdin=b"yes\n")
    cli.refusal(result, "'/dev/full' cannot be written: No space left on device")


@contextmanager
def disk_of(size):
    """A place for files of so many bytes and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def halfway(cli, table, tmp_path_factory):
    """A run whose disk got full when the first best weights were to be saved with the rest."""
    folder = tmp_path_factory.mktemp("full") / "run"
    wide = ("--dim", "64", "--hidden-dim", "64", "--batch-size", "32", "--dev-share", "0.1")
    wide += ("--epochs", "3")
    words = ("train", "classify", "--data", table, *wide, "--save-every", "0", "--out")
    whole = folder.with_name("whole")
    assert cli.call(*words, whole).code == 0
    # The state is weights and two moments; when an epoch is judged, the best weights come on top.
    with disk_of(int(3.5 * (whole / "model.safetensors").stat().st_size)):
        result = cli.call(*words, folder)
    return SimpleNamespace(folder=folder, whole=whole, words=words, result=result)


def test_a_full_disk_is_named_leaves_the_state_before_and_with_room_it_goes_on(
    cli, halfway, tmp_path
):
    state = halfway.folder / "state" / "state.safetensors"
    cli.refusal(
        halfway.result, f"'{state}' cannot be written: File too large", "same command again"
    )
    assert not [p for p in halfway.folder.rglob("*") if p.name.endswith(".new")]
    with safe_open(state, framework="pt") as file:
        assert json.loads(file.metadata()["progress"])["step"] == 14  # all steps of the first epoch
    shutil.copytree(halfway.folder, tmp_path / "run")
    assert cli.call(*halfway.words, tmp_path / "run").code == 0
    assert same_weights(tmp_path / "run", halfway.whole)
    assert not (tmp_path / "run" / "state").exists()


def test_a_disk_too_full_for_the_weights_is_named_and_with_room_they_are_the_same(
    cli, halfway, tmp_path
):
    run = tmp_path / "run"
    words = [*halfway.words[:-2], "1000", "--out", run]
    with disk_of(8000):
        result = cli.call(*words)
    cli.refusal(result, f"'{run / 'model.safetensors'}' cannot be written", "same command again")
    assert not (run / "result.json").exists() and not list(run.glob(".*"))
    assert cli.call(*words).code == 0
    assert same_weights(run, halfway.whole)


def test_a_disk_too_full_for_the_journal_is_named_and_with_room_it_goes_on(tmp_path):
    journal = MetricsLog(tmp_path)
    with disk_of(20), pytest.raises(OSError, match=r"metrics.jsonl' cannot be written: File too"):
        journal.write(1, loss=0.5)
    journal.close()
    again = MetricsLog(tmp_path)
    again.write(1, loss=0.5)
    again.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 0.5}]


@pytest.mark.parametrize("change", [halved, other_tensors, with_text("no tensors"), with_text("")])
def test_a_broken_state_is_named_and_kept_and_without_it_the_training_starts_anew(
    cli, halfway, tmp_path, change
):
    run = tmp_path / "run"
    shutil.copytree(halfway.folder, run)
    state = run / "state" / "state.safetensors"
    change(state)
    before = state.read_bytes()
    result = cli.call(*halfway.words, run)
    cli.refusal(
        result, f"'{state}' is not a checkpoint of this training", "remove it to start over"
    )
    assert state.read_bytes() == before
    if change is halved:
        state.unlink()
        assert cli.call(*halfway.words, run).code == 0
        assert same_weights(run, halfway.whole)


def test_a_broken_result_is_named(cli, trained, tmp_path):
    shutil.copytree(trained.folder, tmp_path / "run")
    halved(tmp_path / "run" / "result.json")
    words = ("--data", trained.table, "--out", tmp_path / "run", *cli.quick)
    cli.refusal(
        cli.call("train", "classify", *words), "result.json' is not the result", "remove it"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vectors", "/no/such/glove.txt"], ["vectors must be a file", "glove.txt"]),
        (["--freeze-vectors"], ["freeze_vectors needs vectors"]),
        (["--tokenizer", "bpe", "--max-vocabulary", "9"], ["does not go with 'bpe'"]),
        (["--encoder", "lstm", "--state-dim", "0"], ["state_dim must be at least 1, got 0"]),
        (["--dim", "4000000000000"], ["dim must be at most 100000, got 4000000000000"]),
        (["--hidden-dim", str(10**23)], ["hidden_dim must be at most 100000, got 1000"]),
        (["--n-layers", "1000000", "--encoder", "lstm"], ["n_layers must be at most 1000"]),
        (["--threads", "100000"], ["threads must be at most", "got 100000"]),
        (["--epochs", "10000000000"], ["epochs must be at most 1000000, got 10000000000"]),
        (["--save-every", "nan"], ["save_every must be at least 0, got nan"]),
    ],
)
def test_what_cannot_be_and_what_would_be_ignored_is_one_line(refused, words, said):
    refused(*words, said=said)


def test_a_config_without_bottom_is_one_line(cli, tmp_path):
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 5000 + "]" * 5000)
    cli.refusal(cli.call("train", "classify", "--config", deep), "nested too deeply")


def test_columns_without_a_file_and_brevity_without_json_are_refused(cli, trained, tmp_path):
    cli.refusal(cli.call("evaluate", trained.folder, "--text", "body"), "--data FILE")
    said = cli.call("predict", trained.folder, "--quiet", "--out", tmp_path / "x.csv", stdin=b"a\n")
    cli.refusal(said, "--quiet is for JSON")


@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_a_closed_input_is_one_line_and_a_closed_output_is_silence(trained, verb):
    ask = f"{sys.executable} -m wordwave {verb} {trained.folder}"
    done = subprocess.run(f"{ask} <&-", shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "there is no standard input to read texts" in done.stderr
    done = subprocess.run(f"echo yes | {ask} >&-", shell=True, capture_output=True, timeout=120)
    assert done.returncode == 0 and not done.stderr


def test_answers_are_utf8_whatever_the_locale(trained):
    done = subprocess.run(
        [sys.executable, "-m", "wordwave", "predict", str(trained.folder)],
        input="Zoë 日本\n".encode(),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        timeout=120,
    )
    assert json.loads(done.stdout.decode("utf-8"))["text"] == "Zoë 日本"
