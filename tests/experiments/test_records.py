"""Files of records that are damaged, or of something else, and numbers too large."""

from pathlib import Path

import pytest

from experiments import protocol, records
from experiments.table5 import Table5
from experiments.table6 import Table6
from wordwave.grid import Store

RESULTS = Path(__file__).parents[2] / "results"


def _store(name):
    path = RESULTS / "reproduce" / name
    return Store(path, protocol.KEY, records.is_record, upgrade=records.upgrade)


def stores():
    yield _store("records.jsonl")
    yield _store("words.jsonl")
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
            "correct", "test_macro_f1", "epochs", "cpu_seconds", "words_per_second", "parameters",
            "test_first_release",
        ), name  # fmt: skip
        assert sum(store.is_record({**record, name: value}) for value in BAD) <= 3, name
    assert not store.is_record({})


@pytest.mark.parametrize("line", ["{}", '{"kind": "run"}\n{"kind": "search"}\n{"kind": []}'])
def test_lines_that_are_not_records_are_skipped(line, tmp_path, experiments):
    folder = tmp_path / "reproduce"
    folder.mkdir()
    for name in ("records", "words"):
        content = (RESULTS / f"reproduce/{name}.jsonl").read_bytes()
        (folder / f"{name}.jsonl").write_bytes(content + line.encode() + b"\n")
    _, said, _ = experiments("table2", "--report-only", "--out", tmp_path)
    n = line.count("kind") or 1
    assert said.count(f"{n} line{'s are' if n > 1 else ' is'} not") == 2
    (folder / "records.jsonl").write_text(line + "\n")
    code, _, told = experiments("table2", "--report-only", "--out", tmp_path)
    assert code == 2 and "has no run with these settings" in told


def test_records_of_earlier_versions_are_read_by_the_names_of_today():
    old = {
        "kind": "run",
        "search": {"trials": 5, "pool": "narrow"},
        "how": {"model": {"embedding": "tpe"}, "training": {"warm_up": 0.1}},
        "right": "f",
    }
    new = {
        "kind": "run",
        "search": {"trials": 5, "space": "narrow"},
        "settings": {"model": {"embedding": {"kind": "tpe"}}, "training": {"warmup_fraction": 0.1}},
        "correct": "f",
    }
    assert records.upgrade(old) == new == records.upgrade(new)
    row = "transformer-xl: norm after, rate 0.0018"
    long = records.upgrade_long({"row": row, "dev_surprise": 1.5})
    assert long == {"row": "transformer-xl: post-norm, learning rate 0.0018", "dev_loss": 1.5}
    assert records.upgrade_long(long) == long
    twice = {"config": {"training": {"clip": 1, "max_grad_norm": 1}}}
    assert records.upgrade(twice) == twice  # no record, and no error


HUGE = "1000000000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("table2", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("table4", "--seeds", HUGE), "seeds must be at most"),
        (("fig6", "--seeds", HUGE), "seeds must be at most"),
        (("table2", "--jobs", HUGE), "jobs must be at most 1024"),
        (("table2", "--search-trials", HUGE), "search_trials must be at most 100000"),
        (("fig5", "--rounds", HUGE), "rounds must be at most 1000"),
        (("table5", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("table6", "--estimate-only", "--seeds", HUGE), "seeds must be at most"),
        (("table6", "--jobs", HUGE), "jobs must be at most 1024"),
    ],
)
def test_what_can_never_be_run_is_refused_with_its_limit(words, said, tmp_path, experiments):
    code, _, told = experiments(*words, "--out", tmp_path / "out")
    assert code == 2 and said in told and len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()
