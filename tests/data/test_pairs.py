"""Pairs of sentences: groups, validation sets that share no sentence, and what is refused."""

import gzip
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wordwave.data import pairs as pairs_module
from wordwave.data.pairs import (
    BUILT_IN_FILE,
    PairDataConfig,
    TextPairs,
    hold_out,
    load_pair_splits,
    read_pairs,
)
from wordwave.data.tables import number_cell
from wordwave.tasks.matching import load_pairs

COLUMNS = {"text_a": "a", "text_b": "b", "label": "label"}
names = st.integers(0, 14).map(lambda i: f"s{i}")
tables = st.lists(st.tuples(names, names, st.sampled_from("xy")), min_size=2, max_size=30)


def pairs(rows):
    first, second, labels = map(list, zip(*rows, strict=True))
    return TextPairs(first, second, labels, "rows")


def rows_of(part):
    return list(zip(part.first, part.second, part.labels, strict=True))


def connected(rows):
    """For each pair all pairs that it is connected with, by the slow definition."""
    found = []
    for a, b, _ in rows:
        texts, before = {a, b}, set()
        while texts != before:
            before = set(texts)
            for one, other, _ in rows:
                if {one, other} & texts:
                    texts |= {one, other}
        found.append(frozenset(texts))
    return found


@given(rows=tables)
def test_groups_are_the_pairs_connected_by_shared_sentences(rows):
    numbers, expected = pairs(rows).groups(), connected(rows)
    for i in range(len(rows)):
        for j in range(i):
            assert (numbers[i] == numbers[j]) == (expected[i] == expected[j])


def test_a_long_chain_of_shared_sentences_is_one_group():
    chain = pairs([(f"{i}", f"{i + 1}", "x") for i in range(50_000)])
    assert set(chain.groups()) == {0}


@given(rows=tables, seed=st.integers(0, 99))
def test_the_held_out_part_shares_no_sentence_and_takes_no_class_away(rows, seed):
    whole = pairs(rows)
    try:
        train, dev = hold_out(whole, seed=seed, share=0.3)
    except ValueError:
        assume(False)
    assert sorted(rows_of(train) + rows_of(dev)) == sorted(rows)
    assert not {*train.first, *train.second} & {*dev.first, *dev.second}
    assert 1 <= len(dev) <= max(1, round(0.3 * len(rows)))
    assert set(train.labels) == set(whole.labels)
    again = hold_out(whole, seed=seed, share=0.3)
    assert (rows_of(train), rows_of(dev)) == tuple(map(rows_of, again))


def test_a_tenth_is_held_out_and_another_seed_holds_out_others():
    whole = pairs([(f"a{i}", f"b{i}", "xy"[i % 2]) for i in range(200)])
    train, dev = hold_out(whole)
    assert len(train) == 180 and len(dev) == 20 and set(dev.labels) == {"x", "y"}
    assert (train.name, dev.name) == ("rows train", "rows dev")
    assert rows_of(hold_out(whole, seed=1)[1]) != rows_of(dev)


def test_the_only_pair_of_a_class_is_trained_on_and_scores_are_no_classes():
    rare = pairs([(f"a{i}", f"b{i}", "rare" if i == 7 else "usual") for i in range(20)])
    for seed in range(30):
        assert "rare" in hold_out(rare, seed=seed)[0].labels
    scored = pairs([(f"a{i}", f"b{i}", str(i)) for i in range(20)])
    assert len(hold_out(scored, keep_classes=False)[1]) == 2


def test_where_all_pairs_share_sentences_a_validation_set_is_asked_for():
    star = pairs([("hub", f"b{i}", "xy"[i % 2]) for i in range(20)])
    with pytest.raises(ValueError, match=r"rows: too many pairs share .*name one with --dev"):
        hold_out(star)


def written(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_pairs_are_read_from_any_table(tmp_path):
    rows = [('say "no", twice', "ü ☂", "1"), ("c", "d", "0")]
    for name, lines in {
        "p.csv": ["label,b,a", '1,ü ☂,"say ""no"", twice"', "0,d,c"],
        "p.tsv": ["a\tb\tlabel", 'say "no", twice\tü ☂\t1', "c\td\t0"],
        "p.jsonl": [json.dumps({"a": a, "b": b, "label": int(y)}) for a, b, y in rows],
    }.items():
        found = read_pairs(written(tmp_path / name, *lines), **COLUMNS)
        assert rows_of(found) == rows and len(found) == 2 and found.name == str(tmp_path / name)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b"], "there is no column 'label', only 'a', 'b'; name it with label=…"),
        (["a,other,label", "x,y,1"], "there is no column 'b'"),
        (["a,b,label"], "must hold at least one pair, got none"),
        (["a,b,label", "x,y,1", ",y,1"], "line 3: 'a' must hold a text, got nothing"),
        (["a,b,label", "x,,1"], "line 2: 'b' must hold a text, got nothing"),
        (["a,b,label", "x,y,"], "line 2: 'label' must hold a label, got nothing"),
        (["a,b,label", "x,y"], "line 2 must have 3 cells like the first line, got 2"),
    ],
)
def test_bad_tables_are_refused_by_line(tmp_path, lines, message):
    path = written(tmp_path / "p.csv", *lines)
    with pytest.raises(ValueError, match=message):
        read_pairs(path, **COLUMNS)


def test_three_columns_are_needed(tmp_path):
    path = written(tmp_path / "p.csv", "a,b,label", "x,y,1")
    with pytest.raises(ValueError, match="three columns are needed, got 'a', 'a', 'label'"):
        read_pairs(path, text_a="a", text_b="a", label="label")


@pytest.mark.parametrize(
    "cell", ["NaN", "Infinity", "true", '"many"', '""', "null", "1" + "0" * 400]
)
def test_a_score_is_a_finite_number(tmp_path, cell):
    good = '{"a": "x", "b": "y", "label": 3}'
    path = written(tmp_path / "p.jsonl", good, good.replace("3", "-2.5e1"))
    assert read_pairs(path, **COLUMNS, checked=number_cell).labels == ["3", "-25.0"]
    path = written(tmp_path / "p.jsonl", good, good.replace("3", cell))
    with pytest.raises(ValueError, match="line 2: 'label' must hold a number, got"):
        read_pairs(path, **COLUMNS, checked=number_cell)


def prepared(home, name, *lines):
    path = home / "pairs" / f"{name}.tsv.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def test_data_sets_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    rows = [f"a{i}\tb{i}\t{i % 2}" for i in range(20)]
    prepared(tmp_path, "paws-wiki.dev", "text_a\ttext_b\tlabel", *rows)
    with pytest.raises(ValueError, match=r"data home .*put it there"):
        load_pair_splits("paws-wiki")
    prepared(tmp_path, "paws-wiki.test", "text_a\ttext_b\tlabel", *rows[:3])
    found = load_pair_splits("paws-wiki")
    assert (len(found.train), len(found.dev), len(found.test)) == (18, 2, 3)
    assert found.test.labels == ["different", "paraphrase", "different"]
    for wrong in ("2", "-1", "x"):
        prepared(tmp_path, "paws-wiki.test", "text_a\ttext_b\tlabel", f"a\tb\t{wrong}")
        with pytest.raises(ValueError, match=f"line 2: label must be 0 … 1, got '{wrong}'"):
            load_pair_splits("paws-wiki")


@pytest.mark.parametrize(("share", "n_dev"), [(None, 2), (0.5, 10), (0.0, None)])
def test_the_share_counts_for_a_data_set_without_validation_pairs(
    tmp_path, monkeypatch, share, n_dev
):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    rows = [f"a{i}\tb{i}\t{i % 2}" for i in range(20)]
    for part in ("dev", "test"):
        prepared(tmp_path, f"paws-wiki.{part}", "text_a\ttext_b\tlabel", *rows)
    parts = load_pairs(PairDataConfig("paws-wiki", dev_share=share))
    assert (None if parts.dev is None else len(parts.dev)) == n_dev
    assert len(parts.train) == 20 - (n_dev or 0)
    if share is None:
        assert parts == load_pair_splits("paws-wiki")


def test_the_built_in_pairs_are_whole_and_their_parts_share_no_sentence():
    parts = load_pair_splits("built-in")
    parts = (parts.train, parts.dev, parts.test)
    assert [len(part) for part in parts] == [6_400, 800, 800]
    assert sum(part.labels.count("paraphrase") for part in parts) == 3_539
    assert {label for part in parts for label in part.labels} == {"different", "paraphrase"}
    train, dev, test = (
        {"".join(s.lower().split()) for s in (*part.first, *part.second)} for part in parts
    )
    assert not (train & dev or train & test or dev & test)


def test_the_built_in_pairs_say_where_they_are_from():
    notice = (BUILT_IN_FILE.parent / "NOTICE.md").read_text()
    for words in (BUILT_IN_FILE.name, "Google LLC", "NAACL 2019", "Wikipedia", "any purpose"):
        assert words in notice


@pytest.mark.parametrize("damage", [lambda c: c[:-20], lambda c: gzip.compress(b"a")])
def test_damaged_built_in_pairs_are_refused(tmp_path, monkeypatch, damage):
    file = tmp_path / BUILT_IN_FILE.name
    file.write_bytes(damage(BUILT_IN_FILE.read_bytes()))
    monkeypatch.setattr(pairs_module, "BUILT_IN_FILE", file)
    with pytest.raises(ValueError, match="wrong checksum: install wordwave again"):
        load_pair_splits("built-in")
