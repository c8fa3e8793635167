"""What a user sees of long work: time left soon, few lines in a log, help that can be read."""

import re
import time
from io import StringIO
from types import SimpleNamespace

import pytest

from wordwave.cli import progress
from wordwave.cli.console import Console
from wordwave.cli.progress import Clock, Display
from wordwave.cli.train import TrainingDisplay
from wordwave.progress import Stage, listening, note, track
from wordwave.training.loop import Epoch, Step
from wordwave.workers import InProcess, ProcessWorkers

VERBS = ("train classify", "train match", "train embed", "train lm", "predict", "compare", "probe")


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: now.seconds)
    return now


def shown(console):
    return console.file.getvalue().splitlines()


def test_every_stage_tells_the_time_left_after_some_seconds(clock):
    console = Console(file=StringIO())
    with Display(console):
        for _ in track(range(1000), "reading a.csv", 1000):
            clock.seconds += 0.1
        note("3 rows were left out")
    lines = shown(console)
    assert lines[0] == "reading a.csv: 5%, 0:01:35 left" and lines[-1] == "3 rows were left out"
    assert 4 <= len(lines) <= 7


def test_short_work_prints_nothing(clock):
    console = Console(file=StringIO())
    with Display(console):
        assert list(track("abc", "short", 3)) == ["a", "b", "c"]
    assert not shown(console)


def test_at_a_terminal_there_is_a_bar_with_the_time_left(monkeypatch):
    console = Console(file=StringIO(), force_terminal=True, width=100)
    with Display(console):
        Stage("reading a.csv").at(0.5)
        time.sleep(0.3)
    assert "reading a.csv" in console.file.getvalue() and "left" in console.file.getvalue()


def test_a_bar_says_which_time_is_behind_and_which_is_left():
    console = Console(file=StringIO(), force_terminal=True, width=80)
    with progress.progress("trials", console) as bar:
        bar.add_task("", total=2, completed=2)
    text = re.sub("\x1b[^A-Za-z]*[A-Za-z]", "", console.file.getvalue())
    assert re.search(r"took \d:\d\d:\d\d, left [-\d]", text)


def training_lines(clock, n_epochs, steps=10, seconds=0.1, improving=3, more=0.0):
    """The lines of a training whose first epochs improve."""
    console = Console(file=StringIO())
    job = SimpleNamespace(
        unit="words",
        counts_epochs=True,
        more_trainings=more,
        show_loss=lambda loss: f"loss {loss}",
        show_scores=lambda report: f"accuracy {report.scores['accuracy']}",
    )
    with Display(console) as display:
        watch = TrainingDisplay(job, display).watch
        for epoch in range(1, n_epochs + 1):
            for step in range(1, steps + 1):
                clock.seconds += seconds
                at = (epoch - 1) * steps + step
                watch(Step(at, n_epochs * steps, n_epochs, 0.5, 100))
            scores = {"accuracy": epoch}
            watch(Epoch(epoch, epoch * steps, 0.5, scores, is_best=epoch <= improving))
        watch("")
    return shown(console)


def test_hundreds_of_epochs_are_about_20_lines_with_the_time_left(clock):
    lines = training_lines(clock, 167)
    assert 15 <= len(lines) <= 22 and lines[0].startswith("epoch   1")
    assert all(line.endswith("left") for line in lines[:-1])
    assert lines[-1].startswith("epoch 167")
    # The line of some epochs is that of the best of them.
    assert lines[1].startswith("epoch   3") and "best" in lines[1]


def test_few_epochs_have_a_line_each(clock):
    assert sum(line.startswith("epoch   ") for line in training_lines(clock, 8)) == 8


def test_a_long_epoch_tells_how_far_it_is_from_the_first_seconds(clock):
    lines = training_lines(clock, 1, steps=1000, seconds=1)
    assert lines[0] == "epoch 1/1  loss 0.5  100 words/s  0:16:34 left"
    assert 10 <= len(lines) <= 14


def test_trainings_that_follow_are_in_the_time_left(clock):
    lines = training_lines(clock, 1, steps=1000, seconds=1, more=4)
    assert lines[0] == "epoch 1/1  loss 0.5  100 words/s  1:23:04 left"
    assert lines[-1].endswith("1:06:40 left")


def test_a_resumed_training_counts_from_where_it_was(clock):
    resumed = Clock(0.5)
    clock.seconds += 10
    assert resumed.left(0.75) == "0:00:10" and resumed.left(0.5) == "?"


def test_notes_without_a_listener_are_warnings():
    with pytest.warns(UserWarning, match="two rows"):
        note("two rows")


def trained_to(share):
    Stage("training").at(share)
    Stage("reading").at(0.9)
    time.sleep(1.5)
    return share


@pytest.mark.parametrize("kind", [InProcess, ProcessWorkers])
def test_workers_report_how_far_their_trainings_are(kind, monkeypatch):
    seen = []
    with kind(trained_to, 1) as workers:
        thread = progress._repeatedly(lambda: seen.append(workers.share_done()))
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_UPDATES", 0.1)
        with thread:
            workers.submit(0.25)
            assert workers.wait(60) == [(0.25, 0.25)]
        assert 0.25 in seen and workers.share_done() == 0


def test_reports_go_to_the_innermost_listener():
    outer, inner = [], []
    with listening(SimpleNamespace(note=outer.append)):
        with listening(SimpleNamespace(note=inner.append)):
            note("a")
        note("b")
    assert (outer, inner) == (["b"], ["a"])


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_optional_settings_by_their_values(cli, verb):
    shown = cli.call(*verb.split(), "--help")
    assert shown.code == 0 and "{None}" not in shown.out
    if verb.startswith("train"):
        assert "--out PATH " in shown.out and "--overwrite" in shown.out
