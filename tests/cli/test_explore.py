"""`wordwave explore` as a user meets it."""

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

import wordwave
from wordwave.explore.built_in import EXAMPLES, sentences


def about(path):
    """What the page says of its model."""
    page = path.read_text(encoding="utf-8")
    return json.loads(
        re.search(r'<script type="application/json" id="about">(.*?)</script>', page)[1]
    )


def test_help_needs_no_torch():
    check = "import sys; from wordwave.cli import explore; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_a_run_becomes_a_page(cli, trained, tmp_path):
    path = tmp_path / "new folder" / "page.html"
    said = cli.call("explore", trained.folder, "--html", path, "--examples", "yes w1", "no <b>")
    assert said.code == 0, said.err
    assert "Checked: 200 random sentences" in said.out and f"Written: {path}" in said.out
    assert "Rounding to float16 changes a probability by at most" in said.out
    found = about(path)
    assert found["labels"] == wordwave.TextClassifier.load(trained.folder).labels
    assert found["examples"] == ["yes w1", "no <b>"] and found["twin"] is None
    assert found["name"] == trained.folder.name
    page = path.read_text(encoding="utf-8")
    assert "no <b>" not in page  # escaped
    assert not re.search(r"""(src|href)=["'](?!data:,|#)""", page)


def test_examples_whose_order_matters_most_come_first(cli, tmp_path):
    other = "at all not good", "dog bites man", "good , not bad", "bad , not good"
    texts = [text for _ in range(40) for text in ("not good at all", *other)]
    labels = ["no" if text.startswith("not") else "yes" for text in texts]
    classifier = wordwave.WaveClassifier(epochs=20, random_state=0).fit(texts, labels).classifier_
    classifier.save(tmp_path / "run")
    said = cli.call("explore", tmp_path / "run", "--html", tmp_path / "page.html")
    assert said.code == 0, said.err
    examples = about(tmp_path / "page.html")["examples"]
    assert examples[:2] == ["not good at all", "at all not good"] and len(examples) == 6


def test_a_twin_is_trained_once_and_shown_beside(cli, trained, tmp_path):
    path, twin = tmp_path / "page.html", tmp_path / "twin"
    command = ("explore", trained.folder, "--html", path, "--twin", twin)
    said = cli.call(*command)
    assert said.code == 0, said.err
    assert "Training the twin (tpe)" in said.out and about(path)["twin"] == "tpe"
    again = cli.call(*command)
    assert again.code == 0 and "Training" not in again.out


def test_data_of_a_stranger_is_not_opened_for_a_twin(cli, trained, tmp_path):
    run = shutil.copytree(trained.folder, tmp_path / "run")
    (run / "made-here").unlink()
    command = ("explore", run, "--html", tmp_path / "page.html", "--twin", tmp_path / "twin")
    cli.refusal(cli.call(*command), "was not trained here", "--trust-data")
    assert not (tmp_path / "twin").exists()
    assert cli.call(*command, "--trust-data").code == 0


def test_mistakes_are_one_line(cli, trained, tmp_path):
    page = tmp_path / "page.html"
    cli.refusal(cli.call("explore", tmp_path / "nothing"), "nothing")
    cli.refusal(cli.call("explore", trained.table), str(trained.table))
    cli.refusal(cli.call("explore", trained.folder, "--html", tmp_path / "page.txt"), ".html")
    cli.refusal(cli.call("explore", "--twin", trained.folder), "--twin goes with a run")
    cli.refusal(cli.call("explore", trained.folder, "--port", "70000"), "port must be")
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm/config.yaml").write_text("task: lm\n")
    cli.refusal(cli.call("explore", tmp_path / "lm", "--html", page), "run of 'lm'", "classify")
    damaged = shutil.copytree(trained.folder, tmp_path / "damaged\x1b[31m<b>")
    (damaged / "model.safetensors").write_bytes(b"\x00" * 100)
    cli.refusal(cli.call("explore", damaged, "--no-browser"), "model.safetensors")
    other = tmp_path / "other"
    table = cli.write_table(tmp_path / "t.csv", [("a b", "x"), ("c d", "y")] * 30)
    assert cli.call("train", "classify", "--data", table, "--out", other, *cli.quick).code == 0
    twin = cli.call("explore", trained.folder, "--html", page, "--twin", other)
    cli.refusal(twin, "must have the classes")
    assert not page.exists()


def test_a_model_that_a_page_cannot_compute_is_refused(cli, trained, tmp_path):
    run = tmp_path / "cnn"
    more = ("--encoder", "cnn", "--n-filters", "4", "--epochs", "1")
    assert (
        cli.call("train", "classify", "--data", trained.table, "--out", run, *cli.quick, *more).code
        == 0
    )
    said = cli.call("explore", run, "--html", tmp_path / "page.html")
    cli.refusal(said, "sums of words only, got encoder 'cnn'", "without --html")


def test_a_page_that_would_be_too_large_is_refused(trained, tmp_path):
    from wordwave.explore import export_page

    for most in (10, 20_000):
        with pytest.raises(wordwave.WordwaveError, match=r"MB or more, the limit is .*--max-voc"):
            export_page(trained.folder, tmp_path / "page.html", most_bytes=most)
    assert not (tmp_path / "page.html").exists()


def test_a_port_in_use_is_one_line(cli, trained):
    from wordwave.explore.server import bound_socket

    with bound_socket(0) as taken:
        port = taken.getsockname()[1]
        said = cli.call("explore", trained.folder, "--no-browser", "--port", port)
        cli.refusal(said, f"port {port} cannot be used", "choose another --port")


@pytest.mark.slow
def test_the_built_in_model_is_trained_once_and_tells_order(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cli.call("explore", "--html", tmp_path / "page.html")
    assert first.code == 0 and first.out.count("Training the built-in model") == 2, first.err
    again = cli.call("explore", "--html", tmp_path / "page.html")
    assert again.code == 0 and "Training" not in again.out
    next(tmp_path.rglob("tpe-*/model.safetensors")).write_bytes(b"damaged")
    damaged = cli.call("explore", "--html", tmp_path / "page.html")
    assert damaged.code == 0 and damaged.out.count("Training") == 1
    found = about(tmp_path / "page.html")
    assert found["twin"] == "tpe" and found["examples"] == list(EXAMPLES)
    folder = tmp_path / "wordwave" / "explore"
    waves, twin = (
        wordwave.TextClassifier.load(next(folder.glob(f"{kind}-*/config.yaml")).parent)
        for kind in ("complex-order", "tpe")
    )
    held_out = sentences(400, seed=99)
    right = [
        sum(map(str.__eq__, one.predict(held_out.texts), held_out.labels)) for one in (waves, twin)
    ]
    assert right[0] > 360 and right[1] < 280  # of 400; a sum without order gets half of them
    assert waves.predict(["dog bites man", "man bites dog"]) == ["animal acts", "person acts"]
    same = twin.probabilities(["dog bites man", "man bites dog"])
    assert float((same[0] - same[1]).abs().max()) < 1e-5


@pytest.mark.slow
def test_two_explorers_at_once_and_ctrl_c(trained):
    command = [sys.executable, "-m", "wordwave", "explore", trained.folder, "--no-browser"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        ports = [re.search(r"127\.0\.0\.1:(\d+)/", one.stdout.readline())[1] for one in running]
        assert ports[0] != ports[1]
        for port in ports:
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
    finally:
        for one in running:
            one.send_signal(signal.SIGINT)
        ended = [one.communicate(timeout=30)[0] for one in running]
    assert [one.returncode for one in running] == [0, 0], ended
