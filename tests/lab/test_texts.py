"""Tasks of the suite on real text, with stand-ins for files that are not part of wordwave."""

import gzip

import pytest
import torch

from wordwave.lab import texts
from wordwave.lab.texts import ASK, SEPARATOR, text_task


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    for folder in ("sentences", "pairs"):
        (tmp_path / folder).mkdir()
    with gzip.open(tmp_path / "sentences/wikipedia.txt.gz", "wt") as file:
        file.writelines(f"Line number n{i} is about the town of t{i} .\n" for i in range(60))
    with gzip.open(tmp_path / "pairs/blimp.same-words.tsv.gz", "wt") as file:
        rows = (f"island\tWho{i} did Ann see?\tWho{i} Ann did see?\n" for i in range(40))
        file.writelines(["phenomenon\tgood\tbad\n", *rows])
    for cached in (texts.text_task, texts.fingerprint):
        cached.cache_clear()
    yield
    for cached in (texts.text_task, texts.fingerprint):
        cached.cache_clear()


def draw(name, length, n=40, test=False):
    return text_task(name).draw(n, length, torch.Generator().manual_seed(0), test)


@pytest.mark.parametrize("length", [10, 40, 700])
def test_one_pair_of_neighbours_is_exchanged(length):
    ids, targets, _ = draw("swap-text", length)
    assert ids.shape == (40, length) and (ids[:, -1] == ASK).all()
    assert targets[:, -1].tolist() == [0, 1] * 20
    for no, yes in zip(ids[0::2], ids[1::2], strict=True):
        first, second = (no != yes).nonzero().flatten().tolist()
        assert second == first + 1
        assert no[[second, first]].tolist() == yes[[first, second]].tolist()


def test_sentences_of_training_and_test_differ():
    task = text_task("swap-text")
    kept, held_out = (
        set(task.draw(400, 10, torch.Generator(), test).ids.flatten().tolist())
        for test in (False, True)
    )
    assert len(kept - held_out) > 20  # words of one sentence each


def test_pairs_of_blimp_hold_the_same_words_and_end_in_the_question():
    ids, targets, _ = draw("blimp", 40)
    assert torch.equal(ids[0::2].sort(1).values, ids[1::2].sort(1).values)
    assert (ids[:, -1] == ASK).all() and targets[:, -1].tolist() == [0, 1] * 20
    assert text_task("blimp").longest == 40


def test_paraphrases_are_the_built_in_pairs():
    ids, targets, _ = draw("paws", 40, 64, test=True)
    assert (ids == SEPARATOR).sum(1).eq(1).all() and set(targets[:, -1].tolist()) == {0, 1}
    assert len(texts.fingerprint("paws")) == 16


def test_ones_own_sentences_and_files_that_are_not_there(tmp_path):
    own = tmp_path / "mine.txt"
    own.write_text("\n".join(f"a{i} b c d" for i in range(30)))
    assert text_task("swap-text", own).n_words < 60
    assert texts.fingerprint("swap-text", own) != texts.fingerprint("swap-text")
    with pytest.raises(ValueError, match=r"nowhere.txt'.* is not there: .* with --text"):
        text_task("swap-text", tmp_path / "nowhere.txt")
    own.write_text("same same\n")
    text_task.cache_clear()
    with pytest.raises(ValueError, match="needs more sentences"):
        text_task("swap-text", own)
