"""A data home of made-up texts, and recipes that train in a moment."""

import gzip
import sys

import pytest

from wordwave.models.config import ENCODERS

TINY = """
text: {{tokenizer: kim}}
model: {{encoder: {encoder}, dim: 8, hidden_dim: 0, n_filters: 4, n_heads: 2, feed_forward_dim: 8,
         state_dim: 8, dropout: 0.1}}
training: {{epochs: 2, batch_size: 16, learning_rate: 0.02}}
"""
KINDS = ("good", "awful", "so", "why", "who", "where")


def write_rows(path, n, n_classes, start=0):
    rows = (f"{i % n_classes}\tthe {KINDS[i % n_classes]} film number {i % 11}" for i in range(n))
    with gzip.open(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{row} {start + i % 7}\n" for i, row in enumerate(rows))


@pytest.fixture
def tiny_home(tmp_path, monkeypatch):
    """cr, sst2 and trec, with a few words each."""
    home = tmp_path / "home"
    home.mkdir()
    write_rows(home / "cr.tsv.gz", 80, 2)
    write_rows(home / "sst2.train.tsv.gz", 80, 2)
    write_rows(home / "sst2.sentences.train.tsv.gz", 40, 2)
    write_rows(home / "sst2.dev.tsv.gz", 20, 2)
    write_rows(home / "sst2.test.tsv.gz", 20, 2)
    write_rows(home / "trec.train.tsv.gz", 120, 6)
    write_rows(home / "trec.test.tsv.gz", 24, 6)
    monkeypatch.setenv("WORDWAVE_DATA", str(home))
    return home


@pytest.fixture
def tiny_recipes(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    for encoder in ENCODERS:
        (folder / f"{encoder}.yaml").write_text(TINY.format(encoder=encoder))
    return folder


@pytest.fixture
def experiments(monkeypatch, capsys):
    """`python -m experiments …`: its exit code, stdout and stderr."""

    def call(*words):
        from experiments.__main__ import run

        monkeypatch.setattr(sys, "argv", ["experiments", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as end:
            code = end.code
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def write_pairs():
    """Writes pairs of equal and of reversed sentences, 40 from some number on."""

    def write(path, start):
        rows = ["text_a\ttext_b\tlabel"]
        for i in range(start, start + 40):
            first, second = f"dog{i} bites man{i}", f"man{i} bites dog{i}"
            rows.append(f"{first}\t{second if i % 2 else first}\t{1 - i % 2}")
        path.write_bytes(gzip.compress("\n".join(rows).encode() + b"\n"))

    return write


@pytest.fixture
def paws(tmp_path, monkeypatch, write_pairs):
    """The data home, with training pairs of PAWS; there is no test file."""
    folder = tmp_path / "home" / "pairs"
    folder.mkdir(parents=True)
    for name, start in (("paws-wiki.dev", 0), ("paws-qqp.train", 40)):
        write_pairs(folder / f"{name}.tsv.gz", start)
    monkeypatch.setenv("WORDWAVE_DATA", str(folder.parent))
    monkeypatch.setenv("COLUMNS", "100")
    from experiments.enrich import paws_splits

    paws_splits.cache_clear()
    yield folder
    paws_splits.cache_clear()
