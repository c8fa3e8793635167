"""What the scikit-learn estimators share: checks of X and y, training, prediction, saving."""

from __future__ import annotations

import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, ClassVar, TypedDict, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wordwave import __version__
from wordwave.config_io import conform, flatten, from_dict, nested, read_json
from wordwave.data.splits import split_labels
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.tasks.config import IN_MEMORY
from wordwave.tasks.run_folder import Precision
from wordwave.tasks.sentence_job import SentenceJob
from wordwave.training.loop import Epoch

Floats = np.ndarray[Any, np.dtype[np.float64]]


def texts_in(X: Any) -> list[str]:
    """The texts of a list, array or series, validated."""
    if isinstance(X, (str, bytes)):
        raise WordwaveError(f"X must be a list of texts, got the one text {clipped(X)}")
    array = np.asarray(X, dtype=object)
    if array.ndim != 1:
        got = f"the shape {array.shape}" if array.ndim else type(X).__name__
        raise WordwaveError(
            f"X must be a list, array or series of texts, one for each row, got {got}"
        )
    if not len(array):
        raise WordwaveError("X must hold at least one text, got none")
    texts: list[str] = array.tolist()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise WordwaveError(f"X must hold texts only, got {clipped(text)} at {i}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise WordwaveError(
                f"X must hold whole characters, got {clipped(text)} at {i}"
            ) from None
    return texts


def classes_in(y: Any, estimator: str) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The sorted distinct labels, and the index of each row's label."""
    if y is None:
        raise WordwaveError(f"{estimator} requires y to be passed, but the target y is None")
    _of_one_kind(y if isinstance(y, (list, tuple)) else [])
    labels = column_or_1d(y, warn=True)
    _of_one_kind(labels.tolist() if labels.dtype == object else [])
    check_classification_targets(labels)
    if labels.dtype.kind not in "biufUO":
        raise WordwaveError(f"y must hold strings, numbers or truth values, got {labels.dtype}")
    classes, numbers = np.unique(labels, return_inverse=True)
    return classes, numbers.tolist()


def _of_one_kind(labels: Any) -> None:
    """Raise for labels that numpy would convert to strings, such as a missing one among names."""
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        i = strings.index(False)
        raise WordwaveError(f"y must hold strings only or none, got {clipped(labels[i])} at {i}")


def weights_in(sample_weight: Any, n: int) -> Floats:
    """The weights of n rows, validated. Shape: (n,)"""
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise WordwaveError(
            f"sample_weight must hold numbers, got {clipped(sample_weight)}"
        ) from None
    if weights.shape != (n,):
        raise WordwaveError(f"sample_weight must have the shape ({n},), got {weights.shape}")
    with np.errstate(over="ignore"):
        has_sum = bool(np.isfinite(weights.sum()))
    if not (has_sum and (weights >= 0).all() and weights.any()):
        raise WordwaveError(
            "sample_weight must be finite, at least 0 and not all zero, with a finite sum, got "
            f"{clipped(weights.tolist())}"
        )
    return weights


def name_of(label: Any) -> str:
    """A label as the name of a class: numbers and booleans as in JSON."""
    return label if isinstance(label, str) else json.dumps(label)


def plain(value: Any) -> Any:
    """A parameter as a Python value; a grid search may pass numpy scalars."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class _Own(TypedDict, total=False):
    """Parameters that are not settings of `wordwave train`."""

    dev_share: float | None
    n_threads: int | None
    verbose: bool


class _Parameters(_Own, total=False):
    class_weight: dict[str, float]
    """By the names of classes."""


class _Saved(TypedDict):
    """The content of estimator.json, beside the version."""

    parameters: _Parameters
    label_type: str
    classes: list[str | float | bool]


ESTIMATOR_FILE = "estimator.json"
UNUSED = -100.0
"""The logit of a label that no training text has: a probability of almost 0."""
OWN_PARAMETERS = tuple(_Own.__annotations__)


def read_estimator(
    folder: Path, names: Sequence[str], *, may_lack: bool
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """An estimator's own parameters, and its labels with their type; of a run that no estimator
    saved, no parameters and the names of the classes.

    Args:
        folder: of a classifier.
        names: its classes.
        may_lack: whether there may be labels that it does not have, since no text had them.
    """
    file = folder / ESTIMATOR_FILE
    if not file.exists():
        return {}, np.array(names)
    try:
        saved = read_json(file)
        conform(saved, _Saved, where="it")
        own, kind, labels = (saved[key] for key in ("parameters", "label_type", "classes"))
        if not set(own) <= {*OWN_PARAMETERS, "class_weight"}:
            raise WordwaveError(f"parameters must be among {OWN_PARAMETERS}, got {clipped(own)}")
        # A name such as U1000000000 would take gigabytes for each class.
        if kind != "str" and (np.dtype(kind).kind not in "biufO" or np.dtype(kind).name != kind):
            raise WordwaveError(f"label_type must be of strings or numbers, got {clipped(kind)}")
        classes = np.array(labels, dtype=kind)
        if classes.tolist() != labels:
            raise WordwaveError(f"classes must be a list of {kind}, got {clipped(labels)}")
    except (ValueError, TypeError, OverflowError) as problem:
        raise WordwaveError(f"'{file}' does not describe an estimator: {problem}") from None
    given = list(map(name_of, labels))
    has_all = set(names) <= set(given) and len(set(given)) == len(given)
    if not (has_all and (may_lack or len(given) == len(names))):
        raise WordwaveError(
            f"'{file}' must have the classes of vocab.json beside it, "
            f"{clipped(names)}, got {clipped(labels)}"
        )
    return own, np.unique(classes)


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Set the number of torch's threads temporarily."""
    if n is not None and (not isinstance(n, int) or n < 1):
        raise WordwaveError(f"n_threads must be at least 1 or None, got {n!r}")
    before = torch.get_num_threads()
    torch.set_num_threads(before if n is None else n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


E = TypeVar("E", bound="TextEstimator")
OTHER_NAMES = {"score": "attention_score", "seed": "random_state"}
"""Settings with another name here: `score` is a method of estimators."""


class TextEstimator(ABC, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A job as a scikit-learn estimator, whose parameters are the settings of the job.

    A subclass lists them, with `OWN_PARAMETERS`, in its constructor.
    """

    job_class: ClassVar[type[SentenceJob[Any, Any]]]

    def fit(self: E, X: Any, y: Any) -> E:
        """Train on texts, or pairs, and their labels. Shape: X (N,) or (N, 2), y (N,)"""
        return self._fit(X, y, None)

    def _fit(self: E, X: Any, y: Any, sample_weight: Any) -> E:
        inputs, (classes, labels, separator) = self._inputs(X), self._labels(y)
        check_consistent_length(inputs, labels)
        weights = None
        if sample_weight is not None:
            weights = weights_in(sample_weight, len(inputs))
            kept = weights.nonzero()[0].tolist()
            weights = weights[kept]
            inputs, labels = ([column[i] for i in kept] for column in (inputs, labels))
        rows = set(labels)
        used = {
            one for row in rows for one in (split_labels(row, separator) if separator else [row])
        }
        has_texts = np.array([name_of(label) in used for label in classes.tolist()], bool)
        found, unused = classes[has_texts].tolist(), classes[~has_texts].tolist()
        if len(found) < 2:
            got = f"one class, {found[0]!r}" if found else "texts without a label"
            raise WordwaveError(f"y must have two classes or more, got {got}")
        if separator is None:
            classes = classes[has_texts]
        elif unused:
            warnings.warn(
                f"y has no text of the labels {clipped(unused)}, which are never predicted",
                stacklevel=3,
            )
        of_classes = self._class_weights(classes.tolist())
        config, history = self._config(), []
        if separator is not None:
            config = replace(config, data=replace(config.data, multi_label=separator))
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with threads(self.n_threads), torch.random.fork_rng(devices=devices):
            job = self._job(config, inputs, labels, weights, of_classes)
            if self.verbose:
                print(*job.notes, sep="\n", flush=True)
            for report in job.run(job.training()):
                if isinstance(report, Epoch):
                    history.append({"epoch": report.epoch, "loss": report.loss, **report.scores})
                    if self.verbose:
                        print("  ".join(f"{k} {v:.4g}" for k, v in history[-1].items()), flush=True)
        job.text_model.model.eval()
        self.classifier_, self.classes_, self.history_ = job.text_model, classes, history
        if only := job.only_class():
            warnings.warn(
                f"all training examples are predicted as {clipped(only)}: train for more epochs, "
                "on more examples, or with another learning_rate",
                stacklevel=3,
            )
        return self

    def _labels(self, y: Any) -> tuple[np.ndarray[Any, Any], list[str], str | None]:
        """The distinct labels, sorted, the name of each row's label, and what separates several."""
        classes, numbers = classes_in(y, type(self).__name__)
        names = [name_of(label) for label in classes.tolist()]
        return classes, [names[i] for i in numbers], None

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The most probable label of each row. Shape: (N,) or (N, 2) -> (N,)"""
        logits = self._logits(X)
        return self.classes_[logits.argmax(-1).numpy()]

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities, in the order of `classes_`. Shape: (N,) or (N, 2) -> (N, n_classes)"""
        return self._logits(X).softmax(-1).numpy()

    def decision_function(self, X: Any) -> np.ndarray[Any, Any]:
        """Logits; with two classes, the second minus the first.

        Shape: (N,) or (N, 2) -> (N, n_classes), or (N,) with two classes
        """
        logits = self._logits(X)
        return (logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits).numpy()

    def save(self, folder: str | os.PathLike[str], dtype: Precision = "float32") -> None:
        """Write a folder that `load` and `wordwave predict` read.

        Args:
            dtype: of the tables of words, bigrams and n-grams in the file; float16 takes half the
                space. Loaded weights are float32.
        """
        check_is_fitted(self, "classifier_")
        label_type = self.classes_.dtype
        saved: dict[str, Any] = {
            "version": __version__,
            "parameters": {name: plain(getattr(self, name)) for name in OWN_PARAMETERS},
            "label_type": "str" if label_type.kind == "U" else label_type.name,
            "classes": self.classes_.tolist(),
        }
        if of_classes := self._class_weights(self.classes_.tolist()):
            saved["parameters"]["class_weight"] = of_classes
        self.classifier_.save(Path(folder), dtype)
        text = json.dumps(saved, ensure_ascii=False, indent=2) + "\n"
        write_text(Path(folder) / ESTIMATOR_FILE, text)

    @classmethod
    def load(cls: type[E], folder: str | os.PathLike[str]) -> E:
        """Read what `save` wrote, or a run of `wordwave train`, whose labels are strings.

        Its parameters are those it was trained with.
        """
        classifier: Any = cls.job_class.model_class.load(Path(folder))
        if not classifier.labels:
            raise WordwaveError(f"'{folder}' predicts scores, not classes: load it by TextMatcher")
        may_lack = getattr(classifier, "multi_label", False)
        own, classes = read_estimator(Path(folder), classifier.labels, may_lack=may_lack)
        config, named = classifier.config, {name_of(label): label for label in classes.tolist()}
        settings: dict[str, Any] = {
            OTHER_NAMES.get(name, name): tuple(value) if isinstance(value, list) else value
            for part in (config.model, config.text, config.training)
            for name, value in flatten(part).items()
        }
        if settings.get("class_weight") == "none":
            settings["class_weight"] = None
        if isinstance(of_classes := own.pop("class_weight", None), dict):
            settings["class_weight"] = {named.get(k, k): v for k, v in of_classes.items()}
        estimator = cls(**settings, **own)
        estimator.classifier_, estimator.classes_ = classifier, classes
        return estimator

    def _config(self) -> Any:
        """The settings given by the parameters, validated."""
        given = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(given["random_state"], int):
            given["random_state"] = int(check_random_state(self.random_state).randint(2**31))
        if given.get("class_weight") is None or isinstance(given["class_weight"], dict):
            given["class_weight"] = "none"  # of a dictionary, the weights of texts
        usual = self.job_class.model_class.config_class()

        def part(name: str) -> Any:
            kind = type(getattr(usual, name))
            values = {name: given[OTHER_NAMES.get(name, name)] for name in flatten(kind())}
            return from_dict(kind, nested(kind, values), where=type(self).__name__)

        data = replace(usual.data, data=IN_MEMORY)
        return type(usual)(data, part("text"), part("model"), part("training"))

    def _class_weights(self, classes: list[Any]) -> dict[str, float]:
        """The weights of classes that the parameter `class_weight` lists, by name."""
        return {}

    @abstractmethod
    def _inputs(self, X: Any) -> list[Any]:
        """The texts or pairs of X, validated."""

    @abstractmethod
    def _parts(self, inputs: list[Any], labels: list[str], seed: int) -> Any:
        """Training and validation data."""

    def _job(
        self,
        config: Any,
        inputs: list[Any],
        labels: list[str],
        weights: Floats | None,
        of_classes: dict[str, float],
    ) -> Any:
        """The job, prepared; with weights of rows and of classes. Shape: weights (N,)"""
        return self.job_class(config).prepare(self._parts(inputs, labels, config.training.seed))

    def _logits(self, X: Any) -> Tensor:
        """Shape: (N,) or (N, 2) -> (N, n_classes), in the order of `classes_`"""
        check_is_fitted(self, "classifier_")
        inputs = self._inputs(X)
        with threads(self.n_threads):
            logits = self.classifier_.logits(inputs)
        # Numbers and their names are ordered differently: 9 < 10, but "10" < "9".
        column = {name: i for i, name in enumerate(self.classifier_.labels)}
        order = [column.get(name_of(label), -1) for label in self.classes_.tolist()]
        return F.pad(logits.double(), (0, 1), value=UNUSED)[:, order]
