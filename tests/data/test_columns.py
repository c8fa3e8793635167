"""Tables of many rows: the same texts, splits and fingerprints as of lists, without the lists."""

import gc
import pickle
import random
from hashlib import sha256

import pytest

from wordwave.data import columns
from wordwave.data.columns import CodedLabels, StoredTexts, collect
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits, cut_dev, folds, held_out_share, stratified_split
from wordwave.data.tables import read_examples
from wordwave.errors import WordwaveError
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import PlainTokenizer
from wordwave.text.vocabulary import Vocabulary

RNG = random.Random(0)
TEXTS = ["".join(RNG.choices("aé語 \n'\"\\", k=RNG.randrange(12))) for _ in range(500)]
LABELS = [RNG.choice(["x", "y", 'z"']) for _ in TEXTS]


@pytest.fixture
def many(monkeypatch):
    """The columns as those of a large file."""
    monkeypatch.setattr(columns, "MANY", 100)
    monkeypatch.setattr(columns, "BLOCK", 64)
    texts, labels = collect(zip(TEXTS, LABELS, strict=True))
    assert isinstance(texts, StoredTexts) and isinstance(labels, CodedLabels)
    return Examples(texts, labels, "many")


def test_stored_columns_are_sequences_like_lists(many):
    for found, wanted in ((many.texts, TEXTS), (many.labels, LABELS)):
        assert list(found) == wanted and len(found) == len(wanted)
        assert found[3] == wanted[3] and found[-1] == wanted[-1]
        assert found[5:200:7] == wanted[5:200:7] and found[:0] == []
        assert pickle.loads(pickle.dumps(found)) == wanted
        with pytest.raises(IndexError):
            found[len(wanted)]


@pytest.mark.parametrize("rows", [[1, 2, 3], [0, 499], [400, 7, 7, 250], list(range(499)), []])
def test_subsets_of_subsets_are_those_of_lists(many, rows):
    there = many.subset(range(0, 500)).subset(rows)
    assert list(there.texts) == [TEXTS[i] for i in rows]
    assert list(there.labels) == [LABELS[i] for i in rows]


def test_few_rows_stay_lists():
    assert collect([("a", "x")]) == (["a"], ["x"])


def former_fingerprint(parts):
    """How runs of earlier versions computed it; they must find their data unchanged."""
    digest = sha256()
    for part in (parts.train, parts.dev, parts.test):
        if part is not None:
            digest.update(repr((list(part.texts), list(part.labels))).encode())
    return digest.hexdigest()[:16]


def test_splits_and_fingerprints_are_those_of_lists_and_of_earlier_versions(many):
    small = Splits(*cut_dev(Examples(TEXTS, LABELS)), None)
    large = Splits(*cut_dev(many), None)
    assert list(large.train.texts) == small.train.texts
    assert list(large.dev.labels) == small.dev.labels
    assert former_fingerprint(small) == small.fingerprint() == large.fingerprint()
    empty = Splits(Examples([], []), None, None)
    assert empty.fingerprint() == former_fingerprint(empty)


def test_stratified_splits_and_folds_are_those_of_earlier_versions():
    rng = random.Random(3)
    members = {
        label: [i for i, name in enumerate(LABELS) if name == label] for label in sorted({*LABELS})
    }
    shuffled = [sorted(group, key=lambda _: rng.random()) for group in members.values()]
    rest, held = stratified_split(LABELS, 0.1, 3)
    assert all(set(group[: len(group) // 10]) <= set(held) for group in shuffled)
    assert sorted(rest + held) == list(range(500)) and len(held) == 50
    dealt = [i for group in shuffled for i in group]
    assert folds(LABELS, seed=3) == [sorted(dealt[k::10]) for k in range(10)]


def test_texts_of_a_file_are_encoded_like_those_of_a_list(many):
    tokenizer = PlainTokenizer()
    vocabulary = Vocabulary.build(map(tokenizer, TEXTS))
    encoder = TextEncoder(tokenizer, vocabulary, max_length=3)
    found, wanted = encoder.encode(many.texts), encoder.encode(TEXTS)
    assert found.sentences.ids.equal(wanted.sentences.ids)
    assert found.sentences.lengths.equal(wanted.sentences.lengths)
    assert found.n_truncated == wanted.n_truncated > 0
    with pytest.raises(WordwaveError, match="texts must be strings, got 7 at 5000"):
        encoder.encode(["a"] * 5000 + [7])


def test_reading_a_large_file_keeps_no_string_of_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "MANY", 1000)
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"the text {i},{i % 3}\n" for i in range(20_000)))
    before = len(gc.get_objects())
    import tracemalloc

    tracemalloc.start()
    examples = read_examples(path)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(examples) == 20_000 and len(gc.get_objects()) - before < 5_000
    assert kept < 20_000 * 30  # two strings and two pointers of a row would be 150 bytes


@pytest.mark.parametrize(
    ("n", "share", "patience", "wanted"),
    [
        (999, None, 0, 0),
        (999, None, 2, 0.1),
        (1000, None, 0, 0.1),
        (50_000, None, 0, 0.02),
        (50_000, 0.3, 0, 0.3),
        (10, 0.3, 0, 0.3),
        (5000, 0, 0, 0),
    ],
)
def test_few_examples_are_all_trained_on_and_of_many_at_most_1000_are_held_out(
    n, share, patience, wanted
):
    assert held_out_share(n, share, patience=patience) == wanted
