"""PairClassifier: the manners of scikit-learn, over pairs of texts."""

import inspect
import pickle
import random

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks as checks
from sklearn.utils import get_tags

from wordwave import PairClassifier, TextMatcher, WaveClassifier
from wordwave.config_io import flatten, with_settings
from wordwave.data.pairs import PairSplits, TextPairs, hold_out
from wordwave.models.config import PairModelConfig
from wordwave.sklearn_base import OTHER_NAMES, OWN_PARAMETERS
from wordwave.tasks.config import MatchingConfig, MatchingTrainingConfig, TextConfig
from wordwave.tasks.matching import MatchingJob

SMALL = {"dim": 16, "hidden_dim": 16, "epochs": 3, "batch_size": 32, "learning_rate": 0.01}
SMALL |= {"dropout": 0.0}


def reversals(n, seed=0):
    """Pairs of the same words, and 1 where both are in the same order."""
    rng = random.Random(seed)
    pairs = []
    for i in range(n):
        words = rng.sample([f"w{k}" for k in range(30)], 6)
        pairs.append((" ".join(words), " ".join(words[:: 1 if i % 2 else -1])))
    return pairs, np.arange(n) % 2


PAIRS, SAME = reversals(300)
NEW_PAIRS, NEW_SAME = reversals(60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return PairClassifier(**SMALL).fit(PAIRS, SAME)


def test_it_learns_what_only_word_order_tells(fitted):
    assert fitted.score(NEW_PAIRS, NEW_SAME) > 0.95
    bag = PairClassifier(**SMALL, embedding="none").fit(PAIRS, SAME)
    assert bag.score(NEW_PAIRS, NEW_SAME) < 0.8
    probabilities = fitted.predict_proba(NEW_PAIRS)
    assert probabilities.shape == (60, 2) and fitted.predict(PAIRS).dtype == SAME.dtype
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert ((fitted.decision_function(NEW_PAIRS) > 0) == probabilities.argmax(1)).all()
    assert [epoch["epoch"] for epoch in fitted.history_] == [1, 2, 3]
    assert isinstance(fitted.classifier_, TextMatcher)


def test_pairs_as_a_list_an_array_or_a_data_frame(fitted):
    class Frame:
        """What numpy sees of a data frame."""

        def __len__(self):
            return len(PAIRS)

        def __array__(self, dtype=None, copy=None):
            return np.array(PAIRS, dtype=dtype)

    expected = fitted.predict_proba(PAIRS)
    for same in (list(map(list, PAIRS)), tuple(PAIRS), np.array(PAIRS), Frame()):
        assert (fitted.predict_proba(same) == expected).all()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PAIRS, columns=["a", "b"])
    assert (fitted.predict_proba(frame) == expected).all()


def test_sentence_vectors(fitted):
    vectors = fitted.encode([a for a, _ in PAIRS])
    assert vectors.shape == (300, 8 * 16) and vectors.dtype == np.float32
    with pytest.raises(ValueError, match="X must be a list of texts"):
        fitted.encode("one text")


def test_labels_of_any_type_also_from_a_folder(tmp_path):
    for i, labels in enumerate((["no", "yes"], [False, True], [9, 10])):
        given = [labels[n] for n in SAME]
        model = PairClassifier(**SMALL).fit(PAIRS, given)
        assert model.classes_.tolist() == labels
        assert model.score(NEW_PAIRS, [labels[n] for n in NEW_SAME]) > 0.95
        model.save(tmp_path / str(i))
        again = PairClassifier.load(tmp_path / str(i))
        assert again.classes_.dtype == model.classes_.dtype
        assert (again.predict_proba(PAIRS) == model.predict_proba(PAIRS)).all()
        assert again.get_params() == model.get_params()


def test_a_clone_a_pickle_and_the_same_random_state_give_the_same_model(fitted):
    expected = fitted.predict_proba(PAIRS)
    assert (pickle.loads(pickle.dumps(fitted)).predict_proba(PAIRS) == expected).all()
    again = clone(fitted).fit(PAIRS, SAME)
    assert (again.predict_proba(PAIRS) == expected).all()
    other = clone(fitted).set_params(random_state=1).fit(PAIRS, SAME)
    assert (other.predict_proba(PAIRS) != expected).any()


def test_searches_and_folds():
    assert cross_val_score(PairClassifier(**SMALL), PAIRS, SAME, cv=2).min() > 0.8
    grid = {"views": [("start",), ("start", "end")], "dim": np.array([16])}
    search = GridSearchCV(PairClassifier(**SMALL), grid, cv=2, scoring="roc_auc")
    assert search.fit(np.array(PAIRS), SAME).best_score_ > 0.8
    assert search.predict(NEW_PAIRS).shape == (60,)


def test_parameters_are_all_settings_and_have_their_defaults():
    parameters = inspect.signature(PairClassifier).parameters
    settings = {
        OTHER_NAMES.get(name, name): tuple(value) if isinstance(value, list) else value
        for kind in (PairModelConfig, TextConfig, MatchingTrainingConfig)
        for name, value in flatten(kind()).items()
    } | {"unknown_words": MatchingConfig().text.unknown_words}
    assert set(parameters) == {*settings, *OWN_PARAMETERS}
    assert {name: parameters[name].default for name in settings} == settings


def test_all_pairs_are_learnt_from_where_none_is_held_out():
    star = [("w1 w2", f"w{i}") for i in range(8)]
    model = PairClassifier(**SMALL, dev_share=0).fit(star, [0, 1] * 4)
    assert "auc" not in model.history_[0] and model.predict(star).shape == (8,)
    with pytest.raises(ValueError, match=r"X: too many pairs share .* dev_share must then be 0"):
        PairClassifier(**SMALL).fit(star, [0, 1] * 4)


def test_a_run_of_the_command_line_is_an_estimator(tmp_path):
    first, second = map(list, zip(*PAIRS, strict=True))
    pairs = TextPairs(first, second, [f"is {i}" for i in SAME])
    config = with_settings(MatchingConfig(), **SMALL | {"symmetric": False, "epochs": 1})
    job = MatchingJob(config).prepare(PairSplits(*hold_out(pairs), None))
    job.train(tmp_path / "run")
    model = PairClassifier.load(tmp_path / "run")
    assert model.predict(PAIRS).tolist() == job.text_model.predict(PAIRS)
    assert model.classes_.tolist() == ["is 0", "is 1"] and not model.symmetric
    with pytest.raises(ValueError, match="is a run of 'match', expected one of 'classify'"):
        WaveClassifier.load(tmp_path / "run")
    scored = TextPairs(first, second, [str(i) for i in SAME])
    job = MatchingJob(with_settings(config, similarity="score"))
    job.prepare(PairSplits(*hold_out(scored), None)).train(tmp_path / "scores")
    with pytest.raises(ValueError, match="predicts scores, not classes: load it by TextMatcher"):
        PairClassifier.load(tmp_path / "scores")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", [1], "X must be a list of pairs, got the one text 'one text'"),
        (["ab", "cd"], [0, 1], r"with two texts in each row, got the shape \(2,\)"),
        (("a", "b"), [0], r"with two texts in each row, got the shape \(2,\)"),
        ([("a", "b", "c")], [0], r"got the shape \(1, 3\)"),
        ([("a", "b"), ("c",)], [0, 1], r"got the shape \(2,\)"),
        ([("a", "b"), ("c", None)], [0, 1], "X must hold texts only, got None at 1"),
        ([("a", 3.0), ("c", "d")], [0, 1], "X must hold texts only, got 3.0 at 0"),
        ({"a": "b"}, [0], "got dict"),
        ([], [], "X must hold at least one pair"),
        ([("a", "b")] * 3, [0, 1], "inconsistent numbers of samples"),
        ([("a", "b")] * 2, [1, 1], "y must have two classes or more"),
        ([("a", "b")] * 2, None, "PairClassifier requires y to be passed"),
    ],
)
def test_bad_input_is_one_clear_error(X, y, message):
    with pytest.raises(ValueError, match=message):
        PairClassifier(**SMALL).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"encoder": "cnm"}, "PairClassifier: encoder must be .*, got 'cnm'"),
        ({"views": ("start", "middle")}, "PairClassifier: .*views must be"),
        ({"views": ()}, "views must be 1 to 16"),
        ({"word_renaming": 2.0}, "word_renaming must be"),
        ({"dev_share": 1}, "dev_share must be at least 0 and below 1, got 1"),
        ({"dev_share": "x"}, "dev_share must be at least 0 and below 1, got 'x'"),
        ({"dev_share": 0, "patience": 3}, "patience needs a dev_share above 0"),
    ],
)
def test_bad_parameters_are_told_of_by_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        PairClassifier(**parameters).fit(PAIRS, SAME)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "encode", "save"])
def test_nothing_is_said_before_fit(method, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(PairClassifier(), method)([str(tmp_path)])


def test_tags_say_that_it_takes_pairs_of_texts():
    tags = get_tags(PairClassifier())
    assert tags.estimator_type == "classifier" and tags.target_tags.required
    assert tags.input_tags.string and tags.input_tags.two_d_array


@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_valid_tag_types,
        checks.check_estimator_repr,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_mixin_order,
    ],
)
def test_scikit_learn_checks_that_need_no_data(check):
    check("PairClassifier", PairClassifier(**SMALL))
