"""Aligned sentences: built in, by name, and from files that may be wrong."""

import gzip
import hashlib
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from wordwave.data.parallel import (
    BUILT_IN_FILE,
    ParallelSentences,
    cut_dev,
    load_pairs,
    read_pairs,
)
from wordwave.data.prepare import prepare, state
from wordwave.data.registry import catalogue, dataset_named
from wordwave.tasks.config import ParallelDataConfig


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_the_built_in_set_has_three_parts_that_share_no_sentence():
    parts = load_pairs(ParallelDataConfig())
    sizes = len(parts.train), len(parts.dev), len(parts.test)
    assert sum(sizes) == 17_064 and sizes == (16_042, 502, 520)
    train, dev, test = (
        {s.lower() for s in p.sources} for p in (parts.train, parts.dev, parts.test)
    )
    assert not (train & dev or train & test or dev & test)
    turned = load_pairs(ParallelDataConfig(source_language="de", target_language="en"))
    assert turned.test.sources == parts.test.targets


def test_the_built_in_set_says_where_it_is_from_and_under_which_licence():
    notice = (BUILT_IN_FILE.parent / "NOTICE.md").read_text()
    assert "Home Assistant" in notice and BUILT_IN_FILE.name in notice
    assert "Apache License" in (BUILT_IN_FILE.parent / "LICENSE").read_text()


def test_two_files_are_read_line_by_line(tmp_path):
    source = write(tmp_path / "a.en", "one", "two\x85three", "ü")
    target = tmp_path / "a.de.gz"
    target.write_bytes(gzip.compress(b"eins\nzwei drei\nu\n"))
    pairs = read_pairs(source, target)
    assert pairs.sources == ["one", "two\x85three", "ü"]
    assert pairs.targets == ["eins", "zwei drei", "u"] and len(pairs) == 3


def test_files_that_are_not_aligned_are_refused(tmp_path):
    three, two = write(tmp_path / "3.en", *"abc"), write(tmp_path / "2.de", *"ab")
    for source, target in ((three, two), (two, three)):
        with pytest.raises(ValueError, match=r"'.*2.de' ends after 2 lines and '.*3.en' goes on"):
            read_pairs(source, target)


def test_an_empty_line_is_refused(tmp_path):
    source, target = write(tmp_path / "a", "one", "two"), write(tmp_path / "b", "eins", "  ")
    with pytest.raises(ValueError, match=r"b': line 2 must hold a sentence, got nothing"):
        read_pairs(source, target)


def test_a_tenth_is_held_out_always_the_same():
    pairs = ParallelSentences([f"s{i}" for i in range(40)], [f"t{i}" for i in range(40)])
    train, dev = cut_dev(pairs)
    assert (len(train), len(dev)) == (36, 4) and cut_dev(pairs)[1] == dev
    assert sorted(train.sources + dev.sources) == sorted(pairs.sources)
    with pytest.raises(ValueError, match="must hold two pairs or more, got 1"):
        cut_dev(pairs.subset([0], "one"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": "multi30"}, r"got 'multi30'; did you mean 'multi30k'\?.*--source and --target"),
        ({"source_language": "fr"}, "built-in translates between en and de, got source_language"),
        ({"source": "a"}, "source and target go together"),
        (
            {"test_source": "a", "test_target": "b"},
            "test_source need source, got data 'built-in'",
        ),
    ],
)
def test_data_that_is_not_there_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        load_pairs(ParallelDataConfig(**settings))


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Three small splits in two languages on a web server, and the data set that they form."""
    folder = tmp_path / "web"
    folder.mkdir()
    multi30k, files = dataset_named("multi30k"), []
    for file in multi30k.files:
        name = file.sources[0].file
        raw = gzip.compress(f"one {name}\ntwo\n".encode(), mtime=0)
        (folder / name).write_bytes(raw)
        files.append(replace(file, sha256=hashlib.sha256(raw).hexdigest()))
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WORDWAVE_MIRROR", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path / "home"))
    small = replace(multi30k, files=tuple(files))
    monkeypatch.setitem(catalogue(), "multi30k", small)
    yield small, folder
    server.shutdown()
    server.server_close()


def test_a_set_is_downloaded_checked_and_read(served):
    small, _ = served
    with pytest.raises(ValueError, match="run `wordwave data prepare multi30k`"):
        load_pairs(ParallelDataConfig("multi30k"))
    assert len(prepare(small)) == 6 and prepare(small) == []
    parts = load_pairs(ParallelDataConfig("multi30k"))
    assert parts.train.sources == ["one train.en.gz", "two"]
    assert parts.test.targets[0] == "one test_2016_flickr.de.gz"
    broken = small.file("dev", "de")
    small.path(broken).write_bytes(b"broken")
    assert state(broken) == "wrong checksum"
    assert [path.name for path in prepare(small)] == ["val.de.gz"]


def test_a_download_that_is_not_what_it_should_be_is_not_kept(served):
    small, folder = served
    (folder / "val.en.gz").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"val.en.gz: the download must have the sha256"):
        prepare(small)
    assert state(small.file("dev", "en")) == "missing"
    assert state(small.file("train", "de")) == "ok"
