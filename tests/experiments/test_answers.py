"""Right answers as text, and models told apart by the examples on which they differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics import mcnemar, packed, sign_test, unpacked


@given(st.lists(st.booleans()))
def test_answers_survive_being_packed(right):
    assert unpacked(packed(right), len(right)) == right
    assert len(packed(right)) == -(-len(right) // 4)


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
