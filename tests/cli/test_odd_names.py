"""Nothing of the user's is parsed: not as markup, nor as an emoji code, nor broken over lines."""

import ast
import csv
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table

import wordwave
from wordwave.cli import VERBS
from wordwave.cli.console import Console

ODD = "x[/b] pq[lr=1] [bold red]o[/] :smile: " + "long" * 30
"""A path of two names, of which the first is the opening half of a tag."""
LABELS = ("[/b]", "[lr=1]", ":smile:")
TINY = ("--dim", "4", "--epochs", "2")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd") / ODD
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def run(cli, odd):
    """A trained run in a folder, with columns, labels and words, that look like markup."""
    table = odd / "t[/b].csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="") as file:
        rows = [(f"[red]w{i % 7} {LABELS[i % 3]} [/i]", LABELS[i % 3]) for i in range(60)]
        csv.writer(file).writerows([("te[/b]xt", "la[bold]bel"), *rows])
    columns = ("--text", "te[/b]xt", "--label", "la[bold]bel")
    folder = odd / "run"
    said = cli.call(
        "train", "classify", "--data", table, "--out", folder, *columns, *TINY, "--test", table
    )
    assert said.code == 0, said.err
    return SimpleNamespace(folder=folder, table=table, columns=columns, said=said)


def shown(result, *texts):
    assert result.code == 0, result.err
    for text in texts:
        assert str(text) in result.out + result.err
    return result


def test_train_classify(cli, run):
    shown(run.said, f"Written: {run.folder}\n", f"wordwave predict {run.folder}\n")
    command = ("train", "classify", "--data", run.table, "--out", run.folder, *run.columns, *TINY)
    shown(cli.call(*command, "--test", run.table), f"{run.folder} is finished already")
    refused = cli.call(*command, "--test", run.table, "--seed", "1")
    cli.refusal(refused, f"'{run.folder}' holds a run with seed 0")


def test_evaluate(cli, run, odd):
    words = ("--data", run.table, "--json", odd / "scores.json")
    said = shown(cli.call("evaluate", run.folder, *words), run.table, odd / "scores.json")
    for label in LABELS:
        assert said.out.count(label) >= 3  # the classes, and both sides of the confusions


def test_predict_and_explain(cli, run, odd):
    out = odd / "said.jsonl"
    shown(cli.call("predict", run.folder, run.table, "--out", out), f"Written: {out}\n")
    picture, figures = odd / "why.png", odd / "why.json"
    said = cli.call(
        *("explain", run.folder, "a [/b] $x_1$ :smile: [lr=1]", "--shuffles", "2"),
        *("--picture", picture, "--json", figures),
    )
    shown(said, "“a [/b] $x_1$ :smile: [lr=1]”", f"Written: {picture}\n", f"Written: {figures}\n")


def test_export(cli, run, odd):
    pytest.importorskip("onnxruntime")
    shown(cli.call("export", run.folder, odd / "m.onnx"), f"Written: {odd / 'm.onnx'}")


def test_search(cli, run, odd):
    pytest.importorskip("optuna")
    words = ("--data", run.table, *run.columns, *TINY, "--trials", "1", "--jobs", "1")
    out = odd / "search"
    shown(cli.call("search", *words, "--out", out), f"{out}/best.yaml, {out}/trials.csv\n")


def test_compare(cli, run, odd):
    words = ("--data", run.table, *run.columns, "--encoders", "fasttext", "--embeddings", "none")
    recipes, out = odd / "recipes", odd / "compare"
    recipes.mkdir()
    (recipes / "fasttext.yaml").write_text("model: {dim: 4}\ntraining: {epochs: 1}\n")
    said = cli.call("compare", *words, "--recipes", recipes, "--out", out, "--jobs", "1")
    shown(said, f"Written: {out}/records.jsonl, ", run.table.name)


def test_probe(cli, odd):
    words = ("--tasks", "precedence", "--encoders", "fasttext", "--embeddings", "none")
    words += ("--dim", "4", "--n-train", "32", "--n-test", "8", "--epochs", "1", "--jobs", "1")
    shown(cli.call("probe", *words, "--out", odd / "probe"), f"Written: {odd / 'probe'}/records")


def test_translation(cli, odd):
    source, target, out = odd / "s[/b].en", odd / "t[/b].de", odd / "translation"
    source.parent.mkdir(exist_ok=True)
    target.parent.mkdir(exist_ok=True)
    source.write_text("a [/b] b\nc [lr=1] :smile:\n" * 20)
    target.write_text("B [/b] a\n[lr=1] :smile: d\n" * 20)
    small = ("--dim", "8", "--encoder-layers", "1", "--decoder-layers", "1", "--n-heads", "2")
    small += ("--feed-forward-dim", "8", "--bpe-size", "264", "--max-steps", "2")
    small += ("--eval-every", "2", "--eval-bleu", "0")
    files = ("--source", source, "--target", target)
    said = cli.call("train", "translate", *files, "--out", out, *small)
    shown(said, f"Written: {out}\n", f"wordwave translate {out}\n")
    told, picture = odd / "told.txt", odd / "heard.png"
    said = cli.call("translate", out, source, "--out", told, "--picture", picture, "--beam", "1")
    shown(said, f"Written: {told}\n", f"Written: {picture}\n")
    said = cli.call("evaluate", out, *files, "--json", odd / "bleu.json")
    shown(said, f"Written: {odd / 'bleu.json'}\n")


def test_language_models(cli, odd):
    text, out = odd / "novel[/b].txt", odd / "lm"
    text.parent.mkdir(exist_ok=True)
    text.write_text("Es war [/b] einmal [lr=1] :smile: $x_1$ " * 60)
    tiny = ("--dim", "8", "--n-heads", "2", "--n-layers", "1", "--feed-forward-dim", "8")
    tiny += ("--segment-length", "8", "--memory-length", "8", "--eval-memory-length", "8")
    tiny += ("--batch-size", "4", "--max-steps", "4", "--eval-every", "2")
    said = cli.call("train", "lm", "--data", text, "--out", out, *tiny)
    shown(said, f"Written: {out}\n", f"wordwave generate {out} ")
    prompt = "[/b] [lr=1] :smile:"
    shown(cli.call("generate", out, "--prompt", prompt, "--length", "3"), prompt)
    picture = odd / "frequencies.png"
    said = cli.call("evaluate", out, "--data", text, "--picture", picture)
    shown(said, text, f"Written: {picture}\n")


def test_data(cli, odd, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(odd / "home"))
    shown(cli.call("data", "list"), f"Data home: {odd / 'home'} ")
    cli.refusal(cli.call("data", "verify"), str(odd / "home"))
    cli.refusal(cli.call("data", "prepare", "[/b]"), "[/b]")


def test_a_flag_that_does_not_exist_is_told_as_it_was_written(cli):
    for verb in VERBS:
        said = cli.call(*verb.split(), "--[/b]:smile:[lr=1]")
        assert said.code == 2 and "Traceback" not in said.err, said.err


def test_tables_keep_their_cells_titles_and_captions(capsys):
    table = Table("[/b]", title="[/i]", caption=":smile:")
    table.add_row("[lr=1]")
    Console(width=80).print(table)
    out = capsys.readouterr().out
    assert all(text in out for text in ("[/b]", "[/i]", ":smile:", "[lr=1]"))


def test_only_this_console_is_used():
    root = Path(wordwave.__file__).parent
    for path in root.rglob("*.py"):
        if path == root / "cli" / "console.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert node.module != "rich.console" and (
                    node.module != "rich" or "print" not in names
                )
