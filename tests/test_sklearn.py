"""WaveClassifier: the manners of scikit-learn, over texts."""

import inspect
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from wordwave.config_io import flatten, with_settings
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits, cut_dev
from wordwave.models.config import ClassifierConfig
from wordwave.sklearn import WaveClassifier
from wordwave.sklearn_base import OTHER_NAMES, OWN_PARAMETERS
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.config import ClassificationConfig, ClassificationTrainingConfig, TextConfig

SMALL = {"dim": 8, "hidden_dim": 0, "epochs": 6, "batch_size": 16, "learning_rate": 0.1}
SMALL |= {"dropout": 0.1, "word_dropout": 0.0}  # too few numbers to drop half of them


def reviews(n, seed=0):
    """Texts, and 1 where their word of praise or blame is one of praise."""
    rng = np.random.default_rng(seed)
    praise = rng.permutation(np.arange(n) % 2)
    words = [["awful", "dull", "poor"], ["lovely", "fine", "great"]]
    rest = ["the", "film", "was", "plot", "it"]
    texts = [
        " ".join([*rng.choice(rest, 4), rng.choice(words[i]), rng.choice(rest)]) for i in praise
    ]
    return texts, praise


TEXTS, PRAISE = reviews(120)
NEW_TEXTS, NEW_PRAISE = reviews(60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return WaveClassifier(**SMALL).fit(TEXTS, PRAISE)


def test_it_learns_and_speaks_in_the_labels_it_was_given(fitted):
    assert fitted.score(NEW_TEXTS, NEW_PRAISE) > 0.9
    assert fitted.classes_.tolist() == [0, 1] and fitted.predict(TEXTS).dtype == PRAISE.dtype
    probabilities = fitted.predict_proba(NEW_TEXTS)
    assert probabilities.shape == (60, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    likeliest = probabilities.argmax(1)
    assert (likeliest == fitted.predict(NEW_TEXTS)).all()
    assert ((fitted.decision_function(NEW_TEXTS) > 0) == likeliest).all()
    assert [epoch["epoch"] for epoch in fitted.history_] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "labels",
    [
        ["bad", "good"],
        np.array(["bad", "good"]),
        np.array(["bad", "good"], dtype=object),
        [False, True],
        [9, 10],  # in another order as names
        np.array([-1, 1], dtype=np.int8),
        [1.0, 2.0],
    ],
    ids=["str", "numpy str", "object", "bool", "int", "int8", "float"],
)
def test_labels_of_any_type_also_from_a_folder(labels, tmp_path):
    labels = [labels[i] for i in PRAISE] if isinstance(labels, list) else labels[PRAISE]
    model = WaveClassifier(**SMALL).fit(np.array(TEXTS), labels)
    said = model.predict(TEXTS)
    assert (said == np.asarray(labels)).mean() > 0.9
    assert model.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    model.save(tmp_path)
    again = WaveClassifier.load(tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.predict(TEXTS).tolist() == said.tolist()
    assert (again.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 200])
def test_few_texts_are_enough_with_default_settings(n):
    texts, praise = reviews(n)
    assert WaveClassifier().fit(texts, praise).score(NEW_TEXTS, NEW_PRAISE) > 0.9


def test_more_than_two_classes_keep_their_order():
    numbers = np.array([2, 10, 9])[np.arange(90) % 3]
    texts = [
        f"it is the number {'two' if n == 2 else 'ten' if n == 10 else 'nine'}" for n in numbers
    ]
    model = WaveClassifier(**SMALL).fit(texts, numbers)
    assert model.classes_.tolist() == [2, 9, 10]
    assert model.score(texts, numbers) == 1
    shape = model.decision_function(texts).shape
    assert shape == model.predict_proba(texts).shape == (90, 3)


def test_a_series_of_pandas_or_whatever_has_an_array_will_do(fitted):
    class Column:
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype=dtype)

    assert (fitted.predict(Column(TEXTS)) == fitted.predict(TEXTS)).all()
    assert (fitted.predict(tuple(TEXTS)) == fitted.predict(TEXTS)).all()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": PRAISE}).sample(frac=1, random_state=0)
    model = WaveClassifier(**SMALL).fit(frame["text"], frame["label"])
    assert model.score(frame["text"], frame["label"]) > 0.9
    with pytest.raises(ValueError, match=r"X must be a list.*shape \(120, 1\)"):
        model.predict(frame[["text"]])


def test_same_random_state_same_model_and_nothing_global_is_changed(fitted):
    torch.manual_seed(7)
    before, n_threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        again = WaveClassifier(**SMALL).fit(TEXTS, PRAISE)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(n_threads)
    assert torch.equal(before, torch.get_rng_state())
    assert (again.predict_proba(TEXTS) == fitted.predict_proba(TEXTS)).all()
    other = clone(again).set_params(random_state=1).fit(TEXTS, PRAISE)
    assert (other.predict_proba(TEXTS) != fitted.predict_proba(TEXTS)).any()
    drawn = [
        WaveClassifier(**SMALL, random_state=np.random.RandomState(3)).fit(TEXTS, PRAISE)
        for _ in range(2)
    ]
    assert (drawn[0].predict_proba(TEXTS) == drawn[1].predict_proba(TEXTS)).all()


def test_threads_and_random_state_are_put_back_after_an_error():
    before, n_threads = torch.get_rng_state(), torch.get_num_threads()
    with pytest.raises(ValueError, match="learning_rate"):
        WaveClassifier(**SMALL | {"learning_rate": 1e30, "max_grad_norm": 1e30}, n_threads=2).fit(
            TEXTS, PRAISE
        )
    assert torch.get_num_threads() == n_threads and torch.equal(before, torch.get_rng_state())


def test_pipelines_searches_and_folds():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, WaveClassifier(**SMALL))
    shouted = [text.upper() for text in TEXTS]
    assert pipeline.fit(shouted, PRAISE).score(TEXTS, PRAISE) > 0.9
    assert cross_val_score(WaveClassifier(**SMALL), TEXTS, PRAISE, cv=2).min() > 0.7
    search = GridSearchCV(
        WaveClassifier(**SMALL),
        {"dim": np.array([4, 8])},
        cv=2,
        n_jobs=2,
        scoring="roc_auc",
    )
    assert search.fit(TEXTS, PRAISE).best_score_ > 0.8
    assert search.predict(NEW_TEXTS).shape == (60,)


def test_probabilities_can_be_calibrated_by_scikit_learn():
    model = CalibratedClassifierCV(WaveClassifier(**SMALL), cv=2).fit(TEXTS, PRAISE)
    found = model.predict_proba(NEW_TEXTS)
    assert ((found[:, 1] > 0.5) == NEW_PRAISE).mean() > 0.9
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-6)


def test_sentence_vectors_are_features_for_another_estimator(fitted):
    vectors = fitted.transform(NEW_TEXTS)
    assert vectors.shape == (60, 16) and vectors.dtype == np.float32  # real and imaginary parts
    np.testing.assert_array_equal(vectors, fitted.classifier_.encode(NEW_TEXTS).numpy())
    names = fitted.get_feature_names_out()
    assert [names[0], names[-1]] == ["waveclassifier0", "waveclassifier15"] and len(names) == 16
    both = make_pipeline(WaveClassifier(**SMALL), LogisticRegression()).fit(TEXTS, PRAISE)
    assert both.score(NEW_TEXTS, NEW_PRAISE) > 0.9
    features = ColumnTransformer([("text", WaveClassifier(**SMALL), 0), ("n", "passthrough", [1])])
    table = np.array([[text, len(text)] for text in TEXTS], dtype=object)
    assert features.fit_transform(table, PRAISE).shape == (120, 17)


def test_parameters_are_all_settings_and_have_their_defaults():
    parameters = inspect.signature(WaveClassifier).parameters
    settings = {
        OTHER_NAMES.get(name, name): tuple(value) if isinstance(value, list) else value
        for kind in (ClassifierConfig, TextConfig, ClassificationTrainingConfig)
        for name, value in flatten(kind()).items()
    }
    settings["class_weight"] = None  # "none" on the command line
    assert set(parameters) == {*settings, *OWN_PARAMETERS}
    assert {name: parameters[name].default for name in settings} == settings


def test_parameters_reach_the_model():
    model = WaveClassifier(
        **SMALL | {"epochs": np.int64(1), "dim": np.int64(4)},
        encoder="transformer",
        embedding="rope",
        attention_score="magnitude",
        n_heads=2,
        min_count=2,
        max_length=5,
        random_state=3,
    ).fit(TEXTS, PRAISE)
    config = model.classifier_.config
    assert (config.model.encoder, config.model.score, config.model.dim) == (
        "transformer",
        "magnitude",
        4,
    )
    assert config.text.min_count == 2 and config.training.seed == 3
    assert model.classifier_.encoder.max_length == 5


def test_all_texts_are_learnt_from_where_none_is_held_out():
    texts, labels = ["yes yes", "no no"] * 4, [True, False] * 4
    model = WaveClassifier(**SMALL, dev_share=0).fit(texts, labels)
    assert model.score(texts, labels) == 1
    assert "accuracy" not in model.history_[0]
    assert WaveClassifier(**SMALL, dev_share=0).fit(["yes", "no"], [1, 0]).predict(["no"]) == [0]


def test_patience_ends_the_training():
    model = WaveClassifier(**SMALL | {"epochs": 50}, patience=2).fit(TEXTS, PRAISE)
    best = max(model.history_, key=lambda epoch: epoch["accuracy"])
    assert len(model.history_) == best["epoch"] + 2 < 50


@pytest.mark.parametrize(("select", "name"), [("macro-f1", "macro_f1"), ("likelihood",) * 2])
def test_another_score_selects_the_epoch_and_ends_the_training(select, name):
    model = WaveClassifier(**SMALL | {"epochs": 50}, patience=2, select=select).fit(TEXTS, PRAISE)
    names = dict.fromkeys(["epoch", "loss", name, "accuracy", "likelihood"])
    assert list(model.history_[0]) == list(names)
    best = max(model.history_, key=lambda epoch: epoch[name])
    assert len(model.history_) == min(best["epoch"] + 2, 50)


def test_vectors_may_be_a_path(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("lovely 1 0 1\nawful 0 1 1\n")
    model = WaveClassifier(**SMALL, vectors=file).fit(TEXTS, PRAISE)
    assert model.classifier_.config.model.dim == 3 and model.vectors is file


def test_verbose_tells_of_each_epoch(capsys):
    WaveClassifier(**SMALL | {"epochs": 2}, verbose=True).fit(TEXTS, PRAISE)
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("2 classes") and told[-1].startswith("epoch 2  loss ")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", [1], "X must be a list of texts, got the one text 'one text'"),
        ([["a"], ["b"]], [0, 1], r"X must be .* one for each row, got the shape \(2, 1\)"),
        ([["a"], ["b", "c"]], [0, 1], "X must hold texts only, got .* at 0"),
        ([[], ["b"]], [0, 1], "X must hold texts only, got .* at 0"),
        ({"a": 1}, [0], "X must be .*, got dict"),
        ((text for text in "ab"), [0, 1], "X must be .*, got generator"),
        (["a", None], [0, 1], "X must hold texts only, got None at 1"),
        (["a", float("nan")], [0, 1], "X must hold texts only, got nan at 1"),
        (np.array([1.0, 2.0]), [0, 1], "X must hold texts only, got 1.0 at 0"),
        ([b"a", b"b"], [0, 1], "X must hold texts only, got b'a' at 0"),
        (["a", "b\ud800"], [0, 1], "X must hold whole characters, got .* at 1"),
        ([], [], "X must hold at least one text"),
        (["a", "b"], [0, 1, 1], "inconsistent numbers of samples"),
        (["a", "b"], [1, 1], "y must have two classes or more, got one class, 1"),
        (["a", "b"], None, "requires y to be passed"),
        (["a", "b"], [0.5, 1.7], "Unknown label type: continuous"),
        (["a", "b"], [0, float("nan")], "contains NaN"),
        (["a", "b"], ["x", float("nan")], "y must hold strings only or none, got nan at 1"),
        (["a", "b"], np.array(["x", None]), "y must hold strings only or none, got None at 1"),
        (["a", "b"], [[0, 1], [1, 2]], "y should be a 1d array"),
        (["a", "b"], np.array(["2020", "2021"], "M8[Y]"), "y must hold strings, numbers or truth"),
    ],
)
def test_bad_input_is_one_clear_error(X, y, message):
    with pytest.raises(ValueError, match=message):
        WaveClassifier(**SMALL).fit(X, y)


def test_a_validation_set_needs_a_class_of_two_texts():
    with pytest.raises(ValueError, match="dev_share must be 0 where no class has two texts"):
        WaveClassifier(**SMALL, dev_share=0.1).fit(["a", "b"], [0, 1])


@pytest.mark.parametrize(("n", "n_evaluated"), [(999, 0), (1000, 100), (20_000, 1000)])
def test_few_texts_are_all_trained_on(n, n_evaluated):
    model = WaveClassifier()
    parts = model._parts(["a"] * n, ["x", "y"] * (n // 2) + ["y"] * (n % 2), seed=0)
    assert len(parts.train) == n - n_evaluated
    assert (0 if parts.dev is None else len(parts.dev)) == n_evaluated


def test_a_single_predicted_class_is_told_of():
    texts, labels = ["the same words"] * 40, [0] * 30 + [1] * 10
    with pytest.warns(UserWarning, match="all training examples are predicted as '0'"):
        WaveClassifier(**SMALL).fit(texts, labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"encoder": "cnm"}, "WaveClassifier: encoder must be .*, got 'cnm'"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": 1.5}, "epochs must be int or null, got 1.5"),
        ({"dev_share": 1}, "dev_share must be at least 0 and below 1, got 1"),
        ({"dev_share": "x"}, "dev_share must be at least 0 and below 1, got 'x'"),
        ({"dev_share": [0.1]}, r"dev_share must be at least 0 and below 1, got \[0\.1\]"),
        ({"dev_share": 0, "patience": 3}, "patience needs a dev_share above 0"),
        ({"select": "last", "patience": 3}, "patience must be 0 with select 'last', .* got 3"),
        ({"n_threads": 0}, "n_threads must be at least 1 or None, got 0"),
        ({"vectors": "nowhere"}, "vectors must be a file"),
        ({"embedding": "rope", "encoder": "cnn"}, "embedding 'rope' acts inside attention"),
        ({"random_state": "x"}, "'x' cannot be used to seed"),
        ({"class_weight": "balance"}, "class_weight must be one of none, balanced"),
        ({"class_weight": {2: 1.0}}, r"class_weight must have classes of y, \[0, 1\], got 2"),
        ({"class_weight": {"1": 1.0}}, r"class_weight must have classes of y, \[0, 1\], got '1'"),
        ({"class_weight": {1: -1}}, "class_weight must hold weights of at least 0, got -1"),
        ({"class_weight": {0: 0, 1: 0.0}}, "class_weight must not be 0 for all classes"),
    ],
)
def test_bad_parameters_are_told_of_by_fit(parameters, message):
    model = WaveClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, PRAISE)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "decision_function", "save", "transform"]
)
def test_nothing_is_said_before_fit(method, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(WaveClassifier(), method)([str(tmp_path)])


AMBIGUOUS = ["so it is"] * 40
OFTEN_0 = np.arange(40) % 4 == 0
LONG = SMALL | {"dropout": 0.0, "epochs": 150}


@pytest.mark.parametrize(
    ("parameters", "weights", "expected"),
    [
        ({}, None, 0.25),
        ({"class_weight": "balanced"}, None, 0.5),
        ({"class_weight": {True: 9.0}}, None, 0.75),
        ({}, np.where(OFTEN_0, 9, 1), 0.75),
        ({"class_weight": "balanced"}, np.where(OFTEN_0, 9, 1), 0.5),
        ({"class_weight": {False: 3.0}}, np.where(OFTEN_0, 9, 1), 0.5),
    ],
)
def test_probabilities_follow_the_weights(parameters, weights, expected):
    model = WaveClassifier(**LONG, **parameters)
    with pytest.warns(UserWarning, match="all training examples are predicted as"):
        model.fit(AMBIGUOUS, OFTEN_0, sample_weight=weights)
    assert model.predict_proba(AMBIGUOUS[:1])[0, 1] == pytest.approx(expected, abs=0.08)


def test_a_text_of_weight_0_is_not_there_and_all_weights_may_be_scaled(fitted):
    texts, labels = [*TEXTS, "a wrong word"], [*PRAISE, 2]
    for scale in (1.0, 8.0):
        weights = [scale] * len(TEXTS) + [0]
        model = WaveClassifier(**SMALL).fit(texts, labels, sample_weight=weights)
        assert model.classes_.tolist() == [0, 1]
        found = model.predict_proba(NEW_TEXTS)
        np.testing.assert_allclose(found, fitted.predict_proba(NEW_TEXTS), atol=1e-4)


def test_held_out_texts_count_by_their_weight():
    texts, labels = ["yes"] * 60 + ["no"] * 60, np.arange(120) % 2
    weights = np.where(labels == (np.arange(120) < 60), 1.0, 1e-6)  # yes is 1, no is 0
    model = WaveClassifier(**SMALL, dev_share=0.2).fit(texts, labels, sample_weight=weights)
    assert model.history_[-1]["accuracy"] > 0.99 and model.score(texts, labels) == 0.5


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"sample_weight must have the shape \(120,\), got \(1,\)"),
        (np.ones((120, 1)), r"sample_weight must have the shape \(120,\), got \(120, 1\)"),
        (["x"] * 120, "sample_weight must hold numbers"),
        (np.zeros(120), "sample_weight must be finite, at least 0 and not all zero"),
        (-np.ones(120), "sample_weight must be finite, at least 0"),
        (np.full(120, np.nan), "sample_weight must be finite"),
        (np.full(120, 1e308), "with a finite sum"),
        (1.0 - PRAISE, "y must have two classes or more, got one class, 0"),
    ],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(ValueError, match=message):
        WaveClassifier(**SMALL).fit(TEXTS, PRAISE, sample_weight=weights)


@pytest.mark.parametrize("kind", [int, float, bool, np.int8, np.float32])
def test_weights_of_classes_are_looked_up_by_value(kind, tmp_path):
    weights = {np.int64(0): 1, 1.0: 9}
    model = WaveClassifier(**LONG, class_weight=weights)
    with pytest.warns(UserWarning, match="all training examples are predicted as"):
        model.fit(AMBIGUOUS, OFTEN_0.astype(kind))
    assert model.predict_proba(AMBIGUOUS[:1])[0, 1] == pytest.approx(0.75, abs=0.08)
    model.save(tmp_path)
    assert WaveClassifier.load(tmp_path).class_weight == weights


def test_a_class_of_weight_0_does_not_count():
    labels = np.arange(60) % 3
    model = WaveClassifier(**LONG, class_weight={2: 0})
    with pytest.warns(UserWarning, match="all training examples are predicted as"):
        model.fit(["so it is"] * 60, labels)
    found = model.predict_proba(["so it is"])[0]
    np.testing.assert_allclose(found, [0.5, 0.5, 0], atol=0.08)


def test_weights_of_classes_are_kept_in_a_folder(tmp_path):
    for i, weights in enumerate(["balanced", {9: 2.0, 10: 1}, None]):
        model = WaveClassifier(**SMALL, class_weight=weights).fit(TEXTS, PRAISE + 9)
        model.save(tmp_path / str(i))
        assert WaveClassifier.load(tmp_path / str(i)).class_weight == weights


@pytest.mark.parametrize("X", ["one text", [["a"]], [None], []])
def test_predict_looks_at_its_input_too(fitted, X):
    with pytest.raises(ValueError, match="X must"):
        fitted.predict(X)


def test_folder_keeps_parameters_and_pickle_works_too(fitted, tmp_path):
    model = clone(fitted).set_params(widths=(2, 3), dev_share=0.2, tokenizer="bpe", bpe_size=300)
    model.fit(TEXTS, PRAISE).save(tmp_path / "model")
    for again in (WaveClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        # numbers that followed from the texts
        used = {name: getattr(again, name) for name in ("n_bigrams", "ngrams", "n_subwords")}
        assert again.get_params() == model.get_params() | used
        assert (again.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()
    retrained = clone(WaveClassifier.load(tmp_path / "model")).fit(TEXTS, PRAISE)
    assert (retrained.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()


def test_a_run_of_the_command_line_is_an_estimator(tmp_path):
    config = ClassificationConfig(
        model=with_settings(ClassifierConfig(), dim=8, hidden_dim=8, damping=True),
        training=ClassificationTrainingConfig(epochs=2),
    )
    examples = Examples(TEXTS, [f"praise {i}" for i in PRAISE])
    job = ClassificationJob(config).prepare(Splits(*cut_dev(examples), None))
    job.train(tmp_path)
    model = WaveClassifier.load(tmp_path)
    assert model.predict(TEXTS).tolist() == job.text_model.predict(TEXTS)
    assert model.classes_.tolist() == ["praise 0", "praise 1"]
    assert model.damping and model.epochs == 2 and model.dev_share is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: [], "does not describe an estimator"),
        (lambda told: {}, "does not describe an estimator: it has no 'parameters'"),
        (lambda told: told | {"parameters": {"dim": 3}}, "parameters must be among"),
        (lambda told: told | {"label_type": "V8"}, "label_type must be"),
        (lambda told: told | {"label_type": "nonsense"}, "does not describe an estimator"),
        (lambda told: told | {"label_type": "U100000000"}, "label_type must be"),
        (lambda told: told | {"parameters": {"n_threads": "x"}}, "n_threads must be int or null"),
        (lambda told: told | {"classes": 3}, "classes must be a list"),
        (lambda told: told | {"classes": [0, 2]}, "must have the classes of vocab.json"),
        (lambda told: told | {"classes": [0.5, 1.5]}, "classes must be a list of int64"),
        (lambda told: told | {"classes": ["a", "b"]}, "does not describe an estimator"),
        (
            lambda told: told | {"label_type": "int8", "classes": [0, 300]},
            "does not describe an estimator",
        ),
    ],
)
def test_a_broken_folder_is_one_clear_error(fitted, tmp_path, change, message):
    fitted.save(tmp_path)
    file = tmp_path / "estimator.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(ValueError, match=message):
        WaveClassifier.load(tmp_path)


def test_tags_say_that_it_takes_texts():
    tags = get_tags(WaveClassifier())
    assert tags.estimator_type == "classifier" and tags.target_tags.required
    assert tags.input_tags.string and tags.input_tags.one_d_array
    assert not tags.input_tags.two_d_array


@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_estimator_tags_renamed,
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
    check("WaveClassifier", WaveClassifier(**SMALL))


class OfNumbers(WaveClassifier):
    """Rows of numbers as texts, a word a number: scikit-learn checks with numbers only."""

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, multi_output=np.asarray(y).ndim > 1)
        return super().fit(self._worded(X), y, sample_weight)

    def _logits(self, X):
        check_is_fitted(self)
        return super()._logits(self._worded(validate_data(self, X, reset=False)))

    def transform(self, X):
        check_is_fitted(self)
        return super().transform(self._worded(validate_data(self, X, reset=False)))

    def _worded(self, X):
        return [
            " ".join(f"f{j}{'p' if v > 0 else 'm'}{abs(v):.0f}" for j, v in enumerate(2 * r))
            for r in X
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True
        return tags


@checks.parametrize_with_checks(
    [OfNumbers(dim=8, epochs=3, learning_rate=0.005, batch_size=16)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "batches of repeated rows are others",
    },
)
def test_scikit_learn_checks_on_numbers_as_words(estimator, check):
    check(estimator)


def test_it_goes_with_an_accelerator_of_the_users_own():
    """accelerate has one state for all; ours is not to be in the way of theirs."""
    script = (
        "from accelerate import Accelerator; from wordwave import WaveClassifier\n"
        "model = WaveClassifier(epochs=1, dim=4, dev_share=0)\n"
        "def fit(): model.fit(['a b', 'c'] * 5, [0, 1] * 5)\n"
        "fit(); Accelerator(cpu=True, mixed_precision='bf16'); fit()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
