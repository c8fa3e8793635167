"""The command line as a user meets it."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORDWAVE = str(Path(sys.executable).with_name("wordwave"))
SMALL = ("--dim", "8", "--n-train", "64", "--n-test", "20", "--epochs", "1")


def wordwave(*arguments, **options):
    return subprocess.run(
        [WORDWAVE, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def test_help_answers_without_importing_torch():
    shown = wordwave("--help")
    assert shown.returncode == 0 and "probe" in shown.stdout
    check = "import sys; from wordwave.cli import probe, demo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_training_and_predicting_import_no_compiler(table, tmp_path):
    """torch._dynamo and sympy take more than a second of every start, and nothing needs them."""
    check = """
import sys
from wordwave.cli import main
for arguments in (sys.argv[1:-1], ["predict", *sys.argv[-2:]]):
    sys.argv = ["wordwave", *arguments]
    main()
sys.exit(bool({"torch._dynamo", "sympy"} & set(sys.modules)))
"""
    options = ["--epochs", "1", "--dim", "8", "--out", tmp_path / "run", "good film"]
    words = [sys.executable, "-c", check, "train", "classify", "--data", table, *options]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_probe_writes_records_tables_and_pictures_and_goes_on_where_it_stopped(tmp_path):
    command = ("probe", "--tasks", "precedence", "copy", "--encoders", "fasttext", "transformer")
    command += ("--embeddings", "none", "complex-order", "rope", "--out", tmp_path, *SMALL)
    first = wordwave(*command, "--jobs", "1")
    assert first.returncode == 0, first.stderr
    records = (tmp_path / "records.jsonl").read_text()
    assert len(records.splitlines()) == 2 + 3 + 3
    with (tmp_path / "probe.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["embedding"] for r in rows} == {"none", "complex-order", "rope"}
    for name in ("probe.json", "probe.md", "heat-map.png", "lengths.png", "frequencies.png"):
        assert (tmp_path / name).stat().st_size > 100
    again = wordwave(*command, "--jobs", "1")
    assert again.returncode == 0
    assert (tmp_path / "records.jsonl").read_text() == records


def test_other_lengths_or_another_text_are_other_cells(cli, tmp_path):
    texts = [tmp_path / f"{name}.txt" for name in "ab"]
    for n, text in enumerate(texts):
        text.write_text("\n".join(f"one{i} two three four five{n}" for i in range(30)))
    command = ("probe", "--tasks", "swap-text", "--encoders", "fasttext", "--embeddings", "none")
    command += ("--jobs", "1", "--out", tmp_path / "out", *SMALL)
    for text, lengths in ((texts[0], "10-20"), (texts[1], "10-20"), (texts[1], "10-30")):
        assert cli.call(*command, "--text", text, "--lengths", lengths).code == 0
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 3


def test_a_killed_probe_keeps_its_finished_cells(tmp_path):
    command = [WORDWAVE, "probe", "--tasks", "precedence", "--encoders", "fasttext", "--jobs", "1"]
    command += ["--seeds", "40", "--embeddings", "none", "--out", str(tmp_path), *SMALL]
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    records = tmp_path / "records.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if records.exists() and len(records.read_text().splitlines()) >= 3:
            break
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    kept = records.read_text().splitlines()
    assert 3 <= len(kept) < 40
    assert wordwave(*command[1:]).returncode == 0
    finished = records.read_text().splitlines()
    assert finished[: len(kept) - 1] == kept[:-1] and len(finished) >= 40


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tasks", "precedense"), "did you mean 'precedence'"),
        (("--embeddings", "sine"), "embeddings must be among none, pe"),
        (("--encoders", "gru"), "encoders must be among fasttext"),
        (("--lengths", "60-40"), "lengths must be shortest and longest, at least 8"),
        (("--lengths", "long"), "lengths must be written shortest-longest"),
        (("--tasks", "swap-text"), "needs a text file"),
        (("--tasks", "swap-text", "--text", "nowhere.txt"), "nowhere.txt"),
        (("--tasks", "copy", "--encoders", "fasttext"), "do not combine"),
        (("--n-test", "0"), "n_test must be at least 2, got 0"),
        (("--train-lengths", "20", "10"), "train_lengths must be shortest and longest"),
        (("--dim", "30"), "dim must be a multiple of 4"),
        (("--seeds", "0"), "seeds must be at least 1, got 0"),
        (("--jobs", "0"), "jobs must be at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(cli, arguments, said, tmp_path):
    cli.refusal(cli.call("probe", *arguments, "--out", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()
