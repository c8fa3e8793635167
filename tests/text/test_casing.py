"""Capitals for texts of small letters."""

import pytest

from wordwave.text.tokenizers import Casing

TEXTS = ["Der Hund sieht das Haus. Das ist rot.", "Ein Hund bellt; IBM und das T-Shirt!", "Rot"]


def test_words_are_spelled_as_they_are_inside_sentences():
    casing = Casing.learn(TEXTS)
    assert casing.forms == {"hund": "Hund", "haus": "Haus", "ibm": "IBM", "t-shirt": "T-Shirt"}
    assert casing.restored("das haus ist rot . der hund auch") == "Das Haus ist rot . Der Hund auch"


def test_of_spellings_seen_as_often_the_small_one_counts():
    assert Casing.learn(["x Grün", "x grün"]).forms == {}


def test_nothing_is_restored_of_nothing():
    assert Casing({}).restored("") == ""


def test_small_letters_stay_what_they_are():
    casing = Casing.learn(TEXTS)
    for text in ("ein unbekanntes wort", "hund und haus !"):
        assert casing.restored(text).lower() == text


def test_a_spelling_of_another_word_is_refused():
    with pytest.raises(ValueError, match="must be that of 'hund'"):
        Casing({"hund": "Katze"})
