"""Tables of one's own at the command line: delimiters, encodings, bad rows, what is held out."""

import json

import pytest

ROWS = [
    (text.replace(",", " "), label)
    for text, label in zip(
        ["öfter gut", "nie gut", "öfter schlecht", "nie schlecht"] * 8,
        ["ja", "nein"] * 16,
        strict=True,
    )
]


@pytest.fixture(scope="module")
def german(cli, tmp_path_factory):
    """A table as a German spreadsheet writes it, with two bad rows, and a run trained on it."""
    folder = tmp_path_factory.mktemp("german")
    lines = ["text;label", *(f"{text};{label}" for text, label in ROWS), "only text", "x;"]
    (folder / "a.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    words = ("train", "classify", "--data", folder / "a.csv", "--out", folder / "run", *cli.quick)
    how = ("--delimiter", ";", "--encoding", "cp1252")
    result = cli.call(*words, *how, "--skip-bad-rows")
    assert result.code == 0, result.err
    return folder, words, how, result


def test_a_foreign_table_is_trained_on_and_what_was_left_out_is_told(german):
    folder, _, _, result = german
    name = folder / "a.csv"
    (line,) = [line for line in result.out.splitlines() if "left out" in line]
    assert line.startswith(f"file '{name}': 2 of 34 rows were left out: line 34 must have 2 cells")
    assert "line 35: 'label' must hold a label, got nothing" in line
    assert "3 of 32 examples are held out for validation (--dev-share" in result.out


def test_each_mistake_is_one_line_that_names_the_flag(cli, german, tmp_path):
    _, words, how, _ = german
    out = ("--out", tmp_path / "run")
    cli.refusal(cli.call(*words, *out, *how[:2]), "line 2 must be UTF-8", "(0xf6)", "--encoding")
    cli.refusal(cli.call(*words, *out, *how[2:]), '--delimiter ";"')
    cli.refusal(cli.call(*words, *out, *how), "line 34 must have 2 cells", "--skip-bad-rows")
    cli.refusal(cli.call(*words, *out, "--encoding", "utf8000"), "encoding must be a known one")
    assert not (tmp_path / "run").exists()


def test_predict_evaluate_and_encode_read_such_files_as_in_training(cli, german, tmp_path):
    folder = german[0]
    run, table = folder / "run", folder / "a.csv"
    result = cli.call("evaluate", run, table, "--skip-bad-rows")
    assert result.code == 0 and "2 of 34 rows were left out" in result.out, result.err
    assert "32 examples" in result.out
    predicted = cli.call("predict", run, table, "--skip-bad-rows", "--quiet")
    assert predicted.code == 0 and len(predicted.out.splitlines()) == 33  # "x;" has a text
    assert "1 of 34 rows was left out: line 34" in predicted.err
    cli.refusal(cli.call("predict", run, table), "line 34", "--skip-bad-rows")
    (tmp_path / "b.tsv").write_text("text\nöfter gut\n", encoding="utf-16")
    named = ("--encoding", "utf-16", "--delimiter", "tab")
    shown = cli.call("predict", run, tmp_path / "b.tsv", *named)
    assert json.loads(shown.out)["text"] == "öfter gut"
    assert cli.call("encode", run, tmp_path / "b.tsv", *named).out.count("\n") == 1
    # Standard input is UTF-8 unless said otherwise.
    piped = cli.call("predict", run, stdin="öfter".encode())
    assert json.loads(piped.out)["text"] == "öfter"
    piped = cli.call("predict", run, "--encoding", "cp1252", stdin="öfter".encode("cp1252"))
    assert json.loads(piped.out)["text"] == "öfter"


def test_explain_reads_what_the_run_was_trained_on(cli, german, tmp_path):
    folder = german[0]
    run, quick = folder / "run", ("--shuffles", "0")
    (tmp_path / "a.csv").write_bytes("text;label\nöfter gut;ja\nbad\n".encode("cp1252"))
    explained = ("explain", run, "--file", tmp_path / "a.csv", *quick)
    shown = cli.call(*explained, "--skip-bad-rows")
    assert shown.code == 0 and "“öfter gut”" in shown.out, shown.err
    assert "1 of 2 rows was left out: line 3" in shown.out + shown.err
    cli.refusal(cli.call(*explained), "line 3 must have 2 cells", "--skip-bad-rows")
    (tmp_path / "b.tsv").write_text("text\tlabel\nöfter gut\tja\n", encoding="utf-16")
    named = ("--encoding", "utf-16", "--delimiter", "tab")
    shown = cli.call("explain", run, "--file", tmp_path / "b.tsv", *quick, *named)
    assert shown.code == 0 and "“öfter gut”" in shown.out, shown.err
    # Standard input is UTF-8 unless said otherwise.
    assert "“öfter”" in cli.call("explain", run, *quick, stdin="öfter".encode()).out
    given = ("--encoding", "cp1252")
    piped = cli.call("explain", run, *quick, *given, stdin="öfter".encode("cp1252"))
    assert "“öfter”" in piped.out, piped.err
    said = "--encoding must go with --file or standard input"
    cli.refusal(cli.call("explain", run, "öfter", *given), said)
    cli.refusal(cli.call("explain", run, "--nearest", "gut", *given), said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--checklist-noun", "phone"), "--checklist-noun must go with --checklist"),
        (("--checklist-part", "open"), "--checklist-part must go with --checklist"),
        (("--checklist-classes", "ja", "nein"), "--checklist-classes must go with --checklist"),
        (("--delimiter", ";"), "--delimiter must go with --data FILE"),
        (("--encoding", "cp1252", "--skip-bad-rows"), "--encoding and --skip-bad-rows must go"),
        (("--checklist", "--skip-bad-rows"), "must go with --data FILE, not with --checklist"),
    ],
)
def test_evaluate_ignores_no_option(cli, german, options, said):
    cli.refusal(cli.call("evaluate", german[0] / "run", *options), said)


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (("a text",), "--encoding cp1252", "--encoding must go with a file or standard input, not"),
        (("öfter",), "--skip-bad-rows", "--skip-bad-rows must go with a file or standard input"),
        (("",), "--delimiter ;", "--delimiter must go with a file or standard input"),
        ((), "--delimiter ;", "--delimiter must go with a .csv or .tsv file, not with standard in"),
        (("b.txt",), "--delimiter ;", "must go with a .csv or .tsv file, not with 'b.txt'"),
        (("b.jsonl",), "--delimiter ;", "must go with a .csv or .tsv file, not with 'b.jsonl'"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "encode"])
def test_predict_and_encode_ignore_no_option(
    cli, german, tmp_path, monkeypatch, verb, words, given, said
):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "b.jsonl"):
        (tmp_path / name).write_text('{"text": "a"}\n', encoding="cp1252")
    run = german[0] / "run"
    cli.refusal(cli.call(verb, run, *words, *given.split(), stdin=b"a"), said)
    assert cli.call(verb, run, *words, stdin=b"a").code == 0


@pytest.mark.parametrize("verb", ["explain --file", "evaluate --data"])
def test_explain_and_evaluate_ignore_no_delimiter(cli, german, tmp_path, verb):
    (tmp_path / "b.jsonl").write_text('{"text": "a", "label": "ja"}\n')
    verb, flag = verb.split()
    words = (verb, german[0] / "run", flag, tmp_path / "b.jsonl", "--delimiter", ";")
    cli.refusal(cli.call(*words), "--delimiter must go with a .csv or .tsv file, not with")


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("train classify --data mr", "--encoding cp1252", "--encoding must go with files of your"),
        ("train classify --data mr", "--delimiter tab", "must go with files of your own, not with"),
        ("train classify --data hf:x", "--skip-bad-rows", "files of your own, not with 'hf:x'"),
        ("train classify --data mr", "--text body --label y", "--text and --label must go with"),
        ("train match --data built-in", "--encoding cp1252", "--encoding must go with files of"),
        ("train match --data built-in", "--text-a q --label y", "--text-a and --label must go"),
        ("train classify --data b.jsonl", "--delimiter ;", "--delimiter must go with a .csv or"),
        ("search --data mr", "--encoding cp1252", "--encoding must go with files of your own"),
        ("compare --data mr", "--encoding cp1252", "--encoding must go with files of your own"),
    ],
)
def test_options_of_tables_are_refused_where_there_is_none(cli, tmp_path, command, given, said):
    out = tmp_path / "out"
    cli.refusal(cli.call(*command.split(), *given.split(), "--out", out), said)
    assert not out.exists()


def test_few_examples_are_all_trained_on_and_no_validation_score_is_made_up(cli, tmp_path):
    table = cli.write_table(tmp_path / "a.csv", ROWS)
    quick = [word for word in cli.quick if word not in ("--dev-share", "0.1")]
    words = ("train", "classify", "--data", table, "--out", tmp_path / "run", *quick)
    result = cli.call(*words)
    assert result.code == 0, result.err
    assert "all 32 examples are trained on; --dev-share 0.1 holds out a tenth" in result.out
    assert "validation accuracy" not in result.out and "no validation set" in result.out
    saved = json.loads((tmp_path / "run" / "result.json").read_text())
    assert saved["dev_accuracy"] is None
    again = cli.call(*words)
    assert again.code == 0 and "finished already" in again.out, again.err
    refused = cli.call("evaluate", tmp_path / "run")
    cli.refusal(refused, "no test set and no validation set", "--data FILE", "--test FILE")
    assert refused.out == ""  # nothing was read
    table.unlink()
    cli.refusal(cli.call("evaluate", tmp_path / "run"), "no test set and no validation set")
    cli.write_table(table, ROWS)
    cli.refusal(
        cli.call(*words[:-2], "--out", tmp_path / "b", "--patience", "2", "--dev-share", 0),
        "patience needs a dev_share above 0",
    )


def test_matchers_read_such_tables_and_train_without_a_validation_set(cli, tmp_path):
    rows = [f"a{i}|b{i}|{i % 2}" for i in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(["text_a|text_b|label", *rows, "bad"]))
    words = (
        "train",
        "match",
        "--data",
        tmp_path / "a.csv",
        "--out",
        tmp_path / "run",
        "--dim",
        "8",
    )
    words += ("--epochs", "1", "--delimiter", "|", "--skip-bad-rows")
    result = cli.call(*words, "--dev-share", "0")
    assert result.code == 0, result.err
    assert "1 of 31 rows was left out" in result.out and "all 30 pairs are trained on" in result.out
    assert "no validation set" in result.out
    shown = cli.call("predict", tmp_path / "run", tmp_path / "a.csv", "--skip-bad-rows")
    assert shown.code == 0 and len(shown.out.splitlines()) == 30, shown.err
    for option in (("--delimiter", "|"), ("--encoding", "utf-8"), ("--skip-bad-rows",)):
        said = f"{option[0]} must go with --data FILE"
        cli.refusal(cli.call("evaluate", tmp_path / "run", *option), said)
    explained = ("explain", tmp_path / "run", "--file", tmp_path / "a.csv", "--shuffles", "0")
    assert cli.call(*explained, "--skip-bad-rows").out.count("→ ") >= 30
    cli.refusal(cli.call(*explained), "line 32 must have 3 cells", "--skip-bad-rows")
    (tmp_path / "b.csv").write_text("text_a|text_b|label\na1||0\n|b2|1\n")
    assert len(cli.call("predict", tmp_path / "run", tmp_path / "b.csv").out.splitlines()) == 2
    assert cli.call("evaluate", tmp_path / "run", tmp_path / "b.csv").code == 0


def test_empty_texts_are_predicted_encoded_and_scored_not_refused(cli, german, tmp_path):
    run = german[0] / "run"
    (tmp_path / "a.csv").write_text("text;label\nnie gut;ja\n;nein\n", encoding="cp1252")
    assert len(cli.call("predict", run, tmp_path / "a.csv").out.splitlines()) == 2
    assert len(cli.call("encode", run, tmp_path / "a.csv").out.splitlines()) == 2
    result = cli.call("evaluate", run, tmp_path / "a.csv")
    assert result.code == 0 and "2 examples" in result.out, result.err
