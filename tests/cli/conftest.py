"""The command line called in this process, and one small trained run for all."""

import csv
import io
import random
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from wordwave.tasks import classification
from wordwave.training.loop import Training

LABELS = ('good "one"', "schön ☂", "[bold]x[/]")
"""Odd names, each with a word that gives it away."""
WORDS = ("yes", "öfter", "no")
WHOLE = ("--dim", "16", "--hidden-dim", "16", "--dropout", "0")
WHOLE += ("--epochs", "8", "--batch-size", "16", "--learning-rate", "0.03")
QUICK = (*WHOLE, "--dev-share", "0.1")


def call(*words, stdin=b""):
    """What `wordwave` answers: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin, signal.getsignal(signal.SIGTERM), threading.excepthook
    code = 0
    from wordwave.cli import main

    with tempfile.TemporaryFile() as piped:
        piped.write(stdin)
        piped.seek(0)
        sys.argv, sys.stdin = ["wordwave", *map(str, words)], io.TextIOWrapper(piped)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv, sys.stdin, _, threading.excepthook = before
            signal.signal(signal.SIGTERM, before[2])
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def examples(n, seed=0):
    """Texts of which one word tells the label."""
    rng = random.Random(seed)
    for i in range(n):
        words = [f"w{rng.randrange(20)}" for _ in range(rng.randrange(1, 5))]
        words.insert(rng.randrange(len(words) + 1), WORDS[i % 3])
        yield " ".join(words), LABELS[i % 3]


def write_table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def refusal(result, *said):
    """The one line of a mistake, which has all these words."""
    assert result.code == 2, (result.code, result.out, result.err)
    (line,) = result.err.splitlines()
    assert line.startswith("wordwave: ")
    for words in said:
        assert words in line
    return line


@contextmanager
def stopped_at(n_steps):
    """Ctrl-C at a step of the trainings in the block, which take one at a time."""
    steps, step = 0, Training._steps

    def stopped(self):
        nonlocal steps
        steps += 1
        if steps == n_steps:
            raise KeyboardInterrupt
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_steps", stopped)
        patch.setattr(classification, "MOST_STEPS", 1)
        yield


@pytest.fixture(scope="session")
def cli():
    return SimpleNamespace(
        call=call,
        examples=examples,
        write_table=write_table,
        refusal=refusal,
        quick=QUICK,
        whole=WHOLE,
        stopped_at=stopped_at,
    )


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("data") / "odd.csv", examples(480))


@pytest.fixture(scope="session")
def trained(table, tmp_path_factory):
    """A finished run, and what was said when it was trained. Not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "odd"
    said = call("train", "classify", "--data", table, "--out", folder, *QUICK)
    assert said.code == 0, said.err
    return SimpleNamespace(folder=folder, table=table, said=said)
