"""Tests and intervals against scipy and figures worked out by hand."""

import random
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import (
    bleu_counts,
    bleu_from_counts,
    compare,
    compare_all,
    confidence_interval,
    holm,
    mcnemar,
    pack_bits,
    paired_bootstrap,
    rank_biserial,
    sign_test,
    signed_rank,
    unpack_bits,
)
from wordwave.tasks.bleu import tokenised_bleu


def by_place(values):
    return {(fold, 0): value for fold, value in enumerate(values)}


def test_the_interval_is_students():
    values = [0.80, 0.82, 0.84]
    assert confidence_interval(values) == pytest.approx(4.302653 * 0.02 / sqrt(3), rel=1e-5)
    low, high = stats.t.interval(0.95, 2, loc=0.82, scale=stats.sem(values))
    assert confidence_interval(values) == pytest.approx((high - low) / 2)
    assert confidence_interval([0.8]) is None and confidence_interval([0.8, 0.8]) is None


def test_pairs_are_the_places_that_both_sides_have():
    ours = {(0, 0): 0.8, (1, 0): 0.9, (2, 0): 0.1}
    theirs = {(1, 0): 0.8, (0, 0): 0.75, (9, 9): 1.0}
    found = compare(ours, theirs)
    assert found.n == 2 and found.difference == pytest.approx(0.075)
    assert found.p is None  # two pairs can show nothing
    assert compare(ours, {(5, 5): 1.0}) is None


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
    assert compare(ours, theirs).p == pytest.approx(2 / 2**6)
    assert compare(ours, theirs).is_better and compare(theirs, ours).is_worse
    assert not compare(theirs, ours).is_better
    assert compare(ours, ours).p == 1.0


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
    alone = compare_all(ours, {"half": half})
    together = compare_all(ours, {"half": half, "same": same})
    assert alone["half"].p == pytest.approx(2 / 64)
    assert together["half"].p == pytest.approx(4 / 64)
    assert "few" not in compare_all(ours, {"few": {}})


@given(st.lists(st.booleans()))
def test_answers_survive_being_packed(right):
    assert unpack_bits(pack_bits(right), len(right)) == right
    assert len(pack_bits(right)) == -(-len(right) // 4)


ANSWERS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1)


@given(ANSWERS)
def test_only_examples_on_which_two_models_differ_count(pairs):
    ours, theirs = ({(0, 0): list(side)} for side in zip(*pairs, strict=True))
    there, back = mcnemar(ours, {"a": theirs})["a"], mcnemar(theirs, {"a": ours})["a"]
    assert there.won + there.lost == sum(a != b for a, b in pairs) and there.n == len(pairs)
    assert (there.won, there.lost, there.p) == (back.lost, back.won, back.p)


def test_the_test_is_a_sign_test():
    assert sign_test(9, 1) == pytest.approx(2 * 11 / 1024)
    assert sign_test(0, 0) == 1.0


def test_no_example_counts_twice_and_rivals_share_the_level():
    ours = {(0, 0): [True] * 9, (0, 1): [True] * 9, (1, 0): [True] * 3, (2, 0): [True]}
    theirs = {(0, 0): [False] * 9, (0, 1): [False] * 9, (1, 0): [True] * 3}
    one, two = mcnemar(ours, {"x": theirs, "y": theirs, "z": {}}).values()
    assert (one.n, one.won, one.lost) == (12, 9, 0) and one.p == 2 * sign_test(9, 0) == two.p


WORDS = ["ein", "hund", "rennt", "über", "die", "wiese", "und", "bellt", "laut", "am", "abend"]


def spoiled(texts, share, seed):
    rng = random.Random(seed)
    return [" ".join(w if rng.random() > share else "x" for w in t.split()) for t in texts]


@pytest.fixture(scope="module")
def wanted():
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) for _ in range(120)]


def test_counts_give_sacrebleus_figure(wanted):
    for share in (0.0, 0.1, 0.3):
        said = spoiled(wanted, share, 1)
        counts = bleu_counts(said, wanted)
        total = [sum(column) for column in zip(*counts, strict=True)]
        assert bleu_from_counts(total) == pytest.approx(tokenised_bleu(said, wanted), abs=1e-9)
    short = [" ".join(text.split()[:-2]) for text in wanted]
    total = [sum(column) for column in zip(*bleu_counts(short, wanted), strict=True)]
    assert bleu_from_counts(total) == pytest.approx(tokenised_bleu(short, wanted), abs=1e-9)


def test_a_better_translator_is_known_and_equals_are_not_told_apart(wanted):
    good, bad = (bleu_counts(spoiled(wanted, share, 2), wanted) for share in (0.05, 0.3))
    gap = paired_bootstrap(good, bad)
    assert gap.difference > 10 and gap.interval[0] > 0 and gap.p < 0.01
    assert paired_bootstrap(bad, good).difference == pytest.approx(-gap.difference)
    like = bleu_counts(spoiled(wanted, 0.3, 3), wanted)
    low, high = paired_bootstrap(bad, like).interval
    assert low < 0 < high
    assert paired_bootstrap(bad, bad).p == 1.0


def test_other_sentences_are_refused(wanted):
    counts = bleu_counts(wanted, wanted)
    with pytest.raises(ValueError, match="same sentences"):
        paired_bootstrap(counts, counts[:-1])
