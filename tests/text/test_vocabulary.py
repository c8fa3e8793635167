"""Vocabularies: which words, in which order, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.text.vocabulary import Vocabulary

LISTS = [["b", "a", "b"], ["c", "b", "a", "d"]]
token_lists = st.lists(st.lists(st.text(max_size=3)))


def test_frequent_words_come_first_then_the_alphabet():
    assert Vocabulary.build(LISTS).words == ("<pad>", "<unk>", "b", "a", "c", "d")
    assert Vocabulary.build(LISTS, min_count=2).words[2:] == ("b", "a")
    assert Vocabulary.build(LISTS, max_size=3).words[2:] == ("b", "a", "c")


def test_extra_words_follow_however_they_are_ordered():
    for extra in (["z", "d", "b", "y"], ["y", "b", "z", "d", "z"], {"b", "y", "z", "d"}):
        built = Vocabulary.build(LISTS, min_count=2, max_size=1, extra_words=extra)
        assert built.words[2:] == ("b", "d", "y", "z")


def test_ids_of_known_and_unknown_words():
    vocabulary = Vocabulary.build(LISTS)
    assert vocabulary.ids(["a", "never seen", "b"]) == [3, 1, 2]
    assert "a" in vocabulary and "never seen" not in vocabulary and len(vocabulary) == 6


def test_a_token_spelled_like_a_special_is_an_unknown_word():
    vocabulary = Vocabulary.build([["<pad>", "a", "<unk>"]], extra_words=["<unk>"])
    assert vocabulary.words == ("<pad>", "<unk>", "a")
    assert vocabulary.ids(["<pad>", "<unk>"]) == [1, 1]


@given(token_lists)
def test_every_word_has_its_own_id_and_json_keeps_them(lists):
    vocabulary = Vocabulary.build(lists)
    again = Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict())))
    assert again.words == vocabulary.words
    for tokens in lists:
        assert [vocabulary.words[i] for i in again.ids(tokens)] == tokens


@given(token_lists)
def test_the_order_of_the_texts_does_not_matter(lists):
    assert Vocabulary.build(lists).words == Vocabulary.build(lists[::-1]).words


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"words": ["<pad>", "<unk>", "a", "b", "a"]}, "must differ, got 'a' twice"),
        ({"words": ["<pad>", "<unk>", "<pad>"]}, "must differ, got '<pad>' twice"),
        ({"words": ["<pad>", "<unk>", 7]}, "must be strings, got 7 at 2"),
        ({"words": ["<pad>", "a"]}, "must begin with"),
        ({"words": []}, "must begin with"),
        ({"words": "<pad>"}, "must be {'words'"),
        ({}, "must be {'words'"),
        ([], "must be {'words'"),
    ],
)
def test_a_broken_file_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_dict(data)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="min_count must be at least 1, got 0"):
        Vocabulary.build(LISTS, min_count=0)
    with pytest.raises(ValueError, match="max_size must be at least 1 or None, got 0"):
        Vocabulary.build(LISTS, max_size=0)
    with pytest.raises(ValueError, match="lists of tokens, got the text 'a text'"):
        Vocabulary.build(["a text"])
