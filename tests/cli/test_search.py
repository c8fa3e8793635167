"""`wordwave search` as a user meets it."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from wordwave.cli.compare import compare
from wordwave.cli.search import load_without_test, search
from wordwave.cli.train import classify
from wordwave.config_io import from_dict, read_yaml
from wordwave.tasks.config import ClassificationConfig, DataConfig
from wordwave.workers import InProcess

pytest.importorskip("optuna")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "things.csv"
    labels = ["good" if i % 2 else "bad" for i in range(160)]
    lines = [f"a {label} thing w{i % 7} v{i % 5},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


def words(table, out, *more):
    small = ("--dim", "4", "--epochs", "3", "--trials", "3", "--space", "wide")
    return [*map(str, ("--data", table, "--out", out, *small, *more))]


def run(arguments):
    search(arguments, prog="wordwave search")


def test_search_writes_a_config_that_trains_to_the_same_accuracy(
    table, tmp_path, capsys, monkeypatch
):
    out, poison = tmp_path / "out", tmp_path / "poison.csv"
    poison.write_text("text,label\na thing,of a class that training does not have\n")
    run(words(table, out, "--test", poison))
    said = capsys.readouterr().out
    assert "Best trials" in said and "3/3" in said and "Written:" in said
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == ["1", "2", "3"]
    assert {"batch_size", "learning_rate", "weight_decay", "hidden_dim"} <= rows[0].keys()
    best = from_dict(ClassificationConfig, read_yaml(out / "best.yaml"))
    assert best.data.test == str(poison) and best.model.dim == 4

    train = ["--config", str(out / "best.yaml"), "--test", str(table), "--out", str(out / "run")]
    classify(train, prog="wordwave train classify")
    result = json.loads((out / "run" / "result.json").read_text())
    assert result["dev_accuracy"] == max(float(row["dev_accuracy"]) for row in rows)

    records = (out / "trials.jsonl").read_text()
    run(words(table, out, "--test", poison))  # all is there: no process is started for it
    assert (out / "trials.jsonl").read_text() == records
    with pytest.raises(ValueError, match="holds a search with dim 4, here it is 8"):
        run(words(table, out, "--test", poison, "--dim", "8"))
    monkeypatch.setattr("wordwave.cli.search.ProcessWorkers", InProcess)
    run(words(table, out, "--test", poison, "--trials", "4", "--jobs", "1"))
    assert (out / "trials.csv").read_text().count("\n") == 1 + 4


def test_the_test_file_is_not_opened(table, tmp_path):
    parts = load_without_test(
        ClassificationConfig(data=DataConfig(str(table), test=str(tmp_path / "nowhere.csv")))
    )
    assert parts.test is None and len(parts.train) == 144 and len(parts.dev) == 16
    with pytest.raises(ValueError, match="go with files of your own"):
        load_without_test(ClassificationConfig(data=DataConfig("trec", test="nowhere.csv")))


def hears_ctrl_c():
    """What is started in the background, as these tests may be, is born deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_stop_ends_the_workers_keeps_trials_and_says_how_to_go_on(table, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "wordwave", "search", *words(table, out)]
    running = subprocess.Popen(
        [*command, "--trials", "1000", "--jobs", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )  # fmt: skip
    deadline, records = time.monotonic() + 120, out / "trials.jsonl"
    while running.poll() is None and time.monotonic() < deadline:
        if records.exists() and '"trial": 4' in records.read_text():
            break
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told.startswith("wordwave: stopped with ") and told.count("\n") == 1
    assert told.endswith(f" of 1000 trials in '{out}'; run the same command again to resume\n")
    n = int(told.split()[3])
    assert n >= 3 and (out / "trials.csv").read_text().count("\n") == 1 + n
    assert (out / "best.yaml").exists()
    before = records.read_text()
    time.sleep(0.3)
    assert records.read_text() == before  # no worker is left


def kill_a_worker(running):
    """Kill -9 a process that trains."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        with contextlib.suppress(psutil.Error):  # of a process that ends at this moment
            children = psutil.Process(running.pid).children()
            workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
            # One that has begun: it has imported torch, and computes.
            if busy := [worker for worker in workers if worker.memory_info().rss > 2**27]:
                busy[0].kill()
                return
        time.sleep(0.02)
    pytest.fail("no worker was ever busy")


def drawn(out):
    """What was tried and found, without times."""
    with (out / "trials.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def finish_with_a_kill(command):
    """Run a command whose worker is killed; it must succeed."""
    running = subprocess.Popen(
        [sys.executable, "-m", "wordwave", *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    kill_a_worker(running)
    _, told = running.communicate(timeout=300)
    assert running.returncode == 0, told


def test_a_search_whose_worker_is_killed_tries_what_an_undisturbed_one_tries(
    table, tmp_path, monkeypatch
):
    more = ("--trials", "6", "--jobs", "1", "--epochs", "20", "--pool", "paper")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish_with_a_kill(["search", *words(table, killed, *more)])
    monkeypatch.setattr("wordwave.cli.search.ProcessWorkers", InProcess)
    run(words(table, whole, *more))
    assert len(drawn(whole)) == 6 and drawn(whole) == drawn(killed)
    assert (whole / "best.yaml").read_text() == (killed / "best.yaml").read_text()
    assert not list(killed.glob(".*.lock"))


def test_a_comparison_whose_worker_is_killed_finds_what_an_undisturbed_one_finds(table, tmp_path):
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    for encoder in ("fasttext", "cnn"):
        (recipes / f"{encoder}.yaml").write_text(
            f"model: {{encoder: {encoder}, dim: 8, n_filters: 4}}\ntraining: {{epochs: 20}}\n"
        )
    command = ["--data", str(table), "--recipes", str(recipes), "--encoders", "fasttext", "cnn"]
    command += ["--embeddings", "none", "--seeds", "2", "--out"]
    finish_with_a_kill(["compare", *command, str(tmp_path / "killed"), "--jobs", "2"])
    compare([*command, str(tmp_path / "whole"), "--jobs", "1"], prog="wordwave compare")

    def found(name):
        records = map(json.loads, (tmp_path / name / "records.jsonl").read_text().splitlines())
        kept = ("encoder", "seed", "test_accuracy", "dev_accuracy", "epochs")
        ours = (record for record in records if record["encoder"] in ("cnn", "fasttext"))
        return sorted(tuple(record[key] for key in kept) for record in ours)

    assert len(found("whole")) == 4 and found("whole") == found("killed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--trials", "0"), "trials must be at least 1, got 0"),
        (("--jobs", "0"), "jobs must be at least 1, got 0"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
        (("--label", "klass"), "klass"),
        (("--config", "nowhere.yaml"), "there is no config file 'nowhere.yaml'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(table, tmp_path, arguments, said):
    with pytest.raises((ValueError, OSError), match=said):
        run(words(table, tmp_path / "out", *arguments))
    assert not (tmp_path / "out").exists()


def test_a_mistake_that_only_workers_notice_is_told_and_can_be_mended(table, tmp_path):
    arguments = words(table, tmp_path / "out", "--encoder", "transformer", "--jobs", "1")
    with pytest.raises(ValueError, match=r"3 of 3 could not be run.*3"):
        run([*arguments, "--n-heads", "3"])
    run([*arguments, "--n-heads", "2", "--trials", "1"])  # not refused: there were no trials yet


def test_without_optuna_the_extra_is_named(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"pip install 'wordwave\[search\]'"):
        run(words(table, tmp_path / "out"))


def test_help_needs_neither_torch_nor_optuna():
    check = "import sys, wordwave.cli.search; sys.exit(bool({'torch', 'optuna'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "--seeds", 10**9), "seeds must be at most"),
        (("compare", "--jobs", 10**9), "jobs must be at most 1024"),
        (("search", "--trials", 10**9), "trials must be at most 100000"),
        (("search", "--jobs", 10**9), "jobs must be at most 1024"),
    ],
)
def test_what_can_never_be_run_is_refused_with_its_limit(cli, arguments, said, tmp_path):
    cli.refusal(cli.call(*arguments, "--out", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()
