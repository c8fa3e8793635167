"""The comparison of the default classifier with TF-IDF and fastText."""

import gzip

import pytest

from experiments.classifier import ClassifierTable, drawn, parts_of
from wordwave.data.examples import Examples

ROWS = ("waves", "tfidf", "fasttext-library")


def record(row, draw, accuracy, size=60, n_predicted=2, data="mr"):
    return {
        "part": "test", "data": data, "size": size, "draw": draw, "row": row, "n_train": size or 90,
        "n_scored": 100, "accuracy": accuracy, "n_classes": 2, "n_predicted": n_predicted,
        "seconds": 1.0, "settings": {},
    }  # fmt: skip


def test_the_difference_is_to_the_better_rival_draw_by_draw(tmp_path):
    accuracies = {
        "waves": (0.6, 0.7, 0.8),
        "tfidf": (0.5, 0.6, 0.7),
        "fasttext-library": (0.4,) * 3,
    }
    records = [record(r, i, a) for r, some in accuracies.items() for i, a in enumerate(some)]
    (table,) = ClassifierTable(tmp_path, ROWS, score_test=True).tables(records)
    line = dict(zip(table.columns, table.rows[0], strict=True))
    assert line["difference"].mean == pytest.approx(0.1)
    assert line["difference"].half == pytest.approx(0.0, abs=1e-9)
    assert line["draws"] == 3
    assert "lies below −0.01: 0." in table.notes[2]


def test_the_gain_from_vectors_is_draw_by_draw_where_there_are_enough(tmp_path):
    records = [record("waves", i, 0.5 + 0.1 * i) for i in range(4)]
    records += [record("waves-vectors", i, 0.52 + 0.1 * i) for i in range(3)]
    records += [record(row, 0, 0.5, size=200) for row in ("waves", "waves-vectors")]
    (table,) = ClassifierTable(tmp_path, ROWS, score_test=True).tables(records)
    (gains,) = (note for note in table.notes if note.startswith("Gain from word2vec"))
    assert gains.endswith("interval: mr, 60 texts: +0.020 ± 0.000 (3 draws).")
    (table,) = ClassifierTable(tmp_path, ROWS, score_test=True).tables(records[:4])
    assert not any("word2vec" in note for note in table.notes)


def test_cells_below_the_margin_and_single_classes_are_counted(tmp_path):
    records = [record("waves", i, 0.5 + 0.001 * i, n_predicted=1 + (i > 0)) for i in range(3)]
    records += [record("tfidf", i, 0.6 + 0.001 * i) for i in range(3)]
    records += [record("fasttext-library", i, 0.4) for i in range(3)]
    # as low on average, but the interval is wide
    records += [record("waves", i, 0.5, size=200) for i in range(3)]
    records += [record("tfidf", i, a, size=200) for i, a in enumerate((0.5, 0.3, 0.9))]
    records += [record("fasttext-library", i, 0.4, size=200) for i in range(3)]
    (table,) = ClassifierTable(tmp_path, ROWS, score_test=True).tables(records)
    assert "lies below −0.01: 1." in table.notes[2]
    assert table.notes[2].endswith("predicts more: 1.")
    mean = dict(zip(table.columns, table.rows[-1], strict=True))
    assert mean["wordwave"] == pytest.approx((0.501 + 0.5) / 2)


def test_draws_are_the_same_for_all_rows_and_nested_in_size():
    pool = Examples([str(i) for i in range(50)], ["a", "b"] * 25)
    few, more = drawn(pool, 10, 3), drawn(pool, 20, 3)
    assert list(few.texts) == list(more.texts)[:10]
    assert list(few.texts) != list(drawn(pool, 10, 4).texts)
    assert sorted(drawn(pool, 0, 1).texts) == sorted(pool.texts)


def test_validation_parts_are_only_those_that_may_choose(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="validation parts"):
        parts_of("cr", "validation")
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    for part, n in (("train", 40), ("test", 12)):
        with gzip.open(tmp_path / f"trec.{part}.tsv.gz", "wt") as file:
            file.writelines(f"{i % 6}\t{part} question {i}\n" for i in range(n))
    parts_of.cache_clear()
    pool, scored = parts_of("trec", "validation")
    everything, test = parts_of("trec", "test")
    parts_of.cache_clear()
    assert not any(text.startswith("test") for text in (*pool.texts, *scored.texts))
    assert {*pool.texts, *scored.texts} == {*everything.texts}
    assert all(text.startswith("test") for text in test.texts)
