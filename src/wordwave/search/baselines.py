"""Linear models and fastText to compare with: TF-IDF with logistic regression, and the library."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from wordwave.errors import WordwaveError
from wordwave.files import naming_temporary

if TYPE_CHECKING:
    from wordwave.data.examples import Examples

Baseline = Literal["tfidf", "tfidf-char", "fasttext-library"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
SETTINGS: dict[Baseline, dict[str, Any]] = {
    "tfidf": {"analyzer": "word", "ngram_range": [1, 2], "sublinear_tf": True, "C": 10.0},
    "tfidf-char": {"analyzer": "char_wb", "ngram_range": [2, 5], "sublinear_tf": True, "C": 10.0},
    "fasttext-library": {
        "wordNgrams": 2,
        "bucket": 500_000,  # its own 2,000,000 take 800 MB, for sets of 100,000 bigrams
        "dim": 100,
        "lr": 0.5,
        "epoch": 25,
    },
}
"""The settings of each baseline, under the names that scikit-learn and fastText have for them."""


@dataclass(frozen=True)
class FittedBaseline:
    """A baseline after training."""

    predict: Callable[[list[str]], list[str]]
    """The class of each text."""
    n_parameters: int


def check_installed(name: str, instead: str) -> None:
    """Raise if the package of fastText is missing; `instead` is what else to do."""
    if name == "fasttext-library":
        try:
            import fasttext  # noqa: F401
        except ModuleNotFoundError:
            raise WordwaveError(
                f"{name} needs a package: pip install 'wordwave[anchors]', or {instead}"
            ) from None


def fit_baseline(name: Baseline, train: Examples, seed: int = 0) -> FittedBaseline:
    """A baseline with its usual settings, on the tokens that classifiers have by default."""
    from wordwave.text.tokenizers import PlainTokenizer

    settings, tokenize = SETTINGS[name], PlainTokenizer()
    if name == "fasttext-library":
        return fit_fasttext(train, seed, lambda text: " ".join(tokenize(text)), **settings)
    if name == "tfidf":
        settings = {**settings, "tokenizer": tokenize, "token_pattern": None, "lowercase": False}
    return fit_tfidf(train, **settings)


def fit_tfidf(train: Examples, *, C: float, **vectorizer: Any) -> FittedBaseline:
    """Logistic regression on TF-IDF features; options are those of `TfidfVectorizer`."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer["ngram_range"] = tuple(vectorizer["ngram_range"])
    features = TfidfVectorizer(**vectorizer)
    x = features.fit_transform(train.texts)
    model = LogisticRegression(C=C, max_iter=1000).fit(x, train.labels)

    def predict(texts: list[str]) -> list[str]:
        return list(map(str, model.predict(features.transform(texts))))

    return FittedBaseline(predict, model.coef_.size + model.intercept_.size)


def fit_fasttext(
    train: Examples, seed: int, line_of: Callable[[str], str], **settings: Any
) -> FittedBaseline:
    """fastText's classifier, on one thread; `line_of` makes a line of words of a text."""
    import fasttext

    numbers = {label: str(i) for i, label in enumerate(sorted(set(train.labels)))}
    names = {number: label for label, number in numbers.items()}
    examples = list(zip(train.texts, train.labels, strict=True))
    random.Random(seed).shuffle(examples)  # it does not shuffle, and files are sorted by class
    with (
        naming_temporary(),
        tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file,
    ):
        for text, label in examples:
            file.write(f"__label__{numbers[label]} {line_of(text)}\n")
        file.flush()
        model = fasttext.train_supervised(file.name, seed=seed, thread=1, verbose=0, **settings)

    def predict(texts: list[str]) -> list[str]:
        predicted, _ = model.predict([line_of(text) for text in texts])
        # An empty text gets no prediction; any class will do.
        found = [one[0].removeprefix("__label__") if one else "0" for one in predicted]
        return [names[number] for number in found]

    n_words = len(model.words) + settings["bucket"]
    return FittedBaseline(predict, settings["dim"] * (n_words + len(numbers)))
