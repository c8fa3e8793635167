"""What is appended to is left readable by a full disk, which is told in one line."""

import resource
from contextlib import contextmanager

import pytest

from wordwave.grid import Store

SAID = "' cannot be written: File too large; free some disk space and run the same command again$"


@contextmanager
def files_of_at_most(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_store_names_its_file_and_keeps_its_records(tmp_path):
    store = Store(tmp_path / "records.jsonl", ("seed",))
    store.append({"seed": 0})
    size = store.path.stat().st_size
    with files_of_at_most(size + 5), pytest.raises(OSError, match=r"^'.*records\.jsonl" + SAID):
        store.append({"seed": 1, "filler": "x" * 100})
    assert store.records() == [{"seed": 0}]
    store.append({"seed": 1})
    assert store.records() == [{"seed": 0}, {"seed": 1}]
