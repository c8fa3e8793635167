"""`python -m experiments` on made-up data: runs, resumes, shares a store, and shows."""

import json
import subprocess
import sys
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from experiments.cells import TrainingCell
from experiments.cluster import start_workers_on
from experiments.command_line import Options, main
from experiments.protocol import KEY, Protocol
from experiments.timing import EpochTiming, Estimate
from experiments.training_runs import CellRun
from wordwave.grid import Grid, Store
from wordwave.tasks.run import job_class


@pytest.fixture
def command(tmp_path, tiny_home, tiny_recipes, monkeypatch, capsys):
    """Run it in this process, and give what it says and its records."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words, jobs=1):
        base = ["--out", str(tmp_path / "out"), "--recipes", str(tiny_recipes)]
        main([*words, *base, "--jobs", str(jobs)], prog="python -m experiments")
        path = tmp_path / "out" / "reproduce" / "records.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return capsys.readouterr().out, [json.loads(line) for line in lines]

    return run


@pytest.mark.slow
def test_every_row_of_table_2_is_trained(command):
    _, records = command("table2", "--datasets", "trec", "--rows", "paper", "matched")
    assert len(records) == 36


def test_a_table_is_made_and_goes_on_where_it_stopped(command, tmp_path):
    narrow = ["--datasets", "cr", "--encoders", "fasttext", "--embeddings", "none", "tpe"]
    rows = ["--rows", "paper"]
    said, records = command("table2", *narrow, *rows, "--folds", "1")
    assert "2 of 2 trainings are missing: about" in said and len(records) == 2
    said, records = command("table2", *narrow, *rows, "--folds", "2")
    assert "2 of 4 trainings are missing" in said and len(records) == 4
    said, again = command("table2", *narrow, *rows, "--folds", "2")
    assert "missing" not in said and again == records
    assert "cr 2" in (tmp_path / "out/reproduce/table2.md").read_text()


def test_an_estimate_trains_nothing(command):
    said, records = command("table2", "--datasets", "trec", "--rows", "paper", "--estimate-only")
    assert "22 of 22 trainings are missing" in said and records == []


def test_an_old_flag_works_and_is_warned_of(tmp_path, capsys):
    words = ["table2", "--search-pool", "wide", "--report-only", "--out", str(tmp_path)]
    with pytest.raises(ValueError, match="records"):
        main(words, prog="python -m experiments")
    assert capsys.readouterr().err == "wordwave: --search-pool is now --search-space\n"


def test_rows_of_equal_size_and_anchors_stand_beside(command):
    said, records = command(
        "table2", "--datasets", "trec", "--encoders", "lstm", "--embeddings", "none",
        "--rows", "matched",
    )  # fmt: skip
    assert [r["variant"] for r in records] == ["matched"] and "parameter-matched" in said


def test_quick_is_small_marked_and_kept_apart(command, tmp_path):
    said, records = command("table2", "--quick", "--datasets", "sst2", "--encoders", "fasttext",
                            "--embeddings", "none", "--rows", "paper", "matched")  # fmt: skip
    assert [r["dataset"] for r in records] == ["sst2-sentences"]
    assert records[0]["budget"] == "quick" and "QUICK" in said
    with pytest.raises(ValueError, match="no run with these settings"):
        command("table2", "--report-only")
    assert (tmp_path / "out/reproduce/table2-quick.csv").exists()


def test_every_target_is_made(command, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.sensitive_words.valences", lambda: {"good": 2.0})
    small = ["--encoders", "fasttext", "cnn", "--embeddings", "none", "complex-order"]
    sentences = ["--datasets", "sst2-sentences"]
    assert "Ablation" in command("table4", *sentences)[0]
    assert "GOOD" in command("table7", *sentences, *small)[0]
    said, records = command("fig5", "--datasets", "trec", *small, "--rounds", "2")
    assert "1.00×" in said and records[-1]["kind"] == "timing"
    assert command("fig5", "--datasets", "trec", *small, "--rounds", "2")[1] == records
    for target in ("fig1", "fig6", "table3", "report"):
        command(target, *sentences, *small)
    made = {p.name for p in (tmp_path / "out/reproduce").iterdir()}
    assert {"fig1.png", "fig5.svg", "fig6.png", "table3.tex", "table4.csv", "table7.md"} <= made
    assert "Which claims of the paper hold" in (tmp_path / "out/REPORT.md").read_text()
    words = (tmp_path / "out/reproduce/words.jsonl").read_text().splitlines()
    assert len(words) == 2 and "good" in json.loads(words[0])["words"]


def test_a_training_for_its_words_is_one_of_table_2(command, monkeypatch):
    monkeypatch.setattr("experiments.sensitive_words.valences", lambda: {"good": 2.0})
    narrow = ["--datasets", "sst2-sentences", "--encoders", "fasttext"]
    _, kept = command("table7", *narrow)
    assert [r["kind"] for r in kept] == ["run"] and "delta" not in kept[0]
    said, records = command("table2", *narrow, "--embeddings", "complex-order", "--rows", "paper")
    assert "missing" not in said and records == kept


def test_searches_choose_the_settings_that_cells_use(command):
    pytest.importorskip("optuna")
    flags = ["--datasets", "trec", "--encoders", "fasttext", "--embeddings", "none"]
    flags += ["--rows", "paper", "--search-trials", "2"]
    said, records = command("table2", *flags)
    *searches, run = records
    assert [s["kind"] for s in searches] == ["search"] * 5 and run["kind"] == "run"
    assert [len(s["trials"]) for s in searches] == [2] * 5
    own = next(s for s in searches if s["embedding"] == "none")
    tried = [t["settings"] for t in own["trials"]]
    assert any(
        all(values.items() <= run["config"][part].items() for part, values in settings.items())
        for settings in tried
    )
    assert "best of 2 trials" in said
    assert command("table2", *flags)[1] == records
    said, _ = command("table2", *flags[:4], "--embeddings", "none", "--rows", "paper",
                      "--search-trials", "3", "--estimate-only")  # fmt: skip
    assert "5 searches of 3 trials are missing" in said and "1 of 1 trainings" in said
    said, _ = command("fig5", *flags[:-1], "3", "--estimate-only")
    assert "5 searches of 3 trials are missing" in said and "6 measurements" in said


def test_a_report_of_nothing_is_refused(command):
    for target in ("report", "table3"):
        with pytest.raises(ValueError, match="give the --search flags of its runs"):
            command(target)


def test_a_table_is_shown_though_some_of_it_failed(command, monkeypatch, tmp_path):
    from experiments.training_runs import CellRun

    run = CellRun.__call__

    def unlucky(self, cell):
        if cell.embedding == "tpe":
            raise ValueError("the loss is nan")
        return run(self, cell)

    monkeypatch.setattr(CellRun, "__call__", unlucky)
    with pytest.raises(ValueError, match="1 of 2 could not be run"):
        command("table2", "--datasets", "cr", "--encoders", "fasttext", "--folds", "1",
                "--embeddings", "none", "tpe", "--rows", "paper")  # fmt: skip
    assert "none" in (tmp_path / "out/reproduce/table2.md").read_text()


def test_wrong_numbers_are_refused():
    for wrong, rule in (
        ({"folds": 11}, "at most 10"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"search_trials": -1}, "at least 0"),
        ({"encoders": ()}, "at least one"),
        ({"address": "here"}, "needs --backend"),
    ):
        with pytest.raises(ValueError, match=rule):
            Options("table2", **wrong).check()


def test_targets_know_their_cells():
    assert len(Options("table2", folds=1).cells()) == 39 * 6
    assert {c.dataset for c in Options("table4").cells()} == {"sst2"}
    quick = Options("table2", quick=True, seeds=5).cells()
    assert len(quick) == 25 * 6 and {c.seed for c in quick} == {0}
    assert len(Options("fig6").cells()) == 4


def test_times_are_guessed_from_like_records(tiny_home, tiny_recipes):
    protocol = Protocol(folder=tiny_recipes)
    cell = TrainingCell("cr", "fasttext", "none")
    record = {**protocol.key(cell), "cpu_seconds": 96.0, "seconds": 200, "epochs": 2,
              "words_per_second": 50}  # fmt: skip
    estimate = Estimate(protocol, [record])
    assert estimate.seconds(cell) == 100
    assert estimate.seconds(TrainingCell("cr", "fasttext", "tpe")) == 100
    other = TrainingCell("trec", "fasttext", "none")
    words = estimate.words("trec")
    assert estimate.seconds(other) == pytest.approx(4 + 2 * words / 50)
    assert estimate.seconds(TrainingCell("trec", "cnn", "none")) > 4  # measured in a few steps
    assert estimate.seconds(TrainingCell("trec", "tfidf-lr", "none")) == 10


def test_timing_measures_in_turns(tiny_home, tiny_recipes):
    kinds = (("fasttext", "none"), ("cnn", "tpe"))
    timing = EpochTiming(Protocol(folder=tiny_recipes), "trec", kinds, rounds=2, steps=3)
    *steps, record = timing.run()
    assert steps == [None] * timing.n_measurements
    assert [len(row["words_per_second"]) for row in record["measured"]] == [2, 2]
    assert record["words_per_epoch"] > 0


WRITES = """
import sys
from pathlib import Path
from wordwave.grid import Store
store = Store(Path(sys.argv[1]), ["n"])
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    store.append({"n": n, "text": "x" * 3000})
"""


def test_two_processes_lose_and_double_no_record(tmp_path):
    path = tmp_path / "records.jsonl"
    spans = (("0", "80"), ("40", "120"))
    command = [sys.executable, "-c", WRITES, str(path)]
    processes = [subprocess.Popen([*command, *span]) for span in spans]
    assert [p.wait(timeout=60) for p in processes] == [0, 0]
    numbers = Counter(json.loads(line)["n"] for line in path.read_text().splitlines())
    assert numbers == dict.fromkeys(range(120), 1)


def double(n):
    return {"n": n, "value": 2 * n}


def key_of(n):
    return {"n": n}


def half(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    return {"n": n, "value": n // 2}


def test_a_cell_that_cannot_be_run_does_not_stop_the_others(tmp_path):
    store = Store(tmp_path / "records.jsonl", ["n"])
    with pytest.raises(ValueError, match=r"3 of 6 could not be run, .* the first, 1: 1 is odd"):
        list(Grid(store, range(6), key_of, half).run_missing(1))
    assert [r["n"] for r in store.records()] == [0, 2, 4]


def test_what_another_process_has_stored_meanwhile_is_not_run_again(tmp_path):
    store = Store(tmp_path / "records.jsonl", ["n"])
    results = Grid(store, range(12), key_of, double).run_missing(1)
    first = next(results)
    store.append({"n": 11, "value": "from elsewhere"})
    values = [first["value"], *(r["value"] for r in results)]
    assert values == [0, "from elsewhere", *(2 * n for n in range(1, 11))]
    with store.claimed({"n": 11}) as is_ours:
        assert not is_ours  # it is there


@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_cluster_of_two_workers_runs_the_same_grid(
    backend, package, tmp_path, tiny_home, tiny_recipes, monkeypatch
):
    if find_spec(package) is None:  # Ray must not be imported before its environment is set
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{':'.join(sys.path)}")
    store = Store(tmp_path / "records.jsonl", KEY)
    protocol = Protocol(folder=tiny_recipes)
    cells = [
        TrainingCell("cr", "fasttext", kind, fold=fold)
        for kind in ("none", "pe")
        for fold in (0, 1)
    ]
    command = [sys.executable, "-c", WRITES, str(store.path)]
    others = [subprocess.Popen([*command, *span]) for span in (("0", "30"), ("10", "40"))]
    grid = Grid(store, cells, protocol.key, CellRun(protocol))
    found = list(grid.run_missing(2, start=partial(start_workers_on, backend, None)))
    assert [other.wait(timeout=60) for other in others] == [0, 0]
    assert {store.key_of(r) for r in found} == {store.key_of(protocol.key(c)) for c in cells}
    assert len(found) == len(cells) and len(store.records()) == len(cells) + 40
    here = CellRun(protocol)(cells[0])
    there = next(r for r in found if store.key_of(r) == store.key_of(here))
    assert there["test_accuracy"] == here["test_accuracy"]


@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_cluster_without_its_package_is_refused(backend, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    store = Store(tmp_path / "records.jsonl", ["n"])
    start = partial(start_workers_on, backend, None)
    with pytest.raises(ValueError, match=r"wordwave\[cluster\]"):
        list(Grid(store, [1], key_of, double).run_missing(start=start))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("table2", "--quick"), "150 of 150 trainings are missing: about"),
        (("table2", "--folds", "1", "--search-trials", "3"), "132 searches of 3 trials"),
        (("table4",), "trainings are missing: about"),
        (("table7",), "4 of 4 trainings are missing: about"),
        (("fig5",), "measurements of about a second each"),
        (("table5",), "8 of 8 trainings are missing: about"),
        (("table5", "--size", "full", "--data", "built-in"), "8 of 8 trainings are missing"),
        (("table5", "--choices"), "28 of 28 trainings are missing"),
        (("table6", "--seeds", "1"), "trainings are missing: about"),
        (("table6", "--size", "paper", "--budgets", "updates"), "trainings are missing: about"),
        (("table6", "--choices"), "trainings are missing: about"),
    ],
)
def test_an_estimate_needs_no_data_no_extras_and_writes_nothing(
    monkeypatch, tmp_path, capsys, words, said
):
    """`python -m experiments table2 --quick --estimate-only`, as README says, on a bare machine."""
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    for extra in ("fasttext", "optuna"):
        monkeypatch.setitem(sys.modules, extra, None)
    for task in ("classify", "translate", "lm"):  # no step is timed
        monkeypatch.setattr(job_class(task), "prepare", None)
    main([*words, "--estimate-only"], prog="python -m experiments")
    assert said in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_estimated_steps_take_about_as_long_as_measured_ones():
    """Those of results/table5 and table6, on the machine that made them: within a factor of two."""
    from experiments.table5 import Table5
    from experiments.table6 import Table6

    results = Path(__file__).parents[2] / "results"
    for table in (Table5(results / "table5", "cpu"), Table6(results / "table6")):
        known = table.known_step_seconds()
        assert len(known) >= 5
        for row, seconds in known.items():
            assert 0.5 < table.estimated_step_seconds(row) / seconds < 2, row


def test_nothing_of_a_path_is_parsed(experiments, tmp_path):
    odd = tmp_path / "x[/b] pq[lr=1] [bold red]o[/] :smile:"
    for target in ("table2", "table5", "table6"):
        code, _, err = experiments(target, "--report-only", "--out", odd)
        assert code == 2 and str(odd) in err and len(err.splitlines()) == 1


def test_wordwave_reproduce_names_its_successor():
    command = [sys.executable, "-m", "wordwave", "reproduce", "table2", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "python -m experiments" in done.stderr


def test_help_needs_no_torch():
    program = "import atexit, sys; from experiments.__main__ import run; "
    program += "atexit.register(lambda: print('torch' in sys.modules)); run()"
    for words in (["--help"], ["table5", "--help"]):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert "--estimate-only" in done.stdout, done.stderr
        assert done.stdout.endswith("False\n")


def test_the_library_does_not_contain_the_experiments():
    """import-linter checks that no module of the library imports them."""
    root = Path(__file__).parents[2]
    assert 'packages = ["src/wordwave"]' in (root / "pyproject.toml").read_text()
    sources = "".join(path.read_text() for path in (root / "src").rglob("*.py"))
    assert "import experiments" not in sources and "from experiments" not in sources
