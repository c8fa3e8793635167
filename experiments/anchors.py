"""Anchors: linear models and fastText on the same folds, selected on the same validation set.

They show how far a simple model gets on each data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wordwave.search.baselines import fit_fasttext, fit_tfidf

if TYPE_CHECKING:
    from wordwave.data.examples import Examples
    from wordwave.data.splits import Splits


Predict = Callable[[list[str]], list[str]]

_SETTINGS: dict[str, dict[str, Any]] = {
    "tfidf-lr": {"ngrams": 2, "C": [0.3, 1.0, 3.0, 10.0, 30.0]},
    "nb-svm": {
        "ngrams": 2,
        "alpha": 1.0,
        "beta": [0.25, 0.5, 0.75, 1.0],
        "C": [0.1, 1.0],
        "intercept": False,  # β has no place for one; its records of earlier versions had one
    },
    "fasttext-library": {
        "ngrams": 2,
        "bucket": 500_000,  # its own 2,000,000 take 800 MB, for sets of 100,000 bigrams
        "dim": 100,
        "lr": [0.1, 0.5, 1.0],
        "epoch": [5, 25],
    },
}
_TOKENS: dict[str, Any] = {"token_pattern": r"\S+"}
ANCHORS = tuple(_SETTINGS)
TITLES = {
    "tfidf-lr": "TF-IDF bigrams + logistic regression",
    "nb-svm": "NB-SVM, bigrams",
    "fasttext-library": "fastText, bigrams",
}


def anchor_settings(name: str) -> dict[str, Any]:
    """The hyperparameters of an anchor; of a list, the value that is best on the validation set."""
    return {"anchor": _SETTINGS[name]}


def fit_anchor(name: str, splits: Splits, seed: int = 0) -> tuple[Predict, dict[str, Any], float]:
    """The predictor that is best on the validation set, its settings, its accuracy there."""
    assert splits.dev is not None
    candidates = {"tfidf-lr": _tfidf, "nb-svm": _nb_svm, "fasttext-library": _fasttext}[name]
    best: tuple[Predict, dict[str, Any], float] | None = None
    for predict, values in candidates(splits.train, seed):
        accuracy = fmean(correct_predictions(predict, splits.dev))
        if best is None or accuracy > best[2]:
            best = predict, values, accuracy
    assert best is not None
    return best


def correct_predictions(predict: Predict, examples: Examples) -> list[bool]:
    """Whether each prediction is correct."""
    predicted = predict(list(examples.texts))
    return [bool(a == b) for a, b in zip(predicted, examples.labels, strict=True)]


def _tfidf(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    settings = _SETTINGS["tfidf-lr"]
    options = {"ngram_range": (1, settings["ngrams"]), "sublinear_tf": True, **_TOKENS}
    for c in settings["C"]:
        yield fit_tfidf(train, C=c, **options).predict, {"C": c}


def _nb_svm(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    """One class against the rest; see `nb_svm_weights`."""
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer

    settings = _SETTINGS["nb-svm"]
    words = CountVectorizer(
        ngram_range=(1, settings["ngrams"]), binary=True, dtype=np.float64, **_TOKENS
    )
    x = words.fit_transform(train.texts).tocsr()
    labels, classes = np.array(train.labels), sorted(set(train.labels))
    for c in settings["C"]:
        options = {"alpha": settings["alpha"], "c": c, "seed": seed}
        models = [nb_svm_weights(x, labels == name, **options) for name in classes]
        for beta in settings["beta"]:
            weights = np.stack([ratio * interpolated(w, beta) for ratio, w in models])

            def predict(texts: list[str], weights: Any = weights) -> list[str]:
                scores = words.transform(texts) @ weights.T
                return [classes[i] for i in scores.argmax(1)]

            yield predict, {"C": c, "beta": beta}


def nb_svm_weights(x: Any, is_class: Any, *, alpha: float, c: float, seed: int = 0) -> Any:
    """Log-count ratios, and the weights of a linear SVM on word presence times them (Wang and
    Manning, 2012).

    There is no intercept: β interpolates weights, and one left as it is would decide alone where
    the weights are shrunk.

    Shape: x (texts, words) sparse, is_class (texts,) bool -> two (words,)
    """
    import numpy as np
    from sklearn.svm import LinearSVC

    p = alpha + np.asarray(x[is_class].sum(0)).ravel()
    q = alpha + np.asarray(x[~is_class].sum(0)).ravel()
    ratio = np.log((p / p.sum()) / (q / q.sum()))
    svm = LinearSVC(C=c, fit_intercept=False, random_state=seed)
    return ratio, svm.fit(x.multiply(ratio).tocsr(), is_class).coef_[0]


def interpolated(weights: Any, beta: float) -> Any:
    """β of the weights and 1 − β of their mean magnitude. Shape: (words,) -> (words,)"""
    return (1 - beta) * abs(weights).mean() + beta * weights


def _fasttext(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    settings = _SETTINGS["fasttext-library"]
    fixed = {"wordNgrams": settings["ngrams"], "bucket": settings["bucket"], "dim": settings["dim"]}
    for epoch, lr in product(settings["epoch"], settings["lr"]):
        values = {"epoch": epoch, "lr": lr}
        yield fit_fasttext(train, seed, _line, **fixed, **values).predict, values


def _line(text: str) -> str:
    return " ".join(text.lower().split())
