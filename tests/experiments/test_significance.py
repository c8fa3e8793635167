"""Tests and intervals against scipy and figures worked out by hand."""

import random
from math import sqrt

import pytest
from scipy import stats

from experiments.statistics import (
    compared,
    holm,
    interval,
    is_better,
    is_worse,
    paired,
    rank_biserial,
    signed_rank,
)


def by_place(values):
    return {(fold, 0): value for fold, value in enumerate(values)}


def test_the_interval_is_students():
    values = [0.80, 0.82, 0.84]
    assert interval(values) == pytest.approx(4.302653 * 0.02 / sqrt(3), rel=1e-5)
    low, high = stats.t.interval(0.95, 2, loc=0.82, scale=stats.sem(values))
    assert interval(values) == pytest.approx((high - low) / 2)
    assert interval([0.8]) is None and interval([0.8, 0.8]) is None


def test_pairs_are_the_places_that_both_sides_have():
    ours = {(0, 0): 0.8, (1, 0): 0.9, (2, 0): 0.1}
    theirs = {(1, 0): 0.8, (0, 0): 0.75, (9, 9): 1.0}
    found = paired(ours, theirs)
    assert found.n == 2 and found.difference == pytest.approx(0.075)
    assert found.p is None  # two pairs can show nothing
    assert paired(ours, {(5, 5): 1.0}) is None


@pytest.mark.parametrize(
    "differences",
    [
        [0.3, -0.1, 0.25, 0.4, 0.05, -0.2, 0.35],  # all ranks differ
        [0.1, 0.3, -0.1, 0.5, 0.2, 0.4, 0.1, 0.1],  # some are shared
        [0.1, 0.0, 0.2, -0.1, 0.0, 0.3, 0.1],  # and some differences are none
    ],
)
def test_the_p_value_is_scipys(differences):
    wanted = stats.wilcoxon([d for d in differences if d]).pvalue
    assert signed_rank(differences) == pytest.approx(wanted)


def test_many_pairs_come_near_the_normal_curve():
    rng = random.Random(0)
    differences = [rng.gauss(0.2, 1) for _ in range(60)]
    wanted = stats.wilcoxon(differences, method="asymptotic").pvalue
    assert signed_rank(differences) == pytest.approx(wanted, rel=0.03)
    assert signed_rank([0.0] * 6) == 1.0


def test_six_wins_out_of_six_are_just_significant():
    ours, theirs = by_place([0.51, 0.52, 0.53, 0.54, 0.55, 0.56]), by_place([0.5] * 6)
    assert paired(ours, theirs).p == pytest.approx(2 / 2**6)
    assert is_better(paired(ours, theirs)) and is_worse(paired(theirs, ours))
    assert not is_better(paired(theirs, ours))
    assert paired(ours, ours).p == 1.0


def test_the_effect_is_the_difference_of_rank_sums():
    # Ranks of 1, -2, 3, 4 are 1 … 4: gains 8, losses 2.
    assert rank_biserial([0.1, -0.2, 0.3, 0.4]) == pytest.approx((8 - 2) / 10)
    assert rank_biserial([0.1, 0.2]) == 1 and rank_biserial([-0.1]) == -1
    assert rank_biserial([0.0, 0.0]) is None


def test_equal_differences_share_a_rank_despite_rounding():
    assert 0.8 - 0.7 != 0.9 - 0.8
    assert rank_biserial([0.8 - 0.7, 0.8 - 0.9]) == 0


def test_holms_correction_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({"a": 0.9, "b": 0.8}) == {"b": 1.0, "a": 1.0}


def test_rivals_are_corrected_together():
    ours = by_place([0.51, 0.52, 0.53, 0.54, 0.55, 0.56])
    half, same = by_place([0.5] * 6), dict(ours)
    alone = compared(ours, {"half": half})
    together = compared(ours, {"half": half, "same": same})
    assert alone["half"].p == pytest.approx(2 / 64)
    assert together["half"].p == pytest.approx(4 / 64)
    assert "few" not in compared(ours, {"few": {}})
