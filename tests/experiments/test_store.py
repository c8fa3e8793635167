"""The store: nothing lost, nothing doubled, whatever kills a writer."""

import json
import multiprocessing

from wordwave.grid import Store


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
