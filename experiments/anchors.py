"""Anchors: linear models and fastText on the same folds, selected on the same validation set.

They show how far a simple model gets on each data set.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wordwave.errors import WordwaveError

if TYPE_CHECKING:
    from wordwave.data.splits import Splits
    from wordwave.data.tables import Examples


Predict = Callable[[list[str]], list[str]]

_SETTINGS: dict[str, dict[str, Any]] = {
    "tfidf-lr": {"ngrams": 2, "C": [0.3, 1.0, 3.0, 10.0, 30.0]},
    "nb-svm": {"ngrams": 2, "alpha": 1.0, "beta": [0.25, 0.5, 0.75, 1.0], "C": [0.1, 1.0]},
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


def check_installed(name: str) -> None:
    """Raise if the package of the fastText anchor is missing."""
    if name == "fasttext-library":
        try:
            import fasttext  # noqa: F401
        except ModuleNotFoundError:
            raise WordwaveError(
                "the fastText anchor needs a package: pip install 'wordwave[anchors]', "
                "or leave it out with --rows paper matched"
            ) from None


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
    predicted = predict(examples.texts)
    return [bool(a == b) for a, b in zip(predicted, examples.labels, strict=True)]


def _tfidf(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    settings = _SETTINGS["tfidf-lr"]
    words = TfidfVectorizer(ngram_range=(1, settings["ngrams"]), sublinear_tf=True, **_TOKENS)
    x = words.fit_transform(train.texts)
    for c in settings["C"]:
        model = LogisticRegression(C=c, max_iter=1000).fit(x, train.labels)

        def predict(texts: list[str], model: Any = model) -> list[str]:
            return list(model.predict(words.transform(texts)))

        yield predict, {"C": c}


def _nb_svm(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    """Wang and Manning (2012): a linear SVM on word presence times log-count ratios, its weights
    interpolated with their mean magnitude by β; one class against the rest."""
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.svm import LinearSVC

    settings = _SETTINGS["nb-svm"]
    words = CountVectorizer(
        ngram_range=(1, settings["ngrams"]), binary=True, dtype=np.float64, **_TOKENS
    )
    x = words.fit_transform(train.texts).tocsr()
    labels, classes = np.array(train.labels), sorted(set(train.labels))

    def fitted(name: str, c: float) -> tuple[Any, Any, float]:
        is_class = labels == name
        p = settings["alpha"] + np.asarray(x[is_class].sum(0)).ravel()
        q = settings["alpha"] + np.asarray(x[~is_class].sum(0)).ravel()
        ratio = np.log((p / p.sum()) / (q / q.sum()))
        svm = LinearSVC(C=c, random_state=seed).fit(x.multiply(ratio).tocsr(), is_class)
        return svm.coef_[0], ratio, float(svm.intercept_[0])

    for c in settings["C"]:
        models = [fitted(name, c) for name in classes]
        for beta in settings["beta"]:
            mixed = [((1 - beta) * np.abs(w).mean() + beta * w, r, b) for w, r, b in models]

            def predict(texts: list[str], mixed: Any = mixed) -> list[str]:
                features = words.transform(texts)
                scores = np.stack([features @ (w * r) + b for w, r, b in mixed])
                return [classes[i] for i in scores.argmax(0)]

            yield predict, {"C": c, "beta": beta}


def _fasttext(train: Examples, seed: int) -> Iterator[tuple[Predict, dict[str, Any]]]:
    import fasttext

    settings = _SETTINGS["fasttext-library"]
    numbers = {label: str(i) for i, label in enumerate(sorted(set(train.labels)))}
    names = {number: label for label, number in numbers.items()}
    examples = list(zip(train.texts, train.labels, strict=True))
    random.Random(seed).shuffle(examples)  # it does not shuffle, and files are sorted by class
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        for text, label in examples:
            file.write(f"__label__{numbers[label]} {_line(text)}\n")
        file.flush()
        for epoch in settings["epoch"]:
            for lr in settings["lr"]:
                model = fasttext.train_supervised(
                    file.name,
                    wordNgrams=settings["ngrams"],
                    bucket=settings["bucket"],
                    dim=settings["dim"],
                    epoch=epoch,
                    lr=lr,
                    seed=seed,
                    thread=1,
                    verbose=0,
                )

                def predict(texts: list[str], model: Any = model) -> list[str]:
                    predicted, _ = model.predict([_line(text) for text in texts])
                    # An empty text gets no prediction; any class will do.
                    label = [p[0].removeprefix("__label__") if p else "0" for p in predicted]
                    return [names[number] for number in label]

                yield predict, {"epoch": epoch, "lr": lr}


def _line(text: str) -> str:
    return " ".join(text.lower().split())
