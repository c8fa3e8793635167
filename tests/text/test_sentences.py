"""Sentences in one flat tensor: batches equal those made by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.compiled import SWITCH
from wordwave.text.batching import Sentences, bucketed, consecutive

rows_of_ids = st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=8)
dtypes = st.sampled_from(["int", "long"])


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


@given(
    rows=rows_of_ids, data=st.data(), parts=st.booleans(), dtype=st.sampled_from(["int", "long"])
)
def test_batches_without_padding_are_the_same_with_and_without_kernels(rows, data, parts, dtype):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    plain = Sentences.from_lists(rows)
    options = {}
    if parts:  # two ids at each position but the last
        places = torch.arange(len(plain.ids)) - plain.starts.repeat_interleave(plain.lengths)
        options = {"positions": (places // 2 + 1).int(), "weights": torch.rand(len(places))}
    sentences = Sentences(getattr(plain.ids, dtype)(), plain.lengths, **options)
    fast = sentences.batch(chosen)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(SWITCH, "1")
        slow = sentences.batch(chosen)
    assert all(torch.equal(one, other) for one, other in zip(fast[:4], slow[:4], strict=True))
    assert fast.one_each == slow.one_each == (not parts) and fast.size == len(chosen)
    assert [row.tolist() for row in fast.ids.split(fast.lengths.tolist())] == [
        rows[i] or [1] for i in chosen
    ]
    if chosen:
        assert torch.equal(fast.padded()[0], sentences.padded(chosen))
        mask = fast.word_mask()
        assert int(mask.sum()) == fast.n_words
        moved = fast.moved(torch.arange(1, mask.shape[1] + 1).expand(mask.shape) * 3)
        assert torch.equal(moved.positions, 3 * fast.positions)


def test_a_dropped_word_is_dropped_with_its_parts():
    ids, positions = torch.tensor([7, 8, 9, 5, 6]), torch.tensor([1, 1, 2, 1, 1])
    sentences = Sentences(ids, torch.tensor([3, 2]), positions=positions)
    batch = sentences.batch([0, 1])
    assert batch.begins_word.tolist() == [True, False, True, True, False]
    dropped = batch.without(torch.tensor([True, False, False, False, True]))
    assert dropped.ids.tolist() == [1, 1, 9, 5, 6]
    assert dropped.weights.tolist() == [1, 0, 1, 1, 1]
    shares = batch._replace(weights=torch.tensor([1.0, 3.0, 0.0, 0.0, 0.0])).shares(1.0)
    assert shares.tolist() == [0.25, 0.75, 0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="positions must have the shape of ids"):
        Sentences(ids, torch.tensor([5]), positions=positions[:2])


@given(lengths=st.lists(st.integers(1, 50), max_size=20), most=st.integers(1, 5))
def test_consecutive_batches_have_every_row_once(lengths, most):
    parts = consecutive(torch.tensor(lengths, dtype=torch.long), 60, most)
    assert [row for part in parts for row in part.tolist()] == list(range(len(lengths)))
    for part in parts:
        assert len(part) <= most
        assert len(part) == 1 or sum(lengths[i] for i in part.tolist()[:-1]) <= 60


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
