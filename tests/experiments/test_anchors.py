"""Linear models and fastText on the same parts."""

import random
from statistics import fmean

import pytest

from experiments.anchors import ANCHORS, anchor_settings, correct_predictions, fit_anchor
from experiments.cells import TrainingCell
from experiments.protocol import Protocol
from experiments.statistics import unpack_bits
from experiments.training_runs import CellRun
from wordwave.data.splits import Splits
from wordwave.data.tables import Examples


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
