"""Searches: what is varied, who makes which trial, and what a kill leaves."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from wordwave.config_io import flatten, from_dict, read_yaml, to_dict, with_settings
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.embedding.config import IN_ATTENTION, PAPER_EMBEDDINGS
from wordwave.models.config import ENCODERS, ModelConfig
from wordwave.search.spaces import SPACES, Range, Setting, n_combinations, varied
from wordwave.search.trials import (
    SearchPlan,
    best_table,
    dev_score,
    train_trial,
    write_files,
)
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.config import ClassificationConfig, ClassificationTrainingConfig, TextConfig
from wordwave.training.loop import Epoch

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
        model=ModelConfig(dim=4), training=ClassificationTrainingConfig(**{"epochs": 2, **training})
    )
    return SearchPlan(config, "paper", Splits(examples(64), examples(16), None), folder, n_trials)


@pytest.fixture
def few(monkeypatch):
    """Let a search space have just these settings."""

    def space(*settings):
        monkeypatch.setitem(SPACES, "paper", settings)

    return space


def run_trials(search):
    list(search.grid.run_missing(1))


def drawn(search):
    return [result["params"] for result in search.results()]


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
            assert flatten(config)[setting.name] == value
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
    assert search_in(parted, 6).draw(3)  # by a worker that dies
    run_trials(search_in(parted, 6))
    assert len(first) == 2 and drawn(search_in(parted))[:2] == first
    assert drawn(search_in(parted)) == drawn(search_in(whole))
    accuracies = [[*map(dev_score, search_in(f).results())] for f in (whole, parted)]
    assert accuracies[0] == accuracies[1]
    other = search_in(tmp_path / "other", 2, seed=1)
    run_trials(other)
    assert drawn(other) != first


@pytest.mark.parametrize(("is_cut", "share"), [(True, 0.1), (False, None)])
def test_the_best_settings_name_the_share_that_was_cut(tmp_path, is_cut, share):
    search = search_in(tmp_path, 1)
    search = replace(search, parts=replace(search.parts, dev_is_cut=is_cut))
    run_trials(search)
    write_files(search)
    assert read_yaml(tmp_path / "best.yaml")["data"]["dev_share"] == share


def test_the_first_trial_has_the_given_settings_if_the_space_holds_them(tmp_path, few):
    few(Setting("batch_size", (16, 32, 64)), Setting("dim", (2, 4)))
    search = search_in(tmp_path / "held", 2, batch_size=16)
    run_trials(search)
    first, second = drawn(search)
    assert first == {"batch_size": 16, "dim": 4} != second
    other = search_in(tmp_path / "other", 1, batch_size=17)
    run_trials(other)
    assert drawn(other)[0]["batch_size"] in (16, 32, 64)


def test_what_is_drawn_for_a_trial_is_kept_and_not_drawn_for_another(tmp_path):
    search = search_in(tmp_path, 2)
    second, first = search.draw(2), search.draw(1)  # the given settings are left for the first one
    assert first != second and search.results() == []
    assert [search_in(tmp_path, 2).draw(n) for n in (1, 2)] == [first, second]
    run_trials(search)
    assert drawn(search) == [first, second]


DRAWS = """
import sys, time
from pathlib import Path
sys.path += sys.argv[2:]
from test_search import SPACES, Setting, search_in
values = (1, 2, 3, 4, 5, 6)
SPACES["paper"] = tuple(Setting(name, values) for name in ("patience", "batch_size"))
folder = Path(sys.argv[1])
search = search_in(folder, 30)
while len(list(folder.glob("ready-*"))) < 3:
    (folder / f"ready-{sys.argv[3]}").touch()
    time.sleep(0.02)
for number in range(1, 31):
    with search.store.claimed(search._key(number)) as is_ours:
        if is_ours:
            params = search.draw(number)
            curve, by = [[100, params["patience"] / 10]], sys.argv[3]
            key = search._key(number)
            search.store.append(
                {**key, "params": params, "curve": curve, "stopped": "", "seconds": 0.1, "by": by}
            )
            time.sleep(0.1)
"""


def test_processes_in_one_folder_make_its_trials_together_and_none_twice(tmp_path, few):
    command = [sys.executable, "-c", DRAWS, str(tmp_path), str(Path(__file__).parent)]
    processes = [subprocess.Popen([*command, str(i)]) for i in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    values = (1, 2, 3, 4, 5, 6)
    few(*(Setting(name, values) for name in ("patience", "batch_size")))
    results = search_in(tmp_path, 30).results()
    assert [result["trial"] for result in results] == list(range(1, 31))
    assert len({tuple(result["params"].values()) for result in results}) == 30
    assert len({result["by"] for result in results}) > 1


def test_a_space_that_is_used_up_ends_the_search(tmp_path, few):
    few(Setting("hidden_dim", (3, 4)), Setting("batch_size", (32, 64)))
    search = search_in(tmp_path, 100, epochs=1)
    run_trials(search)
    assert search.total == 4
    assert len({tuple(values.values()) for values in drawn(search)}) == 4


def test_settings_with_which_training_breaks_count_as_a_stopped_trial(tmp_path, few):
    few(Setting("learning_rate", (1e-3, 1e30)))
    search = search_in(tmp_path, 2, precision="fp32")
    run_trials(search)
    broken = next(r for r in search.results() if r["params"]["learning_rate"] == 1e30)
    assert "lower learning_rate" in broken["stopped"]
    assert [r["params"]["learning_rate"] for r in search.ranked()] == [1e-3]


def test_a_hopeless_trial_is_stopped_early(tmp_path):
    search = search_in(tmp_path, 6, epochs=6, learning_rate=1e-9)
    curve = [[percent, 0.99] for percent in (17, 34, 50, 67, 84, 100)]
    for number in range(1, 6):  # before there are five to compare with, none is stopped
        result = {"params": search.draw(number), "curve": curve, "stopped": "", "seconds": 1.0}
        search.store.append(search._key(number) | result)
    study = search.study()
    trial = study.ask()
    with pytest.raises(optuna.TrialPruned, match="median"):
        train_trial(search.config, search.parts, trial)
    assert 1 < len(study.trials[trial.number].intermediate_values) < 6


def test_more_epochs_than_percents_are_reported_once_a_percent(tmp_path, few, recwarn):
    few(Setting("batch_size", (64,)))
    search = search_in(tmp_path, 1, epochs=150, patience=0)
    run_trials(search)
    assert [str(warning.message) for warning in recwarn] == []
    (result,) = search.results()
    assert [percent for percent, _ in result["curve"]] == list(range(1, 101))
    assert result["epochs"] == best_table(search.ranked()).rows[0][2] == 150


def test_of_each_percent_the_last_epoch_counts_and_of_an_early_end_the_last(tmp_path, monkeypatch):
    epochs = iter(range(1, 6))
    job = SimpleNamespace(
        training=lambda: SimpleNamespace(n_steps=250, batches=lambda _: [0]),
        run=lambda _: (Epoch(n, n, 0.5, {"accuracy": n / 10}, is_best=True) for n in epochs),
        best_scores=lambda _: {"accuracy": 0.5},
        task=SimpleNamespace(first_score="accuracy"),
    )
    monkeypatch.setattr(ClassificationJob, "prepare", lambda *_: job)
    search, study = search_in(tmp_path), optuna.create_study()
    trial = study.ask()
    assert train_trial(search.config, search.parts, trial) == 0.5
    # 250 epochs: the first two are 1%, the third to fifth are 2%.
    assert study.trials[0].intermediate_values == {1: 0.2, 2: 0.5}


@pytest.mark.parametrize(
    ("settings", "percents", "n_epochs"),
    [
        ({"eval_every": 3, "max_steps": 10}, [30, 60, 90, 100], 0),
        ({"eval_every": 3, "grad_accumulation": 2}, [19, 38, 57, 75, 94, 100], 2),
        ({"grad_accumulation": 3}, [50, 100], 2),
        ({"eval_every": 1, "epochs": 20}, list(range(1, 101)), 20),
    ],
)
def test_evaluations_within_an_epoch_are_reported(tmp_path, few, settings, percents, n_epochs):
    few(Setting("batch_size", (4,)))  # 16 batches an epoch
    search = search_in(tmp_path, 1, **settings)
    run_trials(search)
    (result,) = search.results()  # which is read back
    assert [percent for percent, _ in result["curve"]] == percents
    assert result["epochs"] == best_table(search.ranked()).rows[0][2] == n_epochs


def of_a_bag(folder, n_trials, **settings):
    """A search whose heads learn nothing, beside n-grams that learn all."""
    given = {"dim": 4, "epochs": 2, "learning_rate": 1e-9, **settings}
    config = with_settings(ClassificationConfig(), **given)
    return replace(search_in(folder, n_trials), config=config)


def test_a_trial_of_a_bag_is_scored_with_its_ngrams_as_a_training_is(tmp_path, few):
    few(Setting("batch_size", (16, 32)))
    search = of_a_bag(tmp_path, 2)
    run_trials(search)
    for result in search.results():
        assert dev_score(result) == 1.0 > max(accuracy for _, accuracy in result["curve"])
    assert best_table(search.ranked()).rows[0][1] == 1.0


def test_trials_are_ranked_by_the_score_that_is_asked_for(tmp_path, few):
    few(Setting("batch_size", (16, 32)))
    search = of_a_bag(tmp_path, 2, select="likelihood")
    run_trials(search)
    scores = [dev_score(result) for result in search.ranked()]
    assert 0 > scores[0] >= scores[1]
    for result in search.results():
        job = ClassificationJob(with_settings(search.config, **result["params"]))
        training = job.prepare(search.parts).training()
        list(job.run(training))
        assert job.best_scores(training)["likelihood"] == pytest.approx(dev_score(result), 1e-3)
    write_files(search)
    assert (tmp_path / "trials.csv").read_text().startswith("trial,dev_likelihood,")
    assert "dev likelihood -0." in (tmp_path / "best.yaml").read_text()


def test_trials_of_an_earlier_version_are_not_mixed_with_those_of_another_score(tmp_path, few):
    few(Setting("batch_size", (16, 32)))
    for name, select in (("a", "accuracy"), ("b", "macro-f1")):
        search = of_a_bag(tmp_path / name, 1, select=select)
        run_trials(search)
        (result,) = search.results()
        del result["score"]
        search.store.path.write_text(json.dumps(result) + "\n")
        if select == "accuracy":
            assert dev_score(search.ranked()[0]) == max(share for _, share in result["curve"])
        else:
            with pytest.raises(ValueError, match="ranked by accuracy, not by macro-f1: choose"):
                search.results()


def test_a_search_older_than_a_setting_goes_on_with_its_default(tmp_path):
    search = search_in(tmp_path, 1)
    run_trials(search)
    records = [json.loads(line) for line in search.store.path.read_text().splitlines()]
    for record in records:
        del record["search"]["beta2"]
        record["search"]["pool"] = record["search"].pop("space")  # the former name
    search.store.path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert len(search.results()) == 1 and not search.grid.missing()
    with pytest.raises(ValueError, match=r"holds a search with beta2 0\.999, here it is 0\.9"):
        search_in(tmp_path, 1, beta2=0.9).results()


def test_a_search_with_the_former_default_of_ngrams_goes_on(tmp_path):
    search = search_in(tmp_path, 1)
    config = with_settings(ClassificationConfig(), dim=4, epochs=1)
    search = replace(search, config=config)
    run_trials(search)
    text = search.store.path.read_text()
    assert '"ngrams": null' in text
    search.store.path.write_text(text.replace('"ngrams": null', '"ngrams": true'))
    for settings in ({}, {"ngrams": True}):
        again = replace(search, config=with_settings(config, **settings))
        assert len(again.results()) == 1 and not again.grid.missing()
    with pytest.raises(ValueError, match="holds a search with ngrams None, here it is False"):
        replace(search, config=with_settings(config, ngrams=False)).results()


def test_other_settings_or_examples_are_refused_once_there_are_trials(tmp_path):
    search = search_in(tmp_path, 1)
    search_in(tmp_path, 1, epochs=9).draw(1)  # nothing was made with these, nothing is lost
    run_trials(search)
    with pytest.raises(ValueError, match="holds a search with epochs 2, here it is 3"):
        search_in(tmp_path, 1, epochs=3).results()
    with pytest.raises(ValueError, match="holds a search with examples"):
        _ = replace(search, parts=Splits(examples(62), examples(16), None)).grid
    assert len(search_in(tmp_path, 1, learning_rate=1.0).results()) == 1  # the space varies it


def test_what_is_no_result_of_this_search_is_skipped_or_refused(tmp_path):
    search = search_in(tmp_path, 2, epochs=1)
    run_trials(search)
    result = next(r for r in search.store.records() if r["kind"] == "result")
    wrong = [("curve", [[100, 1.5]]), ("curve", []), ("trial", 0), ("params", []), ("search", 5)]
    for name, value in [*wrong, ("stopped", None)]:
        search.store.path.write_text(json.dumps(result | {name: value}) + "\n")
        assert search.results() == [] and "1 line is not a record" in search.store.skipped()
    for params in ({}, {**result["params"], "batch_size": 5}, {**result["params"], "other": 1}):
        search.store.path.write_text(json.dumps(result | {"params": params}) + "\n")
        with pytest.raises(ValueError, match="outside the search space: choose another --out"):
            search.results()


JOURNAL = Path(__file__).parents[1] / "old_runs" / "study.journal"
"""Three trials in the file that searches wrote before they had records."""


def old_search(folder, n_trials):
    """A search that was begun by an earlier version."""
    settings = json.loads(JOURNAL.read_text().splitlines()[1])["user_attr"]["settings"]
    common = {k: v for k, v in settings.items() if k not in ("space", "examples")}
    config = with_settings(search_in(folder).config, **common)
    return replace(search_in(folder, n_trials), config=config)


def test_a_search_of_an_earlier_version_is_resumed(tmp_path):
    journal = JOURNAL.read_bytes()
    (tmp_path / "study.journal").write_bytes(journal + b'{"op_code": 2')  # cut short by a kill
    finished, search = old_search(tmp_path, 3), old_search(tmp_path, 4)
    assert [result["trial"] for result in search.results()] == [1, 2, 3]
    before = drawn(search)
    assert not finished.grid.missing() and len(search.ranked()) == 3
    run_trials(finished)
    assert [path.name for path in tmp_path.iterdir()] == ["study.journal"]  # reading writes nothing
    assert before[0]["learning_rate"] == 1e-4 and len({str(params) for params in before}) == 3
    run_trials(search)
    assert drawn(search)[:3] == before and len(drawn(search)) == 4
    write_files(search)
    assert (tmp_path / "trials.csv").read_text().count("\n") == 1 + 4
    assert (tmp_path / "study.journal").read_bytes() == journal + b'{"op_code": 2'


def broken_journals(text):
    """A journal with something wrong in it."""
    lines = [json.loads(line) for line in text.splitlines()]
    yield "a poem\n"
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
    refusals = []
    for i, journal in enumerate(broken_journals(JOURNAL.read_text())):
        bad = old_search(tmp_path / str(i), 3)
        bad.folder.mkdir()
        (bad.folder / "study.journal").write_text(journal)
        try:
            bad.results()
        except ValueError as problem:
            refusals.append(str(problem))
        else:  # what it lacks is not needed, and all that is read of it can be told
            write_files(bad)
    assert len(refusals) >= 15
    assert all("choose another --out" in line and len(line) < 600 for line in refusals)
