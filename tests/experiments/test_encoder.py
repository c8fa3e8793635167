"""`python -m experiments encoder`: its records, and the probes of sentence vectors."""

import gzip
import json
import shutil

import pytest
import torch
from torch.testing import assert_close

from experiments import encoder, probes
from experiments.probes import MATRIX, ProbeData, ProductEncoder, accuracy, train_words
from tolerance import rounding
from wordwave.tasks.sentence_encoder import PRETRAINED, SentenceEncoder


@torch.no_grad()
def test_products_are_those_of_the_matrices_in_order():
    torch.manual_seed(0)
    model = ProductEncoder("CBOW and CMOW", 9)
    ids = torch.tensor([[3, 1, 4, 1, 5, 8, 2], [7, 6, 0, 0, 0, 0, 0]])
    found = model(ids)
    for row, vector in zip(ids, found, strict=True):
        words = row[row > 0]
        product = torch.eye(MATRIX)
        for word in words:
            product = product @ model.matrices.weight[word].view(MATRIX, MATRIX)
        mean = model.vectors.weight[words].mean(dim=0)
        close = rounding(terms=MATRIX * len(words), size=float(product.abs().max()))
        assert_close(vector, torch.cat([mean, product.flatten()]), **close)


def test_a_probe_finds_what_is_there_and_no_more():
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(600) % 2
    data = ProbeData([], targets, (400, 100, 100))
    noise = torch.randn(600, 8, generator=generator)
    there = noise.clone()
    there[:, 3] += 6 * targets
    assert accuracy(there, data) > 0.95 and accuracy(there, data, hidden=8) > 0.95
    assert accuracy(noise, data) < 0.7


def test_words_of_the_same_windows_become_similar():
    texts = ["the cat sleeps here", "the dog sleeps here", "one sun shines above"] * 60
    encode = train_words("CBOW", texts, n_windows=20_000)
    cat, dog, sun = torch.nn.functional.normalize(encode(["cat", "dog", "sun"]))
    assert cat @ dog > cat @ sun


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Validation pairs, and sentences for probes."""
    folder = tmp_path / "home"
    for name in ("pairs", "sentences"):
        (folder / name).mkdir(parents=True)
    rows = [f"dog{i} bites man{i}\tman{i} bites dog{i}\t{i % 2}" for i in range(20)]
    for name in encoder.PAIRS:
        label = "label" if name == "paws-wiki" else "score"
        table = "\n".join([f"text_a\ttext_b\t{label}", *rows]) + "\n"
        (folder / f"pairs/{name}.dev.tsv.gz").write_bytes(gzip.compress(table.encode()))
    monkeypatch.setenv("WORDWAVE_DATA", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.mark.slow
def test_scores_are_those_of_one_file(home, tmp_path, experiments):
    out, other = tmp_path / "results" / "encoder", tmp_path / "other"
    shutil.copytree(PRETRAINED / "english", other)
    changed = SentenceEncoder.load(other)
    with torch.no_grad():
        changed.model.embedding["order"].weight.zero_()
    changed.save(other, dtype="int8")
    for name in ("english", other, "english"):
        code, said, err = experiments("encoder", "--encoder", name, "--out", out)
        assert code == 0 and "0.1" in said, err
    records = [json.loads(line) for line in (out / "scores.jsonl").open()]
    names = [record["encoder"] for record in records]
    assert len(records) == 24 and len(set(names)) == 2 and names[0] == encoder.FIRST


@pytest.mark.slow
def test_probes_are_trained_once(home, tmp_path, monkeypatch):
    names = [f"{a}{b}" for a in "bdfgklm" for b in ("ana", "eno", "ili", "oro")]
    lines = [
        f"{a} {verb} the {b} and then {c} {verb} it again"
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        for verb in ("sees", "finds")
        for c in (names[(i * j) % len(names)],)
    ]
    path = home / "sentences/wikipedia.txt.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    monkeypatch.setattr(probes, "training_sentences", lambda: lines[:40])
    for name, value in {"FIRST_RANK": 5, "N_WORDS": 4, "PER_WORD": (4, 2, 2)}.items():
        monkeypatch.setattr(probes, name, value)
    monkeypatch.setattr(probes, "PROBE_EPOCHS", 2)
    for cached in (probes.unseen_sentences, probes.probe_data):
        cached.cache_clear()
    table = probes.ProbeTable(tmp_path, SentenceEncoder.from_pretrained(), "abc")
    for _ in range(2):
        for model in ("encoder", "encoder, order"):
            table.run(model)
    assert len(table.store.records()) == 4
    widths = {r["model"]: r["width"] for r in table.store.records()}
    assert widths == {"encoder": 448, "encoder, order": 192}
    assert "| encoder, order | 192 |" in table.table().to_markdown()
    for cached in (probes.unseen_sentences, probes.probe_data):
        cached.cache_clear()
