"""`wordwave data` as a user meets it; the network is a server on this machine."""

import functools
import gzip
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wordwave.data.registry import data_home

WORDWAVE = str(Path(sys.executable).with_name("wordwave"))


def wordwave_data(*arguments, home, mirror="http://127.0.0.1:9"):
    environment = {"WORDWAVE_DATA": str(home), "WORDWAVE_MIRROR": mirror, "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        [WORDWAVE, "data", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


@pytest.fixture
def mirror(tmp_path):
    """An address that serves the files of `tmp_path / "mirror"`."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def one_line(result):
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    return line


def test_list_shows_every_set_and_what_is_here(tmp_path):
    (tmp_path / "cr.tsv.gz").touch()
    shown = wordwave_data("list", home=tmp_path)
    assert shown.returncode == 0 and str(tmp_path) in shown.stdout
    rows = {line.split()[1]: line for line in shown.stdout.splitlines() if line.startswith("│ ")}
    assert {"mr", "subj", "cr", "mpqa", "sst2", "trec"} <= rows.keys()
    assert "17,064 pairs" in shown.stdout and " yes " in rows["built-in"]
    assert " yes " in rows["cr"] and " no " in rows["mr"] and "10,662" in rows["mr"]


def test_data_is_listed_without_importing_torch(tmp_path):
    check = (
        "import sys; from wordwave.cli.data import list; list([], prog='wordwave data list'); "
        "import wordwave.data.prepare, wordwave.data.splits; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("prepare",),
            "name one or more of mr, subj, cr, mpqa, sst2, trec, paws-wiki",
        ),
        (("prepare", "mr", "trek"), "did you mean 'trec'"),
        (("verify", "imdb"), "data set must be one of mr"),
        (("verify",), "holds no data set; run `wordwave data prepare NAME`"),
        (("verify", "cr"), "1 of 1 files are missing or wrong (cr.tsv.gz)"),
        (("prepare", "cr"), "custrev.all: the connection to http://127.0.0.1:9/custrev.all failed"),
    ],
)
def test_a_mistake_or_no_network_is_one_line(arguments, said, tmp_path):
    assert said in one_line(wordwave_data(*arguments, home=tmp_path / "home"))
    assert not list(tmp_path.rglob("*.gz"))


def test_a_wrong_or_missing_file_of_the_mirror_is_one_line(tmp_path, mirror):
    line = one_line(wordwave_data("prepare", "cr", home=tmp_path / "home", mirror=mirror))
    assert "custrev.all" in line and "404" in line
    (tmp_path / "mirror" / "custrev.all").write_bytes(b"0 another file\n")
    line = one_line(wordwave_data("prepare", "cr", home=tmp_path / "home", mirror=mirror))
    assert "custrev.all: the download must have the sha256 a3839a79bd32…" in line
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]


def test_verify_tells_ok_from_wrong(tmp_path):
    (tmp_path / "cr.tsv.gz").write_bytes(gzip.compress(b"0\tanother file\n"))
    checked = wordwave_data("verify", home=tmp_path)
    assert checked.stdout == "cr.tsv.gz: wrong checksum\n"
    assert one_line(checked).endswith("run `wordwave data prepare cr`")


def test_true_bytes_are_prepared_verified_and_left_alone(tmp_path, mirror):
    raw = data_home() / "raw"
    if not (raw / "TREC.train.all").is_file():
        pytest.skip("WORDWAVE_DATA names no folder with raw/")
    for path in raw.iterdir():
        (tmp_path / "mirror" / path.name).write_bytes(path.read_bytes())
    home = tmp_path / "home"
    made = wordwave_data("prepare", "trec", "cr", home=home, mirror=mirror)
    assert made.returncode == 0, made.stderr
    assert "trec.test.tsv.gz" in made.stdout and "Li and Roth (2002)" in made.stdout
    checked = wordwave_data("verify", home=home)
    assert checked.returncode == 0 and checked.stdout.count(": ok\n") == 3
    assert "trec: already prepared" in wordwave_data("prepare", "trec", home=home).stdout
