"""Grids of cells: killed workers, killed commands, and several commands at once; their records."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from wordwave.grid import FailedCellsError, Grid, Store

ENVIRONMENT = os.environ | {"PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path])}


def key_of(n):
    return {"n": n}


class Run:
    """Leaves a file for each cell that it begins, and one cell may end its process."""

    def __init__(self, folder, *, deadly=None, deaths=1, seconds=0.0):
        self.folder, self.deadly, self.deaths, self.seconds = folder, deadly, deaths, seconds

    def __call__(self, n):
        begun = len(list(self.folder.glob(f"{n}-*")))
        (self.folder / f"{n}-{begun}-{os.getpid()}").touch()
        if n == self.deadly and begun < self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return {"n": n, "value": 2 * n}


@pytest.fixture
def begun(tmp_path):
    folder = tmp_path / "begun"
    folder.mkdir()
    return folder


def numbers(records):
    return sorted(record["n"] for record in records)


def test_the_cell_of_a_killed_worker_is_run_again(tmp_path, begun):
    store = Store(tmp_path / "records.jsonl", ["n"])
    found = list(Grid(store, range(5), key_of, Run(begun, deadly=2)).run_missing(2))
    assert numbers(found) == numbers(store.records()) == list(range(5))
    assert len(list(begun.glob("2-*"))) == 2


def test_a_cell_that_kills_its_workers_is_named_and_the_others_are_kept(tmp_path, begun):
    store = Store(tmp_path / "records.jsonl", ["n"])
    grid = Grid(store, range(5), key_of, Run(begun, deadly=2, deaths=9), "numbers")
    with pytest.raises(FailedCellsError, match=r"1 of 5 could not be run.* 2: .*killed 2 times"):
        list(grid.run_missing(2))
    assert numbers(store.records()) == [0, 1, 3, 4]
    assert not list(tmp_path.glob(".*"))
    assert grid.incomplete() == "Incomplete: 4 of 5 numbers."
    assert list(grid.missing().values()) == [2] and numbers(grid.records()) == [0, 1, 3, 4]
    again = Grid(store, range(5), key_of, Run(begun))
    assert numbers(again.run_missing(2)) == [2] and again.incomplete() == ""


def test_a_mistake_in_the_code_keeps_its_traceback(tmp_path):
    store = Store(tmp_path / "records.jsonl", ["n"])
    with pytest.raises(TypeError) as raised:
        list(Grid(store, ["a", "b"], key_of, abs).run_missing(2))
    assert "Traceback" in str(raised.value.__cause__)


GRID = """
import sys
from pathlib import Path
from tests.test_grid import Run, key_of
from wordwave.grid import Grid, Store
if __name__ == "__main__":
    folder, n, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    store = Store(folder / "records.jsonl", ["n"])
    run = Run(folder / "begun", seconds=seconds)
    found = Grid(store, range(n), key_of, run).run_missing(2)
    print(sorted(record["n"] for record in found))
"""


def grid(folder, n, seconds):
    (folder / "grid.py").write_text(GRID)
    return subprocess.Popen(
        [sys.executable, str(folder / "grid.py"), str(folder), str(n), str(seconds)],
        stdout=subprocess.PIPE, text=True,
        env=ENVIRONMENT,
    )  # fmt: skip


def until(is_so, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_workers_end_with_their_parent(tmp_path, begun):
    running = grid(tmp_path, 2, 600)
    until(lambda: len(list(begun.iterdir())) == 2)
    pids = [int(path.name.split("-")[2]) for path in begun.iterdir()]
    assert all(map(psutil.pid_exists, pids))
    running.kill()
    running.wait()
    until(lambda: not any(map(psutil.pid_exists, pids)))


def test_two_commands_at_once_share_the_cells_and_both_have_all_records(tmp_path, begun):
    both = [grid(tmp_path, 6, 0.5) for _ in range(2)]
    said = [running.communicate(timeout=120)[0] for running in both]
    assert said == ["[0, 1, 2, 3, 4, 5]\n"] * 2
    assert len(list(begun.iterdir())) == 6  # none was run twice
    assert not list(tmp_path.glob(".*"))


def test_cells_of_another_process_are_waited_for(tmp_path, begun):
    store = Store(tmp_path / "records.jsonl", ["n"])
    told, run = [], Run(begun)
    with store.claimed(key_of(1)) as is_ours:
        assert is_ours
        grid = Grid(store, range(3), key_of, run)
        results = grid.run_missing(1, on_wait=lambda n: told.append(n))
        assert [next(results)["n"], next(results)["n"]] == [0, 2]
        threading.Timer(0.5, store.append, [{"n": 1, "value": "theirs"}]).start()
        assert [r["value"] for r in results] == ["theirs"]
    assert told == [1] and not list(begun.glob("1-*"))


def test_what_another_process_gives_up_is_taken_over(tmp_path, begun):
    store = Store(tmp_path / "records.jsonl", ["n"])
    with ExitStack() as claim:
        assert claim.enter_context(store.claimed(key_of(1)))
        grid = Grid(store, range(2), key_of, Run(begun))
        results = grid.run_missing(1, on_wait=lambda n: claim.close())
        assert [r["n"] for r in results] == [0, 1]


def test_what_killed_processes_left_behind_is_removed_at_the_next_start(tmp_path, begun):
    store = Store(tmp_path / "records.jsonl", ["n"])
    store.path.write_text('{"n": 0}\n{"n": 1, "val{"n": 2}\n{"n": 2}\na note of mine\n{"n": 3, "v')
    (tmp_path / ".records.jsonl.0123456789abcdef.lock").touch()
    with store.claimed(key_of(9)):
        assert numbers(Grid(store, range(4), key_of, Run(begun)).run_missing(1)) == [1, 3]
        (claim,) = tmp_path.glob(".records.jsonl.*.lock")  # that of a living process
    lines = store.path.read_text().splitlines()
    assert lines[:3] == ['{"n": 0}', '{"n": 2}', "a note of mine"]
    assert numbers(map(json.loads, lines[3:])) == [1, 3] and not claim.exists()


def sockets():
    """The addresses on which this process and its children listen."""
    found = set()
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            connections = process.net_connections(kind="inet")
            found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return found


def on_cluster(script, package, folder, *words):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(folder / "script.py"), str(folder), *map(str, words)],
        capture_output=True, text=True, timeout=300, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done


LISTENS = """
import sys
from pathlib import Path
from functools import partial
from experiments.cluster import start_workers_on
from tests.test_grid import key_of, sockets
from wordwave.grid import Grid, Store
if __name__ == "__main__":
    before, heard = sockets(), set()
    store = Store(Path(sys.argv[1]) / "records.jsonl", ["n"])
    start = partial(start_workers_on, sys.argv[2], None)
    for record in Grid(store, [1, 2], key_of, key_of).run_missing(start=start):
        heard |= sockets()
    print(*sorted(heard - before))
"""


CLUSTER = """
import sys
from pathlib import Path
from functools import partial
from experiments.cluster import start_workers_on
from tests.test_grid import Run, key_of
from wordwave.grid import Grid, Store
if __name__ == "__main__":
    folder, deaths = Path(sys.argv[1]), int(sys.argv[3])
    store = Store(folder / "records.jsonl", ["n"])
    run = Run(folder / "begun", deadly=2, deaths=deaths)
    start = partial(start_workers_on, sys.argv[2], None)
    try:
        list(Grid(store, range(5), key_of, run).run_missing(start=start))
    except ValueError as problem:
        print(problem)
    print(sorted(record["n"] for record in store.records()))
"""


@pytest.mark.parametrize("deaths", [1, 9])
@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_killed_worker_of_a_cluster_costs_at_most_its_cell(
    backend, package, deaths, tmp_path, begun
):
    done = on_cluster(CLUSTER, package, tmp_path, backend, deaths)
    said = done.stdout.splitlines()
    assert said[-1] == ("[0, 1, 2, 3, 4]" if deaths == 1 else "[0, 1, 3, 4]")
    assert ("could not be run, the others are kept; the first, 2" in done.stdout) == (deaths > 1)


@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_cluster_that_is_started_here_listens_on_loopback_alone(backend, package, tmp_path):
    done = on_cluster(LISTENS, package, tmp_path, backend)
    heard = done.stdout.split()
    assert heard and all(address.endswith("127.0.0.1") for address in heard)


def test_a_record_of_an_earlier_version_is_upgraded_before_it_is_checked(tmp_path):
    store = Store(
        tmp_path / "r.jsonl",
        ("rate",),
        lambda record: "rate" in record,
        upgrade=lambda record: {"rate": record.get("rate", record.get("speed"))},
    )
    store.path.write_text('{"speed": 1}\n{"rate": 2}\n')
    assert store.records() == [{"rate": 1}, {"rate": 2}] and store.skipped() == ""
    store.append({"rate": 1})  # it is there
    assert store.path.read_text().startswith('{"speed": 1}\n{"rate": 2}\n')
    assert len(store.records()) == 2


def test_a_record_that_cannot_be_upgraded_is_skipped(tmp_path):
    store = Store(tmp_path / "r.jsonl", ("seed",))
    twice = {"seed": 0, "how": {"training": {"clip": 1.0, "max_grad_norm": 1.0}}}
    store.path.write_text(json.dumps(twice) + '\n{"seed": 1}\n')
    assert store.records() == [{"seed": 1}] and "1 line is not a record" in store.skipped()
    store.append({"seed": 0})
    assert [record["seed"] for record in store.records()] == [1, 0]


def test_records_come_back_in_order_and_once(tmp_path):
    store = Store(tmp_path / "deep" / "r.jsonl", ("cell", "seed"))
    for seed in (0, 1, 0):
        store.append({"cell": {"a": [1, 2]}, "seed": seed, "score": seed})
    assert [r["score"] for r in store.records()] == [0, 1]
    assert store.key_of({"seed": 1, "cell": {"a": [1, 2]}}) in store.done()


def test_a_line_cut_short_is_skipped_and_the_next_record_is_whole(tmp_path):
    path = tmp_path / "r.jsonl"
    store = Store(path, ("seed",))
    store.append({"seed": 0})
    path.write_bytes(path.read_bytes() + b'{"seed": 1, "sco')
    assert store.done() == {store.key_of({"seed": 0})}
    store.append({"seed": 1})
    assert [r["seed"] for r in store.records()] == [0, 1]


def _write(path, start):
    store = Store(path, ("n",))
    for n in range(start, start + 60):
        store.append({"n": n, "filler": "x" * 500})


def test_many_writers_lose_and_double_nothing(tmp_path):
    path = tmp_path / "r.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(path, start)) for start in (0, 30, 60)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    numbers = [json.loads(line)["n"] for line in path.read_text().splitlines()]
    assert sorted(numbers) == list(range(120))


def test_a_withdrawn_record_stays_in_the_file_and_its_cell_is_missing(tmp_path):
    store = Store(tmp_path / "records.jsonl", ("seed",))
    for seed in (1, 2):
        store.append({"seed": seed, "accuracy": 0.1})
    before = store.path.read_text()
    store.withdraw({"seed": 1}, "a wrong intercept")
    assert store.records() == [{"seed": 2, "accuracy": 0.1}] and store.skipped() == ""
    text = store.path.read_text()
    assert text.startswith(before) and "a wrong intercept" in text
    store.append({"seed": 1, "accuracy": 0.9})
    assert store.records() == [{"seed": 2, "accuracy": 0.1}, {"seed": 1, "accuracy": 0.9}]
    assert store.path.read_text().startswith(text)
