"""Linear models and fastText on the same parts."""

import random
from math import log
from statistics import fmean

import pytest

from experiments.anchors import (
    ANCHORS,
    anchor_settings,
    correct_predictions,
    fit_anchor,
    interpolated,
    nb_svm_weights,
)
from experiments.cells import TrainingCell
from experiments.protocol import Protocol, SearchConfig
from experiments.records import upgrade
from experiments.statistics import unpack_bits
from experiments.training_runs import CellRun
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits


def examples(n, seed, classes=("awful", "good")):
    rng = random.Random(seed)
    fillers = ["the", "film", "was", "a", "story", "we", "saw"]
    labels = [rng.choice(classes) for _ in range(n)]
    return Examples([" ".join([*rng.choices(fillers, k=5), word]) for word in labels], labels)


def anchor(name):
    if name == "fasttext-library":
        pytest.importorskip("fasttext")
    return name


@pytest.mark.parametrize("name", ANCHORS)
@pytest.mark.parametrize("classes", [("awful", "good"), ("who", "where", "why")])
def test_an_anchor_learns_what_is_plain_to_see(name, classes):
    parts = Splits(*(examples(n, seed, classes) for seed, n in enumerate((150, 40))), None)
    predict, values, dev = fit_anchor(anchor(name), parts)
    assert dev == fmean(correct_predictions(predict, parts.dev)) > 0.95
    assert fmean(correct_predictions(predict, examples(50, 9, classes))) > 0.95
    listed = anchor_settings(name)["anchor"]
    assert all(value in listed[key] for key, value in values.items())


@pytest.mark.parametrize("name", ANCHORS)
def test_an_empty_text_gets_a_class(name):
    parts = Splits(examples(60, 0), examples(20, 1), None)
    predict, _, _ = fit_anchor(anchor(name), parts)
    assert predict([""])[0] in {"awful", "good"}


def test_the_record_of_an_anchor_has_the_keys_of_a_run(tiny_home):
    cell = TrainingCell("trec", "tfidf-lr", "none")
    record = CellRun(Protocol())(cell)
    assert Protocol().key(cell).items() <= record.items()
    assert record["n_test"] == 24 and 0 <= record["test_accuracy"] <= 1
    assert fmean(unpack_bits(record["correct"], 24)) == record["test_accuracy"]
    assert record["settings"] == anchor_settings("tfidf-lr")


def test_nb_svm_by_hand():
    """Texts of one word each, three of class a and five of the rest: without an intercept, each
    weight minimizes ½w² + C·n·(1 − w·|r|)² by itself."""
    sparse = pytest.importorskip("scipy.sparse")
    c, counts = 0.7, (3, 5)
    x = sparse.csr_matrix([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 5)
    is_class = x.toarray()[:, 0] > 0
    ratio, weights = nb_svm_weights(x, is_class, alpha=1.0, c=c)
    # p = (1 + 3, 1)/5, q = (1, 1 + 5)/7
    by_hand = [log((4 / 5) / (1 / 7)), log((1 / 5) / (6 / 7))]
    assert ratio == pytest.approx(by_hand)
    assert weights == pytest.approx(
        [
            2 * c * n * abs(r) / (1 + 2 * c * n * r * r)
            for n, r in zip(counts, by_hand, strict=True)
        ],
        rel=1e-2,  # the solver stops at 1e-4 of its own measure
    )
    assert interpolated(weights, 1.0) == pytest.approx(weights)
    assert interpolated(weights, 0.0) == pytest.approx([weights.mean()] * 2)
    assert interpolated(weights, 0.25) == pytest.approx(0.75 * weights.mean() + 0.25 * weights)


def test_most_texts_of_one_class_do_not_decide_where_weights_are_shrunk():
    """What an intercept that β leaves alone does: with small weights it decides by itself."""
    texts = ["bad film"] * 5 + ["good film", "good story"] + ["dull story"] * 30
    labels = ["good" if "good" in text else "bad" for text in texts]
    parts = Splits(Examples(texts, labels), Examples(["good"], ["good"]), None)
    predict, values, dev = fit_anchor("nb-svm", parts)
    assert (values["beta"], dev) == (0.25, 1.0)
    assert predict(["good", "dull"]) == ["good", "bad"]


def test_anchors_belong_to_every_search():
    cell = TrainingCell("trec", "nb-svm", "none")
    searched = Protocol(search=SearchConfig(8))
    assert searched.key(cell) == Protocol().key(cell)
    record = searched.key(cell) | {"search": {"trials": 5, "pool": "narrow", "on": "trec"}}
    assert upgrade(record) == Protocol().key(cell)
