"""Sentences in one flat tensor: batches equal those made by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.text.batching import Sentences, bucketed

rows_of_ids = st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=8)


def padded_by_hand(rows):
    rows = [row or [1] for row in rows]
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


@given(rows=rows_of_ids, data=st.data())
def test_padded_is_what_a_loop_would_make(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=10))
    sentences = Sentences.from_lists(rows)
    expected = padded_by_hand([rows[i] for i in chosen])
    assert len(sentences) == len(rows)
    assert torch.equal(sentences.padded(torch.tensor(chosen)), expected)
    assert torch.equal(sentences.padded(chosen), expected)
    assert expected.dtype == sentences.padded(chosen).dtype


@given(rows=rows_of_ids, extra=st.integers(0, 3))
def test_from_padded_is_from_lists(rows, extra):
    matrix = torch.zeros(len(rows), max(map(len, rows)) + extra, dtype=torch.long)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    got, expected = Sentences.from_padded(matrix), Sentences.from_lists(rows)
    assert torch.equal(got.ids, expected.ids) and torch.equal(got.lengths, expected.lengths)


def test_a_sentence_of_no_words_is_one_unknown_word():
    sentences = Sentences.from_lists([[], [5, 6], [], []])
    assert sentences.lengths.tolist() == [1, 2, 1, 1]
    assert sentences.padded([0, 1, 3]).tolist() == [[1, 0], [5, 6], [1, 0]]


def test_no_sentences_and_no_rows():
    assert len(Sentences.from_lists([])) == 0
    assert len(Sentences.from_padded(torch.zeros(0, 3, dtype=torch.long))) == 0
    assert Sentences.from_padded(torch.zeros(2, 0, dtype=torch.long)).lengths.tolist() == [1, 1]
    assert Sentences.from_lists([[2]]).padded([]).shape == (0, 0)


def test_small_integers_come_out_as_int64():
    ids = torch.tensor([3, 4, 5], dtype=torch.int32)
    batch = Sentences(ids, torch.tensor([2, 1])).padded([0, 1])
    assert batch.dtype == torch.int64 and batch.tolist() == [[3, 4], [5, 0]]


def test_bucketed_batches_hold_every_word_once():
    sentences = Sentences.from_lists([[i + 1] * (i % 7 + 1) for i in range(50)])
    batches = bucketed(sentences.lengths, 8, generator=torch.Generator().manual_seed(0))
    words = torch.cat([sentences.padded(rows).flatten() for rows in batches])
    assert torch.equal(words[words > 0].sort().values, sentences.ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sentences.from_lists([[1, 0]]), "ids must be above 0, the padding, got 0"),
        (lambda: Sentences.from_lists([[-3]]), "got -3"),
        (lambda: Sentences.from_padded(torch.tensor([[1, 2], [0, 2]])), r"end of a row.*\[0, 2\]"),
        (lambda: Sentences.from_padded(torch.tensor([1])), r"must be \(N, L\), got \(1,\)"),
        (lambda: Sentences(torch.tensor([1, 2]), torch.tensor([1])), "2 ids, got a sum of 1"),
        (lambda: Sentences(torch.tensor([1]), torch.tensor([2, -1])), "lengths must be at least 0"),
        (lambda: Sentences(torch.tensor([1.5]), torch.tensor([1])), "integers, got torch.float32"),
        (lambda: Sentences(torch.tensor([[1]]), torch.tensor([1])), "must have one dimension"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
