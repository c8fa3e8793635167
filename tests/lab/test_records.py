"""Records of the laboratory that are damaged, of something else, or of an earlier version."""

import json
import sys
from pathlib import Path

import pytest

from wordwave.grid import Store
from wordwave.lab.laboratory import KEY, Budget, Laboratory, is_record
from wordwave.lab.report import write_files

RESULTS = Path(__file__).parents[2] / "results"
PROBE = ("probe", "--tasks", "precedence", "--encoders", "fasttext", "--embeddings", "none")
PROBE += ("complex-order", "--dim", "8", "--n-train", "16", "--n-test", "8", "--epochs", "1")
LENGTHS = ((10, 20), (40, 60), (150, 200))


@pytest.fixture
def cli(monkeypatch, capsys):
    """Exit code, stdout, and the one line of an error."""

    def run(*words):
        from wordwave.cli import main

        monkeypatch.setattr(sys, "argv", ["wordwave", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        assert code in (0, 2) and len(said.err.splitlines()) == (code == 2)
        return code, said.out, said.err

    return run


def test_all_records_of_the_results_are_read_and_have_todays_keys():
    store = Store(RESULTS / "probe/records.jsonl", KEY, is_record)
    records = store.records()
    assert len(records) > 100 and store.skipped() == ""
    laboratory = Laboratory(Budget(), LENGTHS)
    assert all(laboratory.ran(record, "plain") for record in records)
    assert not laboratory.ran(records[0], "long")
    assert not Laboratory(Budget(epochs=9), LENGTHS).ran(records[0], "plain")


@pytest.mark.slow
def test_every_encoder_is_trained_on_tasks_of_sentences_and_of_words(cli, tmp_path):
    grid = ("--tasks", "precedence", "copy", "--encoders", "fasttext", "cnn", "lstm", "transformer")
    sizes = ("--embeddings", "complex-order", "--lengths", "10-12", "--seeds", "1", "--jobs", "1")
    code, _, err = cli(*PROBE[:1], *grid, *sizes, *PROBE[PROBE.index("--dim") :], "--out", tmp_path)
    assert code == 0, err
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    trained = {(record["task"], record["encoder"]) for record in records}
    of_words = {("copy", encoder) for encoder in ("lstm", "transformer")}
    assert trained == {("precedence", encoder) for encoder in grid[4:]} | of_words


@pytest.mark.parametrize(
    ("folder", "laboratory", "recipe"),
    [
        ("probe", Laboratory(Budget(), LENGTHS), "plain"),
        (
            "probe-long",
            Laboratory(
                Budget(dim=64, epochs=40, n_test=400), (*LENGTHS, (800, 1000), (1900, 2000))
            ),
            "long",
        ),
    ],
)
def test_tables_of_the_results_follow_from_their_records(folder, laboratory, recipe, tmp_path):
    records = Store(RESULTS / folder / "records.jsonl", KEY, is_record).records()
    for path in write_files([r for r in records if laboratory.ran(r, recipe)], tmp_path):
        assert path.read_bytes() == (RESULTS / folder / path.name).read_bytes(), path.name


BAD = (None, "x", [], {}, -1, float("nan"), 10**400, True)


def test_a_record_with_a_field_that_is_missing_or_of_another_type_is_none():
    record = Store(RESULTS / "probe/records.jsonl", KEY, is_record).records()[0]
    needed = [name for name in record if not is_record({**record, name: object()})]
    assert len(needed) >= 5
    for name in needed:
        assert not is_record({k: v for k, v in record.items() if k != name}), name
        assert sum(is_record({**record, name: value}) for value in BAD) <= 3, name
    assert not is_record({})


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """Two records of the laboratory."""
    from wordwave.cli.probe import probe

    folder = tmp_path_factory.mktemp("probed")
    probe([*PROBE[1:], "--jobs", "1", "--out", str(folder)], "wordwave probe")
    return (folder / "records.jsonl").read_text()


def damaged(record):
    """What must not be taken for a record."""
    yield from ({}, [], 5, {"seed": 10**15}, {**record, "seed": "x"})
    for name in ("accuracy", "parameters", "embedding", "encoder", "task", "budget", "lengths"):
        yield {k: v for k, v in record.items() if k != name}
        yield from ({**record, name: value} for value in ([], None, -1, 10**400, True))
    yield {**record, "accuracy": {"short": 0.5}}
    yield {**record, "accuracy": dict.fromkeys(record["accuracy"], "x")}
    yield {**record, "sensitivity": {"marked": [1.0], "others": []}}


def test_probe_reports_what_it_can_read_and_says_what_it_skips(probed, tmp_path, cli):
    path = tmp_path / "records.jsonl"
    record = json.loads(probed.splitlines()[0])
    lines = list(map(json.dumps, damaged(record)))
    record["seed"] = record["how"]["training"]["seed"] = 10**15
    far = json.dumps(record)  # one with 10**6 took a minute and gigabytes
    path.write_text("\n".join(["[" * 100_000, "not JSON", *lines, far]) + "\n" + probed)
    code, said, _ = cli(*PROBE, "--report-only", "--out", tmp_path)
    assert code == 0 and "Written:" in said
    skipped = f"{len(lines) + 2} lines are not records of this experiment, skipped"
    assert skipped in " ".join(said.split())
    assert (tmp_path / "probe.csv").read_text().count("\n") == 1 + 3 * 2


def test_a_damaged_record_is_made_again(probed, tmp_path, cli):
    path = tmp_path / "records.jsonl"
    first, second = map(json.loads, probed.splitlines())
    del first["accuracy"]
    path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    code, said, told = cli(*PROBE, "--report-only", "--out", tmp_path)
    assert code == 2 and "Incomplete: 1 of 2 cells." in said and "Incomplete: 1 of 2" in told
    assert "Incomplete: 1 of 2 cells." in (tmp_path / "probe.md").read_text()
    code, said, _ = cli(*PROBE, "--jobs", "1", "--out", tmp_path)
    assert code == 0 and "Incomplete" not in said
    assert "Incomplete" not in (tmp_path / "probe.md").read_text()
    assert len(path.read_text().splitlines()) == 3


HUGE = "1000000000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PROBE, "--seeds", HUGE), "seeds must be at most 50,000 for 2 runs each"),
        ((*PROBE, "--seeds", "100000000000000000000"), "seeds must be at most"),
        ((*PROBE, "--jobs", HUGE), "jobs must be at most 1024"),
    ],
)
def test_a_grid_that_can_never_be_run_is_refused_with_its_limit(words, said, tmp_path, cli):
    code, _, told = cli(*words, "--out", tmp_path / "out")
    assert code == 2 and said in told and not (tmp_path / "out").exists()
