"""Minimal pairs of negation and word order."""

from hashlib import sha256

import pytest

from wordwave.tasks.checklist import (
    Checklist,
    builtin_templates,
    builtin_words,
    find_classes,
    read_words,
)

CLASSES = "bad", "fine"


def checklist(*parts):
    return Checklist(CLASSES, builtin_words(*parts), builtin_templates(*parts))


def by_first_word(texts):
    """Predicts the class of the first word that has one, whatever stands before it."""
    negative, positive = map(set, builtin_words())
    known = (next(w for w in text.split() if w in negative | positive) for text in texts)
    return ["bad" if word in negative else "fine" for word in known]


def test_templates_and_words_are_split_by_a_hash():
    def digest(text):
        return sha256(text.encode()).hexdigest()

    templates = builtin_templates()
    assert len({t.name for t in templates}) == len(templates) >= 12
    for kind in ("negation", "scope", "order"):
        of_kind = [t for t in templates if t.kind == kind]
        by_hash = sorted((t.name for t in of_kind if t.name != "not"), key=digest)
        held_out = {t.name for t in of_kind if t.part == "held-out"}
        assert held_out == set(by_hash[: round(len(of_kind) / 3)])
    for open_words, held_out in zip(builtin_words("open"), builtin_words("held-out"), strict=True):
        assert len(held_out) > 40 and not set(open_words) & set(held_out)
        assert all(int(digest(word), 16) % 2 == 0 for word in held_out)


def test_order_templates_have_the_same_words_in_both_texts():
    for pair in checklist().pairs():
        first, second = (sorted(text.split()) for text in pair.texts)
        assert (first == second) == (pair.template.kind == "order"), pair
        assert pair.texts[0] != pair.texts[1] and set(pair.expected) == set(CLASSES)


def test_texts_are_those_of_a_reader():
    words = ["awful", "dull"], ["good", "great", "warm"]
    pairs = Checklist(CLASSES, words, builtin_templates(), "phone").pairs()
    texts = {text: pair.expected[i] for pair in pairs for i, text in enumerate(pair.texts)}
    expected = {
        "good": "fine",
        "not good": "bad",
        "not awful at all": "fine",
        "not an awful phone": "fine",
        "not only good but great": "fine",
        "good , not awful": "fine",
        "awful , not good": "bad",
        "the first half is awful , but the phone is good": "fine",
    }
    assert expected.items() <= texts.items()


def test_who_ignores_negation_has_half_of_the_texts_and_no_pair():
    scores = checklist("open").evaluate(by_first_word)
    negations = [t for t in scores.by_template() if t["template"] in ("not", "it is not", "never")]
    assert [(t["texts"], t["pairs"]) for t in negations] == [(0.5, 0.0)] * 3
    assert scores.negated("bad") == scores.negated("fine") == 0.0


def test_who_is_always_right_has_all():
    made = checklist()
    right = {t: e for p in made.pairs() for t, e in zip(p.texts, p.expected, strict=True)}
    scores = made.evaluate(lambda texts: [right[text] for text in texts]).plain()
    assert scores["texts"] == scores["pairs"] == scores["not_positive_is_negative"] == 1.0
    assert {t["pairs"] for t in scores["templates"]} == {1.0}


def test_the_headline_figures_can_be_had_for_some_words():
    made = checklist("open")
    scores = made.evaluate(lambda texts: ["bad" if t == "not good" else "fine" for t in texts])
    assert scores.negated("fine", ["good"]) == 1.0 and scores.negated("fine", ["great"]) == 0.0
    assert scores.negated("bad") == 1.0 and scores.negated("bad", ["good"]) is None


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["Negative", "Neutral", "Positive"], ("Negative", "Positive")),
        (["neg", "pos"], ("neg", "pos")),
        (["0", "1"], ("0", "1")),
        (["bad", "good"], ("bad", "good")),
    ],
)
def test_classes_are_found_by_their_names(labels, found):
    assert find_classes(labels) == found
    assert find_classes(labels, labels[:2]) == tuple(labels[:2])


def test_what_cannot_be_a_checklist_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'ham', 'spam' is called .* --checklist-classes NEG"):
        find_classes(["ham", "spam"])
    with pytest.raises(ValueError, match="must be one of ham, spam, got 'spamm'; did you mean"):
        find_classes(["ham", "spam"], ["ham", "spamm"])
    templates = builtin_templates()
    with pytest.raises(ValueError, match="the two classes must differ, got 'a' twice"):
        Checklist(("a", "a"), builtin_words(), templates)
    with pytest.raises(ValueError, match=r"class 'b' must have two words or more .* got 1"):
        Checklist(("a", "b"), (["x", "y"], ["z"]), templates)
    with pytest.raises(ValueError, match="'y' is a word of both classes"):
        Checklist(("a", "b"), (["x", "y"], ["z", "y"]), templates)
    (tmp_path / "words").write_text("fine \n\nwell made\nfine\n")
    assert read_words(tmp_path / "words") == ["fine", "well made"]
