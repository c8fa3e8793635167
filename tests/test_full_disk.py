"""What is appended to is left readable by a full disk, which is told in one line."""

import gzip
import resource
import tempfile
from contextlib import contextmanager

import pytest

from wordwave.data import columns
from wordwave.data.characters import read_text
from wordwave.data.examples import Examples
from wordwave.data.tables import read_examples
from wordwave.grid import Store
from wordwave.search.baselines import fit_fasttext

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


@contextmanager
def no_room():
    """For temporary files of 100,000 bytes; others may be read."""
    tempfile.gettempdir()  # which writes a file
    with (
        files_of_at_most(100_000),
        pytest.raises(OSError, match=r"temporary file in .* be written: File too large") as e,
    ):
        yield
    assert "TMPDIR" in str(e.value) and repr(tempfile.gettempdir()) in str(e.value)


@pytest.mark.parametrize("extra", [0, 200_000])  # seen when the rest is written, or before
def test_the_texts_of_a_large_table_that_do_not_fit_are_reported(tmp_path, monkeypatch, extra):
    monkeypatch.setattr(columns, "MANY", 100)
    path = tmp_path / "large.csv"
    path.write_text("text,label\n" + f"{'a' * 1000},x\n" * (101 + extra // 1000))
    with no_room():
        read_examples(path)


@pytest.mark.parametrize("content", ["a" * 100_001, "ä" * 60_000])
def test_a_text_that_is_too_large_when_decompressed_is_reported(tmp_path, content):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(content.encode()))
    with no_room():
        read_text(path)


def test_a_text_that_is_too_large_when_decoded_is_reported(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ä" * 40_000)
    with no_room():
        read_text(path)


def test_the_file_that_fasttext_reads_is_reported():
    pytest.importorskip("fasttext")
    train = Examples(["a" * 200_000], ["x"])
    with no_room():
        fit_fasttext(train, 0, str)
