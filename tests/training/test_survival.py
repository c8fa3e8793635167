"""Trainings that are killed, stopped or shared between processes end as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from safetensors.torch import load_file

from wordwave.training.run import read_metrics

N_KILLS = int(os.environ.get("WORDWAVE_KILLS", "4"))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A task of which word comes first."""
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("data") / "order.csv"
    lines = ["text,label"]
    for _ in range(600):
        words = [f"w{rng.randrange(50)}" for _ in range(rng.randrange(3, 12))]
        first, second = sorted(rng.sample(range(len(words) + 1), 2))
        pair = rng.choice([("a", "b"), ("b", "a")])
        words.insert(second, pair[1])
        words.insert(first, pair[0])
        lines.append(" ".join(words) + "," + pair[0])
    path.write_text("\n".join(lines) + "\n")
    return path


def command(table, out, *more, epochs=30):
    return [
        sys.executable, "-m", "wordwave", "train", "classify", "--data", str(table), "--out",
        str(out), "--epochs", str(epochs), "--dim", "24", "--batch-size", "16",
        "--save-every", "0", "--dropout", "0.2",
        "--dev-share", "0.1", *more,
    ]  # fmt: skip


def run(words, **environment):
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def weights(folder):
    return load_file(folder / "model.safetensors")


def same_weights(one, other):
    one, other = weights(one), weights(other)
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


@pytest.fixture(scope="module", params=["many steps at once", "one by one"])
def undisturbed(request, table, tmp_path_factory):
    """A run, its options and its duration. With unknown words drawn, steps are taken one by one."""
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    more = ["--word-dropout", "0.05"] if request.param == "one by one" else []
    began = time.monotonic()
    run(command(table, folder, *more))
    return folder, more, time.monotonic() - began


def test_killed_at_random_moments_it_goes_on_to_the_same_weights(table, undisturbed, tmp_path):
    whole, more, seconds = undisturbed
    rng = random.Random(os.environ.get("WORDWAVE_KILL_SEED", "1"))
    folder = tmp_path / "killed"
    for _ in range(N_KILLS):
        process = subprocess.Popen(
            command(table, folder, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.3, 1.0) * seconds)
        process.kill()
        process.wait()
        if (folder / "result.json").exists():
            assert same_weights(whole, folder)
            folder = tmp_path / f"killed-{time.monotonic_ns()}"
    run(command(table, folder, *more))
    assert same_weights(whole, folder)
    assert not (folder / "state").exists() and not list(folder.glob(".*"))
    figures = [
        {k: r[k] for k in ("step", "epoch", "loss", "dev_accuracy")}
        for f in (whole, folder)
        for r in read_metrics(f / "metrics.jsonl")
    ]
    assert figures[: len(figures) // 2] == figures[len(figures) // 2 :]


def test_what_a_killed_writer_left_is_removed(table, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (f".model.safetensors.{'0a' * 16}.new", ".tmpY3b0Zq", ".of-the-user", "notes.new"):
        (folder / name).write_text("half")
    run(command(table, folder, epochs=1))
    left = {path.name for path in folder.iterdir()}
    assert not any(name.startswith((".model", ".tmp")) for name in left)
    assert {".of-the-user", "notes.new", "model.safetensors"} <= left


def test_a_finished_run_that_was_killed_before_tidying_is_tidied(table, tmp_path):
    folder = tmp_path / "run"
    run(command(table, folder, epochs=1))
    whole = {path.name for path in folder.iterdir()}
    (folder / "state").mkdir()
    (folder / "state" / "state.safetensors").write_text("not needed any more")
    (folder / ".training.lock").touch()
    assert "is finished already" in run(command(table, folder, epochs=1)).stdout
    assert {path.name for path in folder.iterdir()} == whole


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_says_how_to_go_on_and_goes_on(table, undisturbed, tmp_path, how):
    whole, more, _ = undisturbed
    folder = tmp_path / "stopped"
    words = command(table, folder, *more)
    words[words.index("--save-every") + 1] = "1000"  # only the stop itself saves
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "metrics.jsonl").exists() or not read_metrics(folder / "metrics.jsonl"):
        time.sleep(0.05)
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (
        told.strip()
        == f"wordwave: stopped and saved in '{folder}'; run the same command again to resume"
    )
    assert (folder / "state" / "state.safetensors").exists()
    run(words)
    assert same_weights(whole, folder)


def test_a_closed_pipe_stops_and_saves_as_ctrl_c_does(table, undisturbed, tmp_path):
    whole, more, _ = undisturbed
    folder = tmp_path / "unwatched"
    words = command(table, folder, *more)
    words[words.index("--save-every") + 1] = "1000"
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not process.stdout.readline().startswith("epoch"):  # before, there is nothing to save
        pass
    process.stdout.close()
    told = process.stderr.read()
    assert process.wait(timeout=60) == 130
    assert (
        told.strip()
        == f"wordwave: stopped and saved in '{folder}'; run the same command again to resume"
    )
    run(words)
    assert same_weights(whole, folder)


def killed_and_resumed(words, folder, **environment):
    """Kill -9 a process that trains after its second epoch, then run the same command again."""
    running = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    journal, deadline = folder / "metrics.jsonl", time.monotonic() + 120
    while not journal.exists() or len(read_metrics(journal)) < 2:
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    with suppress(psutil.Error):  # a kill that comes too late does no harm
        family = psutil.Process(running.pid).children(recursive=True)
        trains = [process for process in family if "--epochs" in process.cmdline()]
        trains[-1].kill() if trains else running.kill()
    running.wait(timeout=120)  # a launcher ends the others
    run(words, **environment)


@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_other_encoders_are_killed_and_go_on_to_the_same_weights(table, tmp_path, encoder):
    small = ("--encoder", encoder, "--dim", "8", "--state-dim", "8", "--n-heads", "2")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(command(table, whole, *small, epochs=6))
    killed_and_resumed(command(table, killed, *small, epochs=6), killed)
    assert same_weights(whole, killed)


LAUNCH = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
LAUNCH += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
LAUNCH += ["--main_process_port", "0", "-m", "wordwave"]


def test_one_of_two_processes_is_killed_and_both_go_on_to_the_same_weights(table, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(LAUNCH + command(table, whole, epochs=8)[3:], ACCELERATE_USE_CPU="true")
    words = LAUNCH + command(table, killed, epochs=8)[3:]
    killed_and_resumed(words, killed, ACCELERATE_USE_CPU="true")
    assert same_weights(whole, killed)


def test_two_processes_learn_as_one_with_the_doubled_batch(table, tmp_path):
    plain = ("--dropout", "0", "--word-dropout", "0", "--bigram-dropout", "0")
    one, two = tmp_path / "one", tmp_path / "two"
    words = command(table, one, *plain, epochs=4)
    words[words.index("--batch-size") + 1] = "32"
    run(words)
    done = run(LAUNCH + command(table, two, *plain, epochs=4)[3:], ACCELERATE_USE_CPU="true")
    assert done.stdout.count("Written:") == 1  # only one of the two writes and speaks
    curves = [[r["loss"] for r in read_metrics(f / "metrics.jsonl")] for f in (one, two)]
    assert len(curves[0]) == 4 and curves[0] == pytest.approx(curves[1], rel=1e-4)
    result = [json.loads((f / "result.json").read_text()) for f in (one, two)]
    assert result[0]["dev_accuracy"] == pytest.approx(result[1]["dev_accuracy"], abs=0.02)
