"""Searches: what is varied, who makes which trial, and what a kill leaves."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product

import pytest

from wordwave.config_io import from_dict, to_dict, with_settings
from wordwave.data.splits import Splits
from wordwave.data.tables import Examples
from wordwave.embedding.config import IN_ATTENTION, PAPER_EMBEDDINGS
from wordwave.models.config import ENCODERS, ModelConfig
from wordwave.search.study import SharedStudy, alive
from wordwave.search.trials import (
    SPACES,
    Range,
    SearchPlan,
    Setting,
    dev_accuracy,
    distributions_of,
    n_combinations,
    run_trials,
    varied,
    write_files,
)
from wordwave.tasks.config import ClassificationConfig, TextConfig
from wordwave.training.config import TrainingConfig

optuna = pytest.importorskip("optuna")

ONLY_SOME_USE = {
    "n_filters": {"cnn"},
    "n_layers": {"lstm", "transformer"},
    "feed_forward_dim": {"transformer"},
    "pooling": {"fasttext", "transformer"},
    "score": {"transformer"},
}


def examples(n, name="examples"):
    labels = ["good" if i % 2 else "bad" for i in range(n)]
    return Examples([f"a {label} thing w{i % 7}" for i, label in enumerate(labels)], labels, name)


def config_of(embedding, encoder):
    return with_settings(ClassificationConfig(), embedding=embedding, encoder=encoder)


def search_in(folder, n_trials=4, **training):
    config = ClassificationConfig(
        model=ModelConfig(dim=4), training=TrainingConfig(**{"epochs": 2, **training})
    )
    return SearchPlan(config, "paper", Splits(examples(64), examples(16), None), folder, n_trials)


@pytest.fixture
def few(monkeypatch):
    """Let a search space have just these settings."""

    def space(*settings):
        monkeypatch.setitem(SPACES, "paper", settings)

    return space


def drawn(search):
    return [trial.params for trial in search.open().finished()]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_papers_space_is_the_same_for_every_embedding(encoder):
    spaces = {
        tuple(s.name for s in varied("paper", config_of(e, encoder))) for e in PAPER_EMBEDDINGS
    }
    names = ("batch_size", "learning_rate", "weight_decay", "hidden_dim")
    assert spaces == {(*names, "n_filters") if encoder == "cnn" else names}


@pytest.mark.parametrize(
    ("embedding", "encoder"),
    [*product(PAPER_EMBEDDINGS, ENCODERS), *product(IN_ATTENTION[:2], ["transformer"])],
)
def test_a_space_varies_only_what_encoder_and_embedding_use(embedding, encoder):
    config = config_of(embedding, encoder)
    names = {setting.name for setting in varied("wide", config)}
    for name in names & ONLY_SOME_USE.keys():
        assert encoder in ONLY_SOME_USE[name]
    is_complex = embedding.startswith("complex")
    assert ("readout" in names) == is_complex
    assert ("score" in names) == (is_complex and encoder == "transformer")
    assert ("frequency_lr_scale" in names) == (embedding == "complex-order")
    assert "vector_scale" not in names
    frozen = with_settings(config, freeze_frequency=True)
    assert "frequency_lr_scale" not in {s.name for s in varied("wide", frozen)}
    with_vectors = replace(config, text=TextConfig(vectors="some.vec"))
    assert "vector_scale" in {s.name for s in varied("wide", with_vectors)}


@pytest.mark.parametrize("space", SPACES)
def test_every_value_of_a_space_makes_a_config_that_can_be_read_back(space):
    for setting in SPACES[space]:
        values = setting.values
        for value in (values.low, values.high) if isinstance(values, Range) else values:
            config = with_settings(ClassificationConfig(), **{setting.name: value})
            assert getattr(getattr(config, setting.part), setting.name) == value
            assert from_dict(ClassificationConfig, to_dict(config)) == config


def test_combinations_are_counted():
    config = ClassificationConfig(model=ModelConfig(encoder="cnn"))
    assert n_combinations(varied("paper", config)) == 3 * 3 * 3 * 2 * 2
    assert n_combinations(varied("wide", config)) is None


def test_a_search_refuses_test_examples_and_needs_dev(tmp_path):
    for dev, test in ((examples(8), examples(8)), (None, None)):
        with pytest.raises(ValueError, match="none to test on"):
            SearchPlan(ClassificationConfig(), "paper", Splits(examples(8), dev, test), tmp_path)


def test_a_search_that_goes_on_draws_what_an_undisturbed_one_draws(tmp_path):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    run_trials(search_in(whole, 6))
    run_trials(search_in(parted, 2))
    first = drawn(search_in(parted))
    shared = search_in(parted).open()
    with alive(parted) as worker:  # a worker that claims a trial and dies
        assert shared.claim(distributions_of(search_in(parted).varied), 6, worker) is not None
    run_trials(search_in(parted, 6))
    assert len(first) == 2 and drawn(search_in(parted))[:2] == first
    assert drawn(search_in(parted)) == drawn(search_in(whole))
    accuracies = [[t.value for t in search_in(f).open().finished()] for f in (whole, parted)]
    assert accuracies[0] == accuracies[1]
    other = search_in(tmp_path / "other", 2, seed=1)
    run_trials(other)
    assert drawn(other) != first


def test_the_first_trial_has_the_given_settings_if_the_space_holds_them(tmp_path, few):
    few(Setting("training", "batch_size", (16, 32, 64)), Setting("model", "dim", (2, 4)))
    search = search_in(tmp_path / "held", 2, batch_size=16)
    run_trials(search)
    first, second = drawn(search)
    assert first == {"batch_size": 16, "dim": 4} != second
    other = search_in(tmp_path / "other", 1, batch_size=17)
    run_trials(other)
    assert drawn(other)[0]["batch_size"] in (16, 32, 64)


def test_what_a_living_worker_holds_is_left_to_it(tmp_path):
    search = search_in(tmp_path, 2)
    shared, space = search.open(), distributions_of(search.varied)
    with alive(tmp_path) as one, alive(tmp_path) as other:
        first, second = (shared.claim(space, 2, worker) for worker in (one, other))
        assert first.params != second.params
        assert search.open().claim(space, 2, other) is None
        shared.study.tell(first, 0.5)
    assert [t.params for t in shared.finished()] == [first.params]
    with alive(tmp_path) as one:
        again = search.open().claim(space, 2, one)
    assert again.params == second.params and not list(tmp_path.glob(".worker-*"))


CLAIMS = """
import sys, time
from pathlib import Path
from optuna.distributions import CategoricalDistribution
from wordwave.search.study import SharedStudy, alive
folder = Path(sys.argv[1])
shared = SharedStudy(folder, {})
space = {name: CategoricalDistribution(range(6)) for name in "ab"}
with alive(folder) as worker:
    while not (folder / "ready").exists() and len([*folder.glob(".worker-*")]) < 3:
        time.sleep(0.02)
    (folder / "ready").touch()
    while trial := shared.claim(space, 30, worker):
        time.sleep(0.1)
        shared.study.tell(trial, trial.params["a"] / 10)
"""


def test_processes_on_one_study_make_its_trials_together_and_none_twice(tmp_path):
    command = [sys.executable, "-c", CLAIMS, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    trials = SharedStudy(tmp_path, {}).finished()
    assert [t.user_attrs["slot"] for t in trials] == list(range(30))
    assert len({tuple(t.params.values()) for t in trials}) == 30
    assert len({t.user_attrs["worker"] for t in trials}) > 1


def test_a_space_that_is_used_up_ends_the_search(tmp_path, few):
    few(Setting("model", "hidden_dim", (3, 4)), Setting("training", "batch_size", (32, 64)))
    search = search_in(tmp_path, 100, epochs=1)
    run_trials(search)
    assert search.total == 4
    assert len({tuple(values.values()) for values in drawn(search)}) == 4


def test_settings_with_which_training_breaks_count_as_a_stopped_trial(tmp_path, few):
    few(Setting("training", "learning_rate", (1e-3, 1e30)))
    search = search_in(tmp_path, 2, precision="fp32")
    run_trials(search)
    broken = next(t for t in search.open().finished() if t.params["learning_rate"] == 1e30)
    assert broken.state.name == "PRUNED" and "lower learning_rate" in broken.user_attrs["stopped"]
    assert [t.params["learning_rate"] for t in search.open().ranked()] == [1e-3]


def test_a_hopeless_trial_is_stopped_early(tmp_path):
    search = search_in(tmp_path, epochs=6, learning_rate=1e-9)
    shared, space = search.open(), distributions_of(search.varied)
    with alive(tmp_path) as worker:
        for _ in range(5):  # before there are five to compare with, none is stopped
            good = shared.claim(space, 99, worker)
            for percent in (17, 34, 50, 67, 84, 100):
                good.report(0.99, percent)
            shared.study.tell(good, 0.99)
        trial = shared.claim(space, 99, worker)
        with pytest.raises(optuna.TrialPruned, match="median"):
            dev_accuracy(search.config, search.parts, trial)
    assert 1 < len(shared.study.trials[trial.number].intermediate_values) < 6


def test_a_search_older_than_a_setting_goes_on_with_its_default(tmp_path):
    search = search_in(tmp_path, 1)
    run_trials(search)
    older = {name: value for name, value in search.fixed.items() if name not in ("beta2", "space")}
    older["pool"] = "paper"  # the former name
    search.open().study.set_user_attr("settings", older)
    assert len(search.open().finished()) == 1
    with pytest.raises(ValueError, match=r"holds a search with beta2 0\.999, here it is 0\.9"):
        search_in(tmp_path, 1, beta2=0.9).open()


def test_other_settings_or_examples_are_refused_once_there_are_trials(tmp_path):
    search = search_in(tmp_path, 1)
    search_in(tmp_path, 1, epochs=9).open()  # nothing was made with these, nothing is lost
    run_trials(search)
    with pytest.raises(ValueError, match="holds a search with epochs 2, here it is 3"):
        search_in(tmp_path, 1, epochs=3).open()
    with pytest.raises(ValueError, match="holds a search with examples"):
        replace(search, parts=Splits(examples(62), examples(16), None)).open()
    search_in(tmp_path, 1, learning_rate=1.0).open()  # the search space varies it
    assert len(search.open().finished()) == 1


def test_a_journal_cut_short_is_mended_and_another_file_is_refused(tmp_path):
    search = search_in(tmp_path, 2)
    run_trials(search)
    journal = tmp_path / "study.journal"
    journal.write_bytes(journal.read_bytes()[:-5])
    run_trials(search)
    assert len(drawn(search)) == 2
    journal.write_text("a poem\n")
    with pytest.raises(ValueError, match="not a journal of optuna"):
        search.open()


def broken_journals(text):
    """A journal with something wrong in it."""
    lines = [json.loads(line) for line in text.splitlines()]
    yield "5\n"
    yield "[" * 100_000 + "\n"
    yield "{}\n"
    yield '{"op_code": 99}\n'
    yield '{"op_code": 4, "worker_id": "x", "study_id": 7}\n'
    for i, line in enumerate(lines):
        wrong = (
            {k: v for k, v in line.items() if k in ("op_code", "worker_id")},
            {**line, "user_attr": {"slot": "x"}} if "slot" in line.get("user_attr", {}) else None,
            {**line, "values": ["x"]} if "values" in line else None,
            {**line, "values": None, "state": 1} if line.get("values") else None,
            {**line, "param_name": "other"} if "param_name" in line else None,
            {**line, "user_attr": {"settings": 5}} if "settings" in str(line) else None,
        )
        for other in wrong:
            if other is not None:
                yield "".join(json.dumps(x) + "\n" for x in [*lines[:i], other, *lines[i + 1 :]])


def test_a_journal_that_makes_no_sense_is_refused_in_one_line(tmp_path):
    search = search_in(tmp_path / "good", 2, epochs=1)
    run_trials(search)
    text = (tmp_path / "good" / "study.journal").read_text()
    bad = search_in(tmp_path / "bad", 2, epochs=1)
    bad.folder.mkdir()
    refusals = []
    for journal in broken_journals(text):
        (bad.folder / "study.journal").write_text(journal)
        try:
            shared = bad.open()
        except ValueError as problem:
            refusals.append(str(problem))
        else:  # what it lacks is not needed, and all that is read of it can be told
            write_files(bad, shared)
    assert len(refusals) >= 15
    assert all("choose another --out" in line and len(line) < 600 for line in refusals)


def test_a_new_command_removes_the_signs_of_dead_workers(tmp_path):
    search = search_in(tmp_path, 1)
    with alive(tmp_path) as worker:
        (tmp_path / f".worker-{'0' * 32}.lock").touch()
        search.open()
        assert [path.name for path in tmp_path.glob(".worker-*")] == [f".worker-{worker}.lock"]
    assert not list(tmp_path.glob(".worker-*"))
