"""Splits: stratified, the same for the same seed, and nothing in two parts."""

import gzip
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.data.registry import data_home, dataset_named, names
from wordwave.data.splits import DataConfig, folds, load_examples, load_splits, stratified_split

label_lists = st.lists(st.sampled_from("abcde"), min_size=1, max_size=200)
SENTIMENT = dataset_named("mr").classes


@given(label_lists, st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_split_is_stratified_and_loses_nothing(labels, share, seed):
    rest, held = stratified_split(labels, share, seed)
    assert sorted(rest + held) == list(range(len(labels)))
    assert (rest, held) == stratified_split(labels, share, seed)
    of_all, of_held = Counter(labels), Counter(labels[i] for i in held)
    for label, n in of_all.items():
        assert of_held[label] < n
        assert abs(of_held[label] - share * n) <= 1
    assert held or max(of_all.values()) == 1


def test_a_split_has_the_share_asked_for_and_depends_on_the_seed():
    labels = ["a"] * 700 + ["b"] * 200 + ["c"] * 99 + ["d"]
    rest, held = stratified_split(labels, 0.1, 0)
    assert Counter(labels[i] for i in held) == {"a": 70, "b": 20, "c": 10}
    assert held != stratified_split(labels, 0.1, 1)[1]
    assert labels.index("d") in rest


def test_a_split_stays_as_it_is_for_good():
    assert stratified_split(list("aaaaabbbbb"), 0.4, 7)[1] == [1, 3, 6, 8]


@given(label_lists.filter(lambda labels: len(labels) > 1), st.integers(2, 10), st.integers(0, 5))
def test_folds_are_even_in_size_and_classes(labels, n, seed):
    n = min(n, len(labels))
    parts = folds(labels, n, seed)
    assert sorted(i for part in parts for i in part) == list(range(len(labels)))
    assert parts == folds(labels, n, seed)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for label in set(labels):
        counts = [sum(labels[i] == label for i in part) for part in parts]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: stratified_split(["a"], 1.0, 0), "share must be between 0 and 1, got 1.0"),
        (lambda: stratified_split([], 0.5, 0), "labels must not be empty"),
        (lambda: folds(["a", "b"], 3), r"n must be at least 2 and at most 2 \(examples\), got 3"),
        (lambda: load_splits("imdb"), "data set must be one of mr"),
        (lambda: load_splits("mr", fold=10), "fold must be 0 … 9, got 10"),
        (lambda: load_splits("trec", fold=1), r"fold must be 0 … 0 \(trec has an official test"),
    ],
)
def test_mistakes_name_the_argument(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_missing_data_says_which_command_gets_it(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    said = r"'trec\.train\.tsv\.gz' is not in the data home.*; run `wordwave data prepare trec`"
    with pytest.raises(ValueError, match=said):
        load_splits("trec")


@pytest.fixture
def small_home(tmp_path, monkeypatch):
    def rows(n, kind):
        return "".join(f"{i % 2}\t{kind} {i}\n" for i in range(n)).encode()

    for file, n in {"mr": 200, "trec.train": 100, "trec.test": 20, "sst2.train": 50}.items():
        (tmp_path / f"{file}.tsv.gz").write_bytes(gzip.compress(rows(n, file)))
    for file in ("sst2.dev", "sst2.test"):
        (tmp_path / f"{file}.tsv.gz").write_bytes(gzip.compress(rows(10, file)))
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))


def test_without_official_parts_each_text_is_tested_once(small_home):
    tested = []
    for fold in range(10):
        parts = load_splits("mr", fold=fold)
        sizes = len(parts.train), len(parts.dev), len(parts.test)
        assert sizes == (162, 18, 20)
        assert len({*parts.train.texts, *parts.dev.texts, *parts.test.texts}) == 200
        assert Counter(parts.test.labels) == dict.fromkeys(SENTIMENT, 10)
        assert Counter(parts.dev.labels) == dict.fromkeys(SENTIMENT, 9)
        tested += parts.test.texts
    assert len(set(tested)) == 200


def test_the_seed_draws_the_development_part_alone(small_home):
    first, again, other = (load_splits("mr", fold=3, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.test == other.test and first.dev != other.dev


def test_official_parts_are_kept(small_home):
    trec = load_splits("trec")
    assert (len(trec.train), len(trec.dev), len(trec.test)) == (90, 10, 20)
    assert set(trec.test.labels) == {"DESC", "ENTY"}
    assert all(text.startswith("trec.train") for text in trec.dev.texts)
    sst2 = load_splits("sst2")
    assert sst2.dev.texts[0] == "sst2.dev 0" and len(sst2.train) == 50
    assert sst2.train.name == "sst2 train" and trec.dev.name == "trec dev"


@pytest.mark.parametrize("name", names("classification"))
def test_true_sets_load_whole(name):
    dataset = dataset_named(name)
    if not all((data_home() / file.path).exists() for file in dataset.files):
        pytest.skip(f"WORDWAVE_DATA has no {name}")
    parts = load_splits(name)
    assert len(parts.train) + len(parts.dev) + len(parts.test) == dataset.rows
    for part in (parts.train, parts.dev, parts.test):
        assert set(part.labels) == set(dataset.classes)


@pytest.mark.parametrize(
    ("share", "sizes"), [(None, (90, 10)), (0.1, (90, 10)), (0.25, (75, 25)), (0.0, (100, 0))]
)
def test_the_share_asked_for_is_held_out_of_a_data_set_by_name(small_home, share, sizes):
    parts = load_examples(DataConfig(data="trec", dev_share=share))
    assert (len(parts.train), len(parts.dev or [])) == sizes and len(parts.test) == 20
    if share in (None, 0.1):
        assert parts == load_splits("trec")


def test_a_share_is_refused_where_there_is_a_validation_set(small_home, tmp_path):
    with pytest.raises(ValueError, match=r"'sst2' has a validation set, got dev_share 0\.2"):
        load_examples(DataConfig(data="sst2", dev_share=0.2))
    assert load_examples(DataConfig(data="sst2")) == load_splits("sst2")
    with pytest.raises(ValueError, match=r"dev and dev_share both .* got 'dev.csv' and 0\.0"):
        load_examples(DataConfig(data="train.csv", dev="dev.csv", dev_share=0.0))
