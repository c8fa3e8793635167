"""What earlier versions wrote is read: runs, states, configs, flags, records and studies."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
import yaml

from wordwave.config_io import flat, flatten, from_dict, to_dict, with_settings
from wordwave.grid import Store
from wordwave.migrate import (
    RENAMED,
    upgrade_config,
    upgrade_flags,
    upgrade_flat,
    upgrade_progress,
    upgrade_record,
    upgrade_run,
    upgrade_weights,
)
from wordwave.search.compare import Candidate, Comparison
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import (
    ClassificationConfig,
    DataConfig,
    LanguageModelConfig,
    MatchingConfig,
    TranslationConfig,
)
from wordwave.tasks.language_model import LanguageModel
from wordwave.tasks.run_folder import read_config
from wordwave.tasks.translator import Translator

HERE = Path(__file__).parents[1]
RESULTS = HERE.parent / "results"
TASKS = dict.fromkeys(("fasttext", "cnn", "lstm", "transformer", "rope"), "classify")
TASKS |= dict.fromkeys(("translator", "aed"), "translate") | dict.fromkeys(("lm", "lm-real"), "lm")
CONFIGS = {
    "classify": ClassificationConfig,
    "match": MatchingConfig,
    "translate": TranslationConfig,
    "lm": LanguageModelConfig,
}


@pytest.fixture
def old_runs(tmp_path, monkeypatch):
    """A folder with all runs of `old_runs/make.py`; what the finished ones compute."""
    with ZipFile(HERE / "old_runs" / "runs.zip") as file:
        file.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return json.loads((tmp_path / "expected.json").read_text())


@torch.no_grad()
def computed(task, run):
    """As `old_runs/make.py` computes it."""
    if task == "classify":
        texts = ["the film was good", "bad plot", "a very unknown word is not bad"]
        return TextClassifier.load(Path(run)).logits(texts)
    if task == "translate":
        model = Translator.load(Path(run)).model
        return model(torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]]))[0, :, ::50]
    logits, _ = LanguageModel.load(Path(run)).model(torch.tensor([[3, 4, 5, 6, 2, 3]]))
    return logits[0, :, ::4]


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_an_old_run_computes_what_it_did(old_runs, name, task):
    torch.testing.assert_close(
        computed(task, name), torch.tensor(old_runs[name]), atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_an_old_run_resumes_and_ends_where_it_would_have(old_runs, cli, name, task):
    run = f"{name}-stopped"
    result = cli.call("train", task, "--config", f"{run}/config.yaml", "--out", run)
    assert result.code == 0, result.err
    assert (Path(run) / "result.json").exists() and not (Path(run) / "state").exists()
    lines = {
        folder: [json.loads(line) for line in (Path(folder) / "metrics.jsonl").open()]
        for folder in (name, run)
    }
    assert [r["step"] for r in lines[run]] == [r["step"] for r in lines[name]]
    # Dropout masks are drawn otherwise since then: with dropout, other weights of the same quality.
    has_dropout = yaml.safe_load((Path(run) / "config.yaml").read_text())["model"]["dropout"] > 0
    loss, before = lines[run][-1]["loss"], lines[name][-1]["loss"]
    if has_dropout:
        assert loss < 1.1 * before
    else:
        assert loss == pytest.approx(before, rel=1e-3)
        # A few steps of the same arithmetic; another CPU rounds otherwise.
        torch.testing.assert_close(
            computed(task, run), torch.tensor(old_runs[name]), atol=1e-3, rtol=1e-2
        )


FORMER = {
    "classify bag": {"ngrams": False, "select": "accuracy", "max_length": 512},
    "classify cnn": {"padding": "narrow", "max_length": 512},
    "match cnn": {"padding": "narrow", "unknown_words": "shared"},
}
"""The defaults of models when there were no flags for most of them."""
NEWER = ("dev_share", "ngrams", "n_subwords", "select", "padding", "unknown_words", "class_weight")
"""Settings that their runs have no values of."""


@pytest.fixture
def unfinished(cli, tmp_path):
    """Begins a run as an earlier version did; returns the command, which has no such flags."""

    def begin(kind):
        (task, encoder), run = kind.split(), tmp_path / "run"
        rows = [f"{'good' if i % 2 else 'bad'} w{i},a w{i % 7} w{i},{i % 2}" for i in range(60)]
        data = tmp_path / "data.csv"
        data.write_text("\n".join(["text,text_b,label", *rows]))
        named = ("--text-a", "text") if task == "match" else ("--dropout", "0.1")
        command = ("train", task, "--data", data, "--out", run, "--encoder", encoder, *named)
        command = (*command, "--dim", "4", "--n-filters", "4", "--epochs", "3", "--batch-size", "9")
        with cli.stopped_at(8):
            given = [f"--{name.replace('_', '-')}={value}" for name, value in FORMER[kind].items()]
            given = ["--no-ngrams" if word == "--ngrams=False" else word for word in given]
            begun = cli.call(*command, *given, "--dev-share", "0.1", "--save-every", "0")
            assert begun.code == 130, begun.err
        config = yaml.safe_load((run / "config.yaml").read_text())
        for part in ("data", "text", "model", "training"):
            config[part] = {k: v for k, v in config[part].items() if k not in NEWER}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
        return run, command

    return begin


@pytest.mark.parametrize("kind", FORMER)
@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_the_command_of_an_old_run_resumes_it_with_its_own_defaults(cli, unfinished, kind, more):
    run, command = unfinished(kind)
    result = cli.call(*command, *more)
    assert result.code == 0 and f"Resuming in {run}" in result.out, result.err
    config = flat(yaml.safe_load((run / "config.yaml").read_text()))
    assert {name: config[name] for name in FORMER[kind]} == FORMER[kind]
    assert "finished already" in cli.call(*command).out
    assert cli.call("evaluate", run).code == 0
    again = cli.call(*command, "--overwrite")  # with the defaults of now
    assert again.code == 0 and "Replacing" in again.out, again.err
    config = flatten(read_config(run, kind.split()[0], CONFIGS[kind.split()[0]]))
    assert config["padding"] == "wide" and config["max_length"] == (2048 if "ify" in kind else 512)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("classify bag", "--max-length 2048", "max_length 512, here it is 2048"),
        ("classify bag", "--max-length=600", "max_length 512, here it is 600"),
        ("classify bag", "--ngrams", "ngrams False, here it is True"),
        ("classify bag", "--select last", "select 'accuracy', here it is 'last'"),
        ("classify bag", "--dev-share 0.2", "dev_share 0.1, here it is 0.2"),
        ("classify cnn", "--padding wide", "padding 'narrow', here it is 'wide'"),
        ("classify cnn", "--config given.yaml", "max_length 512, here it is 2048"),
        ("match cnn", "--unknown_words hashed", "unknown_words 'shared', here it is 'hashed'"),
        ("match cnn", "--dim 5", "dim 4, here it is 5"),
    ],
)
def test_a_value_that_is_given_must_be_that_of_the_run(
    cli, unfinished, tmp_path, monkeypatch, kind, given, said
):
    monkeypatch.chdir(tmp_path)
    Path("given.yaml").write_text("model:\n  max_length: 2048\n")
    _, command = unfinished(kind)
    cli.refusal(cli.call(*command, *given.split()), said)


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_a_finished_old_run_is_known_as_finished(old_runs, cli, name, task):
    result = cli.call("train", task, "--config", f"{name}/config.yaml", "--out", name)
    assert result.code == 0 and "finished already" in result.out


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_an_old_config_keeps_all_its_values_under_new_names(old_runs, name, task):
    old = yaml.safe_load((Path(name) / "config.yaml").read_text())
    config = read_config(Path(name), task, CONFIGS[task])
    new = flatten(config)
    for part in ("data", "text", "model", "training"):
        for key, value in old.get(part, {}).items():
            if key == "norm":
                assert new["norm_first"] == (value == "pre")
            else:
                assert new[RENAMED.get(key, key)] == value
    assert upgrade_config(to_dict(config)) == to_dict(config)  # new ones stay as they are


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training": {"clip": 1.0, "max_grad_norm": 2.0}}, "training has both 'max_grad_norm'"),
        ({"model": {"phase": True, "embedding": {"phase": False}}}, "model has 'phase' both"),
        ({"model": {"norm": "between"}}, "norm must be one of pre, post"),
    ],
)
def test_a_setting_given_by_both_names_is_refused(settings, message):
    with pytest.raises(ValueError, match=f"^c: .*{message}"):
        upgrade_config(settings, "c")


@pytest.mark.parametrize("odd", [None, 3, [], {"model": 3, "training": [1]}, {3: {4: 5}}])
def test_what_is_no_config_is_left_to_those_who_check_it(odd):
    assert upgrade_config(odd) == odd and upgrade_progress(odd) == odd


def test_old_flags_work_and_are_warned_of_once(old_runs, cli):
    flags = ("--judge-every", "2", "--clip=0.5", "--judge_every=3", "--tokeniser", "kim")
    where = ("--data", "data/reviews.csv", "--out", "new", "--epochs", "1")
    result = cli.call("train", "classify", *where, *flags)
    assert result.code == 0
    assert result.err.count("--judge-every is now --eval-every\n") == 1
    assert result.err.count("is now") == 3
    config = read_config(Path("new"), "classify", ClassificationConfig)
    assert config.training.eval_every == 3 and config.training.max_grad_norm == 0.5
    assert config.text.tokenizer == "kim"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--norm", "post"], ["--no-norm-first"]),
        (["--norm=pre", "--dim", "4"], ["--norm-first", "--dim", "4"]),
        (["--wave-period", "9", "x"], ["--max-wave-position", "9", "x"]),
        (["--search-pool=wide"], ["--search-space=wide"]),
        (["--data", "clip", "--norm-first", "norm"], ["--data", "clip", "--norm-first", "norm"]),
    ],
)
def test_flags_are_replaced_and_values_are_not(given, wanted):
    warned = []
    assert upgrade_flags(given, warned.append) == wanted
    assert len(warned) == (given != wanted)


def test_a_flag_that_had_other_values_is_refused():
    with pytest.raises(ValueError, match=r"^--norm must be one of pre, post, got 'none'$"):
        upgrade_flags(["--norm", "none"], print)


def test_states_of_trainings_have_new_names():
    assert upgrade_progress({"step": 3, "since_judged": 2}) == {"step": 3, "since_eval": 2}
    old = {"optimiser.exp_avg.head.weight": 1, "model.head.weight": 2}
    assert list(upgrade_weights(old)) == ["optimizer.exp_avg.head.weight", "model.head.weight"]


@pytest.mark.parametrize("folder", ["table5", "table6"])
def test_the_settings_of_old_records_are_those_of_a_config_now(folder):
    """So that keys computed now match."""
    kind = TranslationConfig if folder == "table5" else LanguageModelConfig
    records = Store(RESULTS / folder / "records.jsonl", ("row", "seed", "config")).records()
    assert records
    for record in records:
        assert to_dict(from_dict(kind, record["config"])) == record["config"]


def test_records_of_all_kinds_of_runs_have_settings_that_are_known_now():
    lines = (RESULTS / "reproduce" / "records.jsonl").read_text().splitlines()
    records = [upgrade_record(json.loads(line)) for line in lines]
    hows = [r["how"] if "how" in r else r["settings"] for r in records if r["kind"] != "withdrawn"]
    hows = [how for many in hows for how in many.get("cells", {"": many}).values()]
    assert hows
    for how in hows:
        if "model" in how:
            from_dict(ClassificationConfig, how)


def test_a_record_is_read_under_the_key_that_its_config_has_now(tmp_path):
    config = with_settings(ClassificationConfig(), embedding="tpe", max_grad_norm=0.5, seed=3)
    old = to_dict(config)
    embedding = old["model"].pop("embedding")
    old["model"] |= {"embedding": embedding.pop("kind")} | embedding
    for name in ("share_phase", "views", "train_sinusoids", "frequency_scale", "layers"):
        del old["model"][name]  # which it did not know
    old["training"]["clip"] = old["training"].pop("max_grad_norm")
    store = Store(tmp_path / "records.jsonl", ("config",))
    (tmp_path / "records.jsonl").write_text(json.dumps({"config": old, "x": 1}) + "\n")
    content = (tmp_path / "records.jsonl").read_bytes()
    assert store.key_of({"config": to_dict(config)}) in store.done()
    before_views = to_dict(config)
    del before_views["model"]["embedding"]["views"]
    assert store.key_of(upgrade_record({"config": before_views})) in store.done()
    store.append({"config": to_dict(config), "x": 2})
    assert (tmp_path / "records.jsonl").read_bytes() == content


def test_a_record_with_the_former_default_of_ngrams_has_the_key_of_the_default_now(tmp_path):
    config = to_dict(ClassificationConfig())
    former = {**config, "model": {**config["model"], "ngrams": True}}
    store = Store(tmp_path / "records.jsonl", ("config",))
    store.append({"config": former})
    assert store.done() == {store.key_of({"config": config})}
    compared = [
        Comparison(DataConfig("x.csv"), {"bag": with_settings(ClassificationConfig(), **how)}, "")
        for how in ({}, {"ngrams": True}, {"ngrams": False})
    ]
    keys = [store.key_of(one.key(Candidate("bag", "none", 0))) for one in compared]
    assert keys[0] == keys[1] != keys[2]


def test_settings_of_old_studies_are_known_now():
    known = {*flatten(ClassificationConfig()), "space", "examples"}
    for journal in (RESULTS / "reproduce" / "searches").glob("*/study.journal"):
        lines = map(json.loads, journal.open())
        settings = next(s for line in lines if (s := line.get("user_attr", {}).get("settings")))
        assert set(upgrade_flat(settings)) <= known


@pytest.mark.parametrize("task", ["classify", "match"])
def test_a_cnn_of_an_earlier_version_has_narrow_windows(task):
    old = {"model": {"encoder": "cnn"}}
    assert upgrade_run(old, task)["model"]["padding"] == "narrow"
    assert upgrade_run({"model": {"encoder": "cnn", "padding": "wide"}}, task) == {
        "model": {"encoder": "cnn", "padding": "wide"}
    }
    # Where it has no meaning, it is the default, so that the keys of records agree.
    assert upgrade_run({"model": {"encoder": "lstm"}}, task)["model"]["padding"] == "wide"
