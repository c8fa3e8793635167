"""Files of records and journals that are damaged, or were never ours, and numbers too large."""

import json
import sys
from pathlib import Path

import pytest

from experiments import protocol, records
from experiments.table5 import Table5
from experiments.table6 import Table6
from wordwave.grid import Store
from wordwave.lab import laboratory
from wordwave.search import compare as comparison

RESULTS = Path(__file__).parents[2] / "results"
PROBE = ("probe", "--tasks", "precedence", "--encoders", "fasttext", "--embeddings", "none")
PROBE += ("complex-order", "--dim", "8", "--n-train", "16", "--n-test", "8", "--epochs", "1")


@pytest.fixture
def wordwave(monkeypatch, capsys):
    """Exit code, what is said, and the one line of a refusal."""

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


def stores():
    yield Store(RESULTS / "probe/records.jsonl", laboratory.KEY, laboratory.is_record)
    yield Store(RESULTS / "reproduce/records.jsonl", protocol.KEY, records.is_record)
    yield Store(RESULTS / "reproduce/words.jsonl", protocol.KEY, records.is_record)
    yield Table5(RESULTS / "table5").store
    yield Table6(RESULTS / "table6").store


def test_all_records_of_the_results_are_read():
    for store in stores():
        assert store.records() and store.skipped() == "", store.path


BAD = (None, "x", [], {}, -1, float("nan"), 10**400, True)


@pytest.mark.parametrize("store", list(stores()), ids=lambda store: store.path.parent.name)
def test_a_record_with_a_field_that_is_missing_or_of_another_kind_is_none(store):
    record = store.records()[0]
    record |= {name: record[name][:5] for name in ("words", "counts", "delta") if name in record}
    read = [name for name in record if not store.is_record({**record, name: object()})]
    assert len(read) >= 5  # what is read is checked
    for name in read:
        assert not store.is_record({k: v for k, v in record.items() if k != name}) or name in (
            "right", "test_macro_f1", "epochs", "cpu_seconds", "words_per_second", "parameters",
            "test_first_release",
        ), name  # fmt: skip
        assert sum(store.is_record({**record, name: value}) for value in BAD) <= 3, name
    assert not store.is_record({})


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


def test_probe_reports_what_it_can_read_and_says_what_it_skips(probed, tmp_path, wordwave):
    path = tmp_path / "records.jsonl"
    record = json.loads(probed.splitlines()[0])
    lines = list(map(json.dumps, damaged(record)))
    record["seed"] = record["how"]["training"]["seed"] = 10**15
    far = json.dumps(record)  # one with 10**6 took a minute and gigabytes
    path.write_text("\n".join(["[" * 100_000, "not JSON", *lines, far]) + "\n" + probed)
    code, said, _ = wordwave(*PROBE, "--report-only", "--out", tmp_path)
    assert code == 0 and "Written:" in said
    skipped = f"{len(lines) + 2} lines are not records of this experiment, skipped"
    assert skipped in " ".join(said.split())
    assert (tmp_path / "probe.csv").read_text().count("\n") == 1 + 3 * 2


def test_a_damaged_record_is_made_again(probed, tmp_path, wordwave):
    path = tmp_path / "records.jsonl"
    first, second = map(json.loads, probed.splitlines())
    del first["accuracy"]
    path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    code, said, told = wordwave(*PROBE, "--report-only", "--out", tmp_path)
    assert code == 2 and "Incomplete: 1 of 2 cells." in said and "Incomplete: 1 of 2" in told
    assert "Incomplete: 1 of 2 cells." in (tmp_path / "probe.md").read_text()
    code, said, _ = wordwave(*PROBE, "--jobs", "1", "--out", tmp_path)
    assert code == 0 and "Incomplete" not in said
    assert "Incomplete" not in (tmp_path / "probe.md").read_text()
    assert len(path.read_text().splitlines()) == 3


def test_compare_skips_what_is_no_record():
    record = {
        "encoder": "cnn", "embedding": "none", "seed": 0, "test_accuracy": 0.5, "dev_accuracy": 0.5,
        "test_macro_f1": 0.5, "parameters": 1, "epoch_seconds": 1.0, "words_per_second": 1,
        "predictions_per_second": 1,
    }  # fmt: skip
    assert comparison.is_record(record)
    for name in record:
        assert not comparison.is_record({k: v for k, v in record.items() if k != name})
        assert sum(comparison.is_record({**record, name: value}) for value in BAD) <= 1


@pytest.mark.parametrize("line", ["{}", '{"kind": "run"}\n{"kind": "search"}\n{"kind": []}'])
def test_reproduce_skips_what_is_no_record(line, tmp_path, wordwave):
    folder = tmp_path / "reproduce"
    folder.mkdir()
    for name in ("records", "words"):
        content = (RESULTS / f"reproduce/{name}.jsonl").read_bytes()
        (folder / f"{name}.jsonl").write_bytes(content + line.encode() + b"\n")
    _, said, _ = wordwave("reproduce", "table2", "--report-only", "--out", tmp_path)
    n = line.count("kind") or 1
    assert said.count(f"{n} line{'s are' if n > 1 else ' is'} not") == 2
    (folder / "records.jsonl").write_text(line + "\n")
    code, _, told = wordwave("reproduce", "table2", "--report-only", "--out", tmp_path)
    assert code == 2 and "holds no training" in told


HUGE = "1000000000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PROBE, "--seeds", HUGE), "seeds must be at most 50,000 for 2 runs each"),
        ((*PROBE, "--seeds", "100000000000000000000"), "seeds must be at most"),
        ((*PROBE, "--jobs", HUGE), "jobs must be at most 1024"),
        (("compare", "--seeds", HUGE), "seeds must be at most"),
        (("compare", "--jobs", HUGE), "jobs must be at most 1024"),
        (("search", "--trials", HUGE), "trials must be at most 100000"),
        (("search", "--jobs", HUGE), "jobs must be at most 1024"),
        (("reproduce", "table2", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("reproduce", "table4", "--seeds", HUGE), "seeds must be at most"),
        (("reproduce", "fig6", "--seeds", HUGE), "seeds must be at most"),
        (("reproduce", "table2", "--jobs", HUGE), "jobs must be at most 1024"),
        (("reproduce", "table2", "--search-trials", HUGE), "search_trials must be at most 100000"),
        (("reproduce", "fig5", "--rounds", HUGE), "rounds must be at most 1000"),
        (("reproduce", "table5", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("reproduce", "table6", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("reproduce", "table6", "--jobs", HUGE), "jobs must be at most 1024"),
    ],
)
def test_what_can_never_be_run_is_refused_with_its_limit(words, said, tmp_path, wordwave):
    code, _, told = wordwave(*words, "--out", tmp_path / "out")
    assert code == 2 and said in told and not (tmp_path / "out").exists()
