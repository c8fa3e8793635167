"""Download and conversion: true bytes where they are here, made-up ones from a local server."""

import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from wordwave.data import prepare as preparation
from wordwave.data.prepare import convert, fetch, prepare, state
from wordwave.data.registry import DataFile, DataSet, Source, data_home, dataset_named, names

CONTENT = bytes(range(256)) * 2000
FILES = [file for name in names("classification") for file in dataset_named(name).files]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Files over HTTP on this machine, with faults on demand."""

    def __init__(self):
        self.files, self.ranges, self.cut_after, self.honours_range = {}, [], None, True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request):
        content = self.files.get(request.path.lstrip("/"))
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if content is None:
            request.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and self.honours_range and start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        goes_on = asked and self.honours_range
        body = content[start:] if goes_on else content
        request.send_response(206 if goes_on else 200)
        if goes_on:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body if self.cut_after is None else body[: self.cut_after])


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("WORDWAVE_MIRROR", raising=False)
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def source(server):
    server.files["a.bin"] = CONTENT
    return Source(f"{server.url}/a.bin", sha256(CONTENT))


def test_a_source_is_downloaded_once_and_progress_is_told(server, source, tmp_path):
    told = []
    path = fetch(source, tmp_path, progress=lambda *step: told.append(step))
    assert path.read_bytes() == CONTENT
    assert told[-1] == ("a.bin", len(CONTENT), len(CONTENT)) and len(told) > 2
    assert fetch(source, tmp_path) == path and len(server.ranges) == 1
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["a.bin"]


def test_two_who_want_the_same_source_do_not_write_over_each_other(server, source, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(source, tmp_path), range(4)))
    assert set(paths) == {tmp_path / "a.bin"} and paths[0].read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_a_cut_download_is_one_line_and_the_next_goes_on(server, source, tmp_path):
    server.cut_after = 100_000
    with pytest.raises(OSError, match=r"a\.bin: .*run the same command again to resume") as caught:
        fetch(source, tmp_path)
    assert "\n" not in str(caught.value)
    kept = (tmp_path / "a.bin.part").stat().st_size
    assert 0 < kept <= 100_000 and not (tmp_path / "a.bin").exists()
    server.cut_after = None
    assert fetch(source, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={kept}-"]


def test_a_server_without_ranges_sends_all_again(server, source, tmp_path):
    server.honours_range = False
    (tmp_path / "a.bin.part").write_bytes(b"something else")
    assert fetch(source, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [b"", b"and more"])
def test_a_part_that_is_whole_or_too_long_is_no_trap(server, source, tmp_path, extra):
    (tmp_path / "a.bin.part").write_bytes(CONTENT + extra)
    assert fetch(source, tmp_path).read_bytes() == CONTENT
    assert len(server.ranges) == (2 if extra else 1)


def test_a_wrong_checksum_names_both_and_keeps_nothing(server, source, tmp_path):
    server.files["a.bin"] = b"another file"
    said = rf"a\.bin: .*{sha256(CONTENT)[:12]}.*got {sha256(b'another file')[:12]}"
    with pytest.raises(ValueError, match=said):
        fetch(source, tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.files["a.bin"] = CONTENT
    assert fetch(source, tmp_path).read_bytes() == CONTENT


def test_a_source_damaged_on_disk_is_fetched_again(source, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"damaged")
    assert fetch(source, tmp_path).read_bytes() == CONTENT


def test_a_file_that_never_ends_is_stopped(source, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_LARGEST", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        fetch(source, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_not_found_and_nobody_there_are_one_line(server, source, tmp_path):
    with pytest.raises(OSError, match=r"b\.bin: http.* answers 404 Not Found"):
        fetch(replace(source, url=f"{server.url}/b.bin"), tmp_path)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(OSError, match=r"a\.bin: the connection to .* failed") as caught:
        fetch(source, tmp_path)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_a_mirror_serves_by_file_name(server, source, tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_MIRROR", f"{server.url}/")
    elsewhere = replace(source, url="http://127.0.0.1:9/never/asked/a.bin")
    assert fetch(elsewhere, tmp_path).read_bytes() == CONTENT
    monkeypatch.setenv("WORDWAVE_MIRROR", "/a/folder")
    with pytest.raises(ValueError, match=r"WORDWAVE_MIRROR must start with http.*'/a/folder'"):
        fetch(elsewhere, tmp_path / "other")


def lines_file(raw, text, **options):
    return DataFile("x.tsv.gz", sha256(text), (Source("http://a/x", sha256(raw)),), **options)


@pytest.mark.parametrize(
    ("raw", "options", "text"),
    [
        (b"0 plain words .\n1 two \n", {}, b"0\tplain words .\n1\ttwo\n"),
        (b"0 \n1  led by a space\n", {}, b"0\t\n1\tled by a space\n"),
        (b"1 caf\xe9 \x85\n", {"encoding": "cp1252"}, "1\tcafé …\n".encode()),
        (b"4 sister\xf0city ?\n", {"repairs": (("\xf0", " "),)}, b"4\tsister city ?\n"),
        (b"1 -lrb- so -rrb- \\/ a\xc2\xa0\n", {}, "1\t( so ) \\/ a\xa0\n".encode()),
    ],
)
def test_lines_become_label_tab_text(raw, options, text, tmp_path):
    (tmp_path / "x").write_bytes(raw)
    assert convert(lines_file(raw, text, **options), [tmp_path / "x"]) == text


def zipped(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"SST-2/{name}.tsv", content)
    return packed.getvalue()


def glue_set(server, packed, labelled=b"", train=b"", test=b""):
    """A set with the forms of SST-2, on the server."""
    server.files |= {"g.zip": packed, "labelled": labelled}
    archive = Source(f"{server.url}/g.zip")
    labels = Source(f"{server.url}/labelled", sha256(labelled))
    train_set = DataFile(
        "g.train.tsv.gz", sha256(train), (archive,), form="glue", member="SST-2/train.tsv"
    )
    test_set = DataFile(
        "g.t.gz", sha256(test), (archive, labels), form="glue-test", member="SST-2/test.tsv"
    )
    return DataSet("g", "classification", (train_set, test_set), "none", "nobody (2000)")


GOOD = {
    "packed": zipped(
        train='sentence\tlabel\n" a quote opens \t0\nit is \t1\n',
        test="index\tsentence\n0\thumor ( and/or ) wan na\n1\tno . .\n",
    ),
    "labelled": b"0 no. .\n1 humour -lrb- and\\/or -rrb- wanna\n",
    "train": b'0\t" a quote opens\n1\tit is\n',
    "test": b"1\thumor ( and/or ) wan na\n0\tno . .\n",
}


def test_tables_in_a_zip_and_labels_from_a_second_file(server, tmp_path):
    dataset = glue_set(server, **GOOD)
    made = prepare(dataset, home=tmp_path)
    assert [gzip.decompress(path.read_bytes()) for path in made] == [GOOD["train"], GOOD["test"]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.t.gz", "g.train.tsv.gz", "raw"]
    first = made[0].read_bytes()
    made[0].unlink()
    server.files.clear()  # the sources are kept
    assert prepare(dataset, home=tmp_path) == made[:1] and made[0].read_bytes() == first
    assert prepare(dataset, home=tmp_path) == []


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (b"<html>please log in</html>", "is not a zip that can be read"),
        (zipped(other="x"), r"has no 'SST-2/train\.tsv' in it"),
        (zipped(train="sentence\tlabel\nanother \t0\n"), r"g\.train.*must have the sha256"),
        (zipped(train=b"sentence\tlabel\n\xff \t0\n"), "its source is not utf-8"),
        (zipped(train=b"x" * 20_000), "must not be larger than 10000 bytes"),
    ],
)
def test_a_wrong_zip_is_one_line_and_is_removed(server, packed, said, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_LARGEST", 10_000)
    with pytest.raises(ValueError, match=said) as caught:
        prepare(glue_set(server, **{**GOOD, "packed": packed}), home=tmp_path)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "raw").iterdir()) == [] and not (tmp_path / "g.train.tsv.gz").exists()
    assert prepare(glue_set(server, **GOOD), home=tmp_path)


def test_state_tells_ok_missing_and_wrong(tmp_path):
    file = lines_file(b"", b"0\ta\n")
    path = tmp_path / file.path
    assert state(file, home=tmp_path) == "missing"
    for content, expected in (
        (gzip.compress(b"0\ta\n"), "ok"),
        (gzip.compress(b"0\tb\n"), "wrong checksum"),
        (gzip.compress(b"0\ta\n")[:-9], "wrong checksum"),
        (b"not gzip", "wrong checksum"),
        (b"", "wrong checksum"),
    ):
        path.write_bytes(content)
        assert state(file, home=tmp_path) == expected


def true_data():
    home = data_home()
    if not (home / "raw" / "TREC.train.all").is_file():
        pytest.skip("WORDWAVE_DATA names no folder with raw/")
    return home


@pytest.mark.parametrize("file", FILES, ids=[f.path for f in FILES])
def test_true_sources_become_the_prepared_text_byte_for_byte(file, tmp_path):
    home = true_data()
    raws = [home / "raw" / source.file for source in file.sources]
    if file.form != "lines" and not raws[0].exists():
        raws[0] = glue_zip(home, file.split, tmp_path / "SST-2.zip")
    for source, raw in zip(file.sources, raws, strict=True):
        assert source.sha256 in (None, sha256(raw.read_bytes()))
    text = convert(file, raws)
    assert sha256(text) == file.sha256 and text.count(b"\n") == file.rows


def glue_zip(home, split, path):
    """A table of GLUE as it was before preparation: a space after a labelled sentence."""
    text = gzip.decompress((home / f"sst2.{split}.tsv.gz").read_bytes()).decode()
    rows = [row.split("\t") for row in text.removesuffix("\n").split("\n")]
    if split == "test":
        table = ["index\tsentence", *(f"{i}\t{sentence}" for i, (_, sentence) in enumerate(rows))]
    else:
        table = ["sentence\tlabel", *(f"{sentence} \t{label}" for label, sentence in rows)]
    path.write_bytes(zipped(**{split: "\n".join(table) + "\n"}))
    return path


def test_true_bytes_from_a_mirror(server, tmp_path, monkeypatch):
    raw = true_data() / "raw"
    server.files |= {path.name: path.read_bytes() for path in raw.iterdir()}
    monkeypatch.setenv("WORDWAVE_MIRROR", server.url)
    for name in ("mr", "subj", "cr", "mpqa", "trec"):
        dataset = dataset_named(name)
        prepare(dataset, home=tmp_path)
        assert all(state(file, home=tmp_path) == "ok" for file in dataset.files)
