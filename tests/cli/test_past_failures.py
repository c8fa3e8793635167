"""What `make fuzz` and users once brought down: each is answered by one line, at once.

Damage is done to small runs, states and records; the answer must be a refusal, exit code 2, that a
person can read, within a limit of memory.
"""

import json
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.fuzz.base import COMPARE, PROBE, SEARCH, make
from tests.fuzz.mutate import BOMB
from wordwave import WaveEmbedding, build_embedding, complex, layers, read_vectors

TEXT = "good w1"


@pytest.fixture(scope="module")
def base(cli, tmp_path_factory):
    """Finished runs, the same stopped in the middle, and records. Not to be changed."""
    folder, before = tmp_path_factory.mktemp("base"), Path.cwd()

    def answer(*words):
        result = cli.call(*words)
        assert result.code == 0, result.err

    try:
        make(folder, ("fasttext", "translator", "lm"), ("probe", "compare"), answer)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def place(base, tmp_path, monkeypatch):
    """A folder to run commands in; more memory than tiny things need is refused by the system."""
    shutil.copytree(base / "data", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 3 * 10**9, hard))
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def take(base, what):
    shutil.copytree(base / what, "run")


def refused(cli, *words):
    line = cli.refusal(cli.call(*words))
    assert 20 < len(line) < 1000 and "Traceback" not in line
    return line


def rewrite(path, change):
    """Give a safetensors file other tensors or another header."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(tensors, header)
    save_file(tensors, path, metadata=header)


def first(tensors, start):
    """The first tensor of real numbers whose name starts so."""
    names = (name for name in sorted(tensors) if tensors[name].is_floating_point())
    return next(name for name in names if name.startswith(start))


def tensor(start, change):
    """Change the first tensor of real numbers whose name starts so; `None` removes it."""

    def changed(tensors, _):
        name = first(tensors, start)
        new = change(tensors.pop(name))
        if new is not None:
            tensors[name] = new

    return changed


def progress(**values):
    def changed(_, header):
        header["progress"] = json.dumps(json.loads(header["progress"]) | values)

    return changed


def one_is(number):
    def changed(old):
        new = old.clone()
        new.view(-1)[0] = number
        return new

    return changed


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("run", ["fasttext", "lm"])
@pytest.mark.parametrize(
    "change",
    [
        tensor("optimizer.exp_avg.", lambda old: old.flatten()[:1].clone()),
        tensor("optimizer.exp_avg.", lambda old: torch.cat([old.flatten(), old.flatten()[:1]])),
        tensor("optimizer.exp_avg.", lambda old: old.half()),
        tensor("optimizer.exp_avg_sq.", lambda old: None),
        tensor("optimizer.exp_avg_sq.", one_is(NAN)),
        tensor("optimizer.step.", lambda old: torch.zeros(1000)),
        tensor("optimizer.step.", lambda old: None),
        tensor("optimizer.", lambda old: torch.tensor(1.0)),
        tensor("best.", one_is(NAN)),
        tensor("best.", lambda old: None),
        tensor("best.", lambda old: old[None].clone()),
        tensor("model.", one_is(INF)),
        progress(step=[3]),
        progress(step="x"),
        progress(step=-1),
        progress(batch=-1),
        progress(batch=10**9),
        progress(epoch=10**30),
        progress(best_scores=["[/b]"]),
        progress(best_scores=[float("inf")]),
        progress(seconds=["0.1"]),
        progress(loss={}),
        progress(since_best="1"),
        progress(since_eval=None),
    ],
)
def test_a_state_that_is_not_of_this_training(cli, base, place, run, change):
    take(base, f"states/{run}")
    rewrite(Path("run/state/state.safetensors"), change)
    task = "classify" if run == "fasttext" else "lm"
    refused(cli, "train", task, "--config", "run/config.yaml", "--out", "run")


@pytest.mark.parametrize(
    ("run", "task", "start", "change"),
    [
        ("lm", "lm", "task.", lambda old: old.flatten()),
        ("translator", "translate", "task.0.", lambda old: old[None].clone()),
        ("fasttext", "classify", "optimizer.square.", lambda old: old.flatten()[:-1].clone()),
        ("fasttext", "classify", "optimizer.mean.", lambda old: old.flatten()[:0].clone()),
    ],
)
def test_a_state_of_what_only_some_trainings_keep(cli, base, place, run, task, start, change):
    take(base, f"states/{run}")
    rewrite(Path("run/state/state.safetensors"), tensor(start, change))
    refused(cli, "train", task, "--config", "run/config.yaml", "--out", "run")


USES = {
    "fasttext": [["predict", "run", TEXT], ["explain", "run", TEXT], ["evaluate", "run"]],
    "translator": [["translate", "run", TEXT], ["evaluate", "run"]],
    "lm": [["generate", "run", "--length", "3"], ["evaluate", "run", "--json", "o.json"]],
}


@pytest.mark.parametrize("number", [NAN, INF])
@pytest.mark.parametrize(("run", "words"), [(run, w) for run, all in USES.items() for w in all])
def test_weights_that_are_no_numbers(cli, base, place, run, words, number):
    take(base, f"runs/{run}")
    rewrite(Path("run/model.safetensors"), tensor("", one_is(number)))
    assert "model.safetensors" in refused(cli, *words)


@pytest.mark.parametrize(
    "text",
    [
        *(BOMB, "&a [*a]", "a: &a {b: *a}", "task: [classify]\n", "? [a]\n: 1\n"),
        *("x: !!bool y\n", "task: classify\nmodel: {phase: !!bool x}\n", "x: !!timestamp x\n"),
        "x: !!omap [a: 1]\n",
    ],
)
@pytest.mark.parametrize("run", ["fasttext", "lm"])
def test_a_config_that_only_yaml_understands(cli, base, place, run, text):
    take(base, f"runs/{run}")
    Path("run/config.yaml").write_text(text)
    refused(cli, *USES[run][0])
    refused(cli, "train", "classify", "--data", "table.csv", "--config", "run/config.yaml")


def test_a_value_is_not_told_in_full(cli, place):
    Path("odd.yaml").write_text(f"model:\n  hidden_dim: {{a: {'x' * 20_000}}}\n")
    refused(cli, "train", "classify", "--data", "table.csv", "--config", "odd.yaml")


@pytest.mark.parametrize("name", ["vocab.json", "config.yaml", "model.safetensors"])
@pytest.mark.parametrize("run", ["fasttext", "lm"])
def test_a_file_of_a_run_without_an_end(cli, base, place, run, name):
    take(base, f"runs/{run}")
    Path("run", name).unlink()
    Path("run", name).symlink_to("/dev/zero")
    refused(cli, *USES[run][0])


@pytest.mark.parametrize("run", ["fasttext", "translator", "lm"])
@pytest.mark.parametrize(
    "result", ["{}", "[]", "0", '{"parameters": ["1"]}', '{"parameters": "x"}']
)
def test_a_result_that_is_none(cli, base, place, run, result):
    take(base, f"runs/{run}")
    Path("run/result.json").write_text(result)
    task = {"fasttext": "classify", "translator": "translate", "lm": "lm"}[run]
    refused(cli, "train", task, "--config", "run/config.yaml", "--out", "run")


@pytest.mark.parametrize("line", ['{"step": "x"}', '{"step": 1}', '{"step": [1]}'])
def test_a_journal_of_something_else(cli, base, place, line):
    """Lines that are no records are left out, as torn ones are; or all is refused."""
    take(base, "states/fasttext")
    Path("run/metrics.jsonl").write_text(line + "\n")
    words = ("train", "classify", "--config", "run/config.yaml", "--out", "run")
    result = cli.call(*words)
    if result.code:
        cli.refusal(result)
    assert result.code in (0, 2)


RECORDS = {"probe": PROBE, "compare": COMPARE}


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("more", [[], ["--report-only"]])
@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.clear(),
        lambda record: record.pop("parameters"),
        lambda record: record.update(seed="x"),
        lambda record: record.update(seed=10**6),
        lambda record: record.update(accuracy=1e38, test=1e38),
        lambda record: record.update(sensitivity={"marked": ["x"], "others": [[1]]}),
        lambda record: record.update(seconds={}, epoch_seconds={}),
    ],
)
def test_records_of_something_else(cli, base, place, kind, more, change):
    """They are left out, or the file is refused; nothing breaks, and nothing takes long."""
    take(base, f"records/{kind}")
    path = Path("run/records.jsonl")
    lines = path.read_text().splitlines()
    record = json.loads(lines[-1])
    change(record)
    path.write_text("\n".join([*lines, json.dumps(record)]) + "\n")
    result = cli.call(*RECORDS[kind], "--out", "run", *more)
    if result.code:
        cli.refusal(result)
    assert result.code in (0, 2)


@pytest.mark.parametrize(
    "line", ['{"op_code": 99}', '{"op_code": "x"}', '{"op_code": 4}', "{}", "1"]
)
def test_a_study_that_optuna_cannot_read(cli, place, line):
    Path("o").mkdir()
    Path("o/study.journal").write_text(line + "\n")
    assert "study.journal" in refused(cli, *SEARCH, "--out", "o")


TRAIN = ["train", "classify", "--data", "table.csv", "--epochs", "1"]


@pytest.mark.parametrize(
    "words",
    [
        [*TRAIN, "--tokenizer", "bpe", "--bpe-size", str(2**31 - 1)],
        [*TRAIN, "--threads", str(2**31 - 1)],
        [*TRAIN, "--threads", "100000"],
        ["generate", "run", "--length", str(2**32)],
        ["generate", "run", "--length", str(10**30)],
        [*PROBE, "--seeds", str(10**9)],
        [*COMPARE, "--seeds", str(10**9)],
    ],
)
def test_a_number_that_can_never_be_run(cli, base, place, words):
    take(base, "runs/lm")
    refused(cli, *words)


@pytest.mark.parametrize(
    ("words", "name"), [(PROBE, "records.jsonl"), (SEARCH, "study.journal"), (PROBE, None)]
)
def test_a_device_in_place_of_a_file(cli, base, place, words, name):
    if name is None:
        refused(cli, *words, "--text", "/dev/full", "--out", "o")
    else:
        Path("o").mkdir()
        Path("o", name).symlink_to("/dev/zero")
        refused(cli, *words, "--out", "o")


def test_no_lengths_at_all(cli, place):
    assert "lengths" in refused(cli, *PROBE, "--out", "o", "--lengths")


def test_a_json_file_of_predictions_is_json(cli, base, place):
    take(base, "runs/fasttext")
    assert cli.call("predict", "run", "table.csv", "--out", "o.json").code == 0
    predictions = json.loads(Path("o.json").read_text())
    assert len(predictions) == len(Path("table.csv").read_text().splitlines()) - 1
    assert "label" in predictions[0]


def test_a_word_of_a_million_letters(cli, place):
    lines = Path("table.csv").read_text().splitlines()
    Path("table.csv").write_text("\n".join([*lines, lines[1] + " " + "ab" * 500_000]) + "\n")
    result = cli.call(*TRAIN, "--tokenizer", "bpe", "--bpe-size", "300")
    assert result.code == 0, result.err


def test_a_training_that_diverges_leaves_metrics_that_every_tool_reads(cli, place):
    cli.call(*TRAIN, "--learning-rate", str(2**31), "--out", "o")

    def refuse(constant):
        raise AssertionError(constant)

    for line in Path("o/metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("out", ["x[/b]", "a[lr=1]", "[bold]x"])
@pytest.mark.parametrize("words", [PROBE, COMPARE, TRAIN], ids=lambda words: words[0])
def test_a_name_is_never_markup(cli, place, words, out):
    result = cli.call(*words, "--out", out)
    assert result.code == 0, result.err
    assert out in result.out.replace("\n", "")


@pytest.mark.parametrize(
    "call",
    [
        lambda: layers.MultiHeadAttention(4, 2)(torch.ones(3)),
        lambda: layers.BatchNorm(4)(torch.zeros(2, 3, 8), mask=1),
        lambda: layers.LSTM(4, 3)(torch.zeros(2, 3, 8), lengths=[]),
        lambda: layers.RNN(4, 3, n_layers=10**30),
        lambda: layers.MultiHeadAttention(4, 2)(torch.zeros(2, 3, 8), mask=True),
        lambda: layers.Conv1d(torch.ones(3), 3, 2),
        lambda: layers.LayerNorm(4, dtype=2**63),
        lambda: layers.TransformerLayer(4, 4),
        lambda: WaveEmbedding(5, 4, vectors=-0.5),
        lambda: WaveEmbedding(5, 4, padding_idx=0.5),
        lambda: WaveEmbedding(5, 4, padding_idx=torch.zeros(())),
        lambda: WaveEmbedding(5, 4)(np.ones((2, 3))),
        lambda: WaveEmbedding(5, 4)(torch.ones(2, 3, dtype=torch.long), positions={}),
        lambda: build_embedding("pe", 5, 4, max_length=torch.zeros(3)),
        lambda: complex.to_complex(torch.ones(2, 4, dtype=torch.int32)),
        lambda: complex.phasor(torch.ones(())),
        lambda: read_vectors("vectors.txt", vocabulary=[1, 2]),
    ],
)
def test_an_argument_of_another_kind(place, call):
    with pytest.raises((TypeError, ValueError)):
        call()
