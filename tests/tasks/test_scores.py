"""Figures of merit, by hand."""

import pytest
import torch

from wordwave.cli.evaluate import confusion_table
from wordwave.tasks.scores import score


def test_figures_of_each_class_are_those_counted_by_hand():
    wanted, said = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 0, 1, 1, 0])
    scores = score(wanted, said, ["a", "b", "c"])
    a, b, c = scores.classes
    assert (a.n, a.precision, a.recall) == (3, pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (b.n, b.precision, b.recall) == (2, 0.5, 0.5)
    assert (c.n, c.precision, c.recall, c.f1) == (0, 0.0, 0.0, 0.0)
    assert scores.macro_f1 == pytest.approx((2 / 3 + 0.5 + 0) / 3)
    assert scores.confusion == [[2, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_of_many_classes_the_most_frequent_confusions_are_shown():
    labels = [f"class {i}" for i in range(20)]
    wanted, said = torch.tensor([3, 3, 3, 7, 1]), torch.tensor([4, 4, 3, 8, 1])
    table = confusion_table(score(wanted, said, labels).plain())
    assert table.title == "most frequent confusions"
    assert table.rows == [["class 3", "class 4", 2], ["class 7", "class 8", 1]]
