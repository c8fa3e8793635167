"""Right answers as text, and models told apart by the examples on which they differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.experiments.answers import mcnemar, packed, unpacked


@given(st.lists(st.booleans()))
def test_answers_survive_being_packed(right):
    assert unpacked(packed(right), len(right)) == right
    assert len(packed(right)) == -(-len(right) // 4)


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_only_examples_on_which_two_models_differ_count(pairs):
    won, lost, p = mcnemar(pairs)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    assert (won, lost, p) == mcnemar(differing) and won + lost == len(differing)
    assert (lost, won) == mcnemar([(b, a) for a, b in pairs])[:2] and 0 < p <= 1


def test_mcnemar_is_a_sign_test():
    won, lost, p = mcnemar([(True, False)] * 9 + [(False, True)] + [(True, True)] * 50)
    assert (won, lost) == (9, 1) and p == pytest.approx(2 * 11 / 1024)
