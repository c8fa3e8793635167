"""`WaveClassifier`: the classifier as a scikit-learn estimator."""

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
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wordwave import __version__
from wordwave.config_io import conform, flatten, from_dict, nested, read_json
from wordwave.data.examples import Examples
from wordwave.data.splits import (
    Splits,
    held_out_share,
    split_label_sets,
    split_labels,
    stratified_split,
)
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.models.config import ClassifierConfig
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import IN_MEMORY, ClassificationTrainingConfig, TextConfig
from wordwave.tasks.run_folder import Precision
from wordwave.tasks.sentence_job import SentenceJob
from wordwave.training.config import TrainingConfig
from wordwave.training.loop import Epoch

SEPARATOR = "|"
"""Between the labels of a text."""
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
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise WordwaveError(
            "sample_weight must be finite, at least 0 and not all zero, got "
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
OWN_PARAMETERS = tuple(_Own.__annotations__)


def read_estimator(
    folder: Path, names: Sequence[str]
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """An estimator's own parameters, and its labels with their type; of a run that no estimator
    saved, no parameters and the names of the classes.

    Args:
        folder: of a classifier.
        names: its classes.
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
    if sorted(map(name_of, labels)) != sorted(names):
        raise WordwaveError(
            f"'{file}' must have the classes of vocab.json beside it, "
            f"{clipped(names)}, got {clipped(labels)}"
        )
    return own, np.unique(classes)


E = TypeVar("E", bound="TextEstimator")
_EMBEDDING = ClassifierConfig().embedding
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
        if separator is None:
            classes = classes[[name_of(label) in used for label in classes.tolist()]]
        elif unused := [label for label in classes.tolist() if name_of(label) not in used]:
            raise WordwaveError(f"y must have a text of each label, got none of {unused[0]}")
        if len(classes) < 2:
            raise WordwaveError(
                f"y must have two classes or more, got one class, {classes.tolist()[0]!r}"
            )
        config, history = self._config(), []
        if separator is not None:
            config = replace(config, data=replace(config.data, multi_label=separator))
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with threads(self.n_threads), torch.random.fork_rng(devices=devices):
            job = self._job(config, inputs, labels, weights)
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
        if of_classes := self._class_weights(self.classifier_.labels):
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
        own, classes = read_estimator(Path(folder), classifier.labels)
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

    def _class_weights(self, names: list[str]) -> dict[str, float]:
        """The weights of classes that the parameter `class_weight` lists, by name."""
        return {}

    @abstractmethod
    def _inputs(self, X: Any) -> list[Any]:
        """The texts or pairs of X, validated."""

    @abstractmethod
    def _parts(self, inputs: list[Any], labels: list[str], seed: int) -> Any:
        """Training and validation data."""

    def _job(
        self, config: Any, inputs: list[Any], labels: list[str], weights: Floats | None
    ) -> Any:
        """The job, prepared. Shape: weights (N,)"""
        return self.job_class(config).prepare(self._parts(inputs, labels, config.training.seed))

    def _logits(self, X: Any) -> Tensor:
        """Shape: (N,) or (N, 2) -> (N, n_classes), in the order of `classes_`"""
        check_is_fitted(self, "classifier_")
        inputs = self._inputs(X)
        with threads(self.n_threads):
            logits = self.classifier_.logits(inputs)
        # Numbers and their names are ordered differently: 9 < 10, but "10" < "9".
        column = {name: i for i, name in enumerate(self.classifier_.labels)}
        order = [column[name_of(label)] for label in self.classes_.tolist()]
        return logits[:, order].double()


class WaveClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TextEstimator):  # type: ignore[misc]
    """A text classifier whose words are waves, as a scikit-learn estimator.

    `X` is a list, array or series of texts, `y` their labels: strings, integers or booleans, or a
    matrix of 0 and 1 with a column for each label, of which a text may have several. Every
    setting of `wordwave train classify` is a parameter of the same name and default, explained by
    `wordwave train classify --help`. These are the main ones; the last three are the estimator's
    own.

    Args:
        encoder: "bag", or one of the paper: "fasttext", "cnn", "lstm", "transformer".
        embedding: "complex-order", "complex-vanilla", "none", "pe" or "tpe"; with the transformer
            also "rope", "alibi" and the other encodings of `wordwave.positions`.
        dim: width of the embedding; set by `vectors`.
        max_length: longer texts are truncated to so many words.
        tokenizer: "plain", "kim" or "bpe".
        unknown_words: "shared" for one vector for all of them, "hashed" for that of a rare word.
        vectors: a file of pretrained vectors, or its name in the data home.
        epochs: maximum number of epochs; `None` for 8, and more of a small training set.
        patience: epochs without a higher validation score after which training stops; 0 for never.
        select: the validation score that selects the best epoch: "accuracy", "macro-f1" (the mean
            F1 of all classes), "likelihood" (the mean log-probability of the true class), or "last"
            for none, the last epoch; `None` for "last" with a bag and without patience, otherwise
            "accuracy".
        attention_score: the setting `score` of the command line.
        class_weight: how much a text of a class counts in the loss: `None` for all the same,
            "balanced" for inversely proportional to the number of texts of the class, or a
            dictionary from labels to weights, in which those that are missing have 1.
        random_state: an integer, a `RandomState`, or `None`. Equal integers give equal predictions.
        dev_share: fraction of the training texts held out for validation, to select the best epoch;
            0 for none, which keeps the last epoch. `None` for a tenth, at most 1,000 texts, and for
            none of fewer than 1,000 texts, which are worth more in training.
        n_threads: threads while fitting and predicting, `None` for torch's setting.
        verbose: print a line for each epoch.

    Attributes:
        classes_: the labels, sorted. Shape: (n_classes,)
        classifier_: the trained `TextClassifier`, which `push_to_hub` can share.
        history_: loss and validation scores of each epoch of `fit`.
    """

    job_class = ClassificationJob
    classifier_: TextClassifier

    def __init__(
        self,
        *,
        encoder: str = ClassifierConfig.encoder,
        embedding: str = _EMBEDDING.kind,
        dim: int = ClassifierConfig.dim,
        hidden_dim: int = ClassifierConfig.hidden_dim,
        dropout: float = ClassifierConfig.dropout,
        embedding_dropout: float | None = ClassifierConfig.embedding_dropout,
        max_norm: float = ClassifierConfig.max_norm,
        readout: str = ClassifierConfig.readout,
        pooling: str = ClassifierConfig.pooling,
        n_bigrams: int | None = ClassifierConfig.n_bigrams,
        bigram_dropout: float = ClassifierConfig.bigram_dropout,
        ngrams: bool = ClassifierConfig.ngrams,
        n_subwords: int | None = ClassifierConfig.n_subwords,
        n_filters: int = ClassifierConfig.n_filters,
        widths: tuple[int, ...] = ClassifierConfig.widths,
        padding: str = ClassifierConfig.padding,
        state_dim: int | None = ClassifierConfig.state_dim,
        n_layers: int = ClassifierConfig.n_layers,
        n_heads: int = ClassifierConfig.n_heads,
        feed_forward_dim: int = ClassifierConfig.feed_forward_dim,
        attention_score: str = ClassifierConfig.score,
        normalization: str = ClassifierConfig.normalization,
        share: str = ClassifierConfig.share,
        share_frequency: str | None = _EMBEDDING.share_frequency,
        share_amplitude: str | None = _EMBEDDING.share_amplitude,
        share_phase: str | None = _EMBEDDING.share_phase,
        phase: bool = _EMBEDDING.phase,
        damping: bool = _EMBEDDING.damping,
        frequency_init: str = _EMBEDDING.frequency_init,
        frequency_range: tuple[float, float] | None = _EMBEDDING.frequency_range,
        frequency_scale: float = _EMBEDDING.frequency_scale,
        freeze_frequency: bool = _EMBEDDING.freeze_frequency,
        train_sinusoids: bool = _EMBEDDING.train_sinusoids,
        layers: str = _EMBEDDING.layers,
        views: tuple[str, ...] = _EMBEDDING.views,
        word_scale: float | None = _EMBEDDING.word_scale,
        position_scale: float = _EMBEDDING.position_scale,
        max_length: int = ClassifierConfig.max_length,
        tokenizer: str = TextConfig.tokenizer,
        bpe_size: int = TextConfig.bpe_size,
        min_count: int = TextConfig.min_count,
        max_vocabulary: int | None = TextConfig.max_vocabulary,
        unknown_words: str = TextConfig.unknown_words,
        vectors: str | os.PathLike[str] | None = TextConfig.vectors,
        vector_scale: float = TextConfig.vector_scale,
        freeze_vectors: bool = TextConfig.freeze_vectors,
        extra_words: int = TextConfig.extra_words,
        epochs: int | None = TrainingConfig.epochs,
        max_steps: int = TrainingConfig.max_steps,
        eval_every: int = TrainingConfig.eval_every,
        patience: int = TrainingConfig.patience,
        batch_size: int = TrainingConfig.batch_size,
        grad_accumulation: int = TrainingConfig.grad_accumulation,
        learning_rate: float = TrainingConfig.learning_rate,
        schedule: str = TrainingConfig.schedule,
        warmup_fraction: float = TrainingConfig.warmup_fraction,
        weight_decay: float = TrainingConfig.weight_decay,
        vector_lr_scale: float = TrainingConfig.vector_lr_scale,
        frequency_lr_scale: float = TrainingConfig.frequency_lr_scale,
        frequency_weight_decay: float = TrainingConfig.frequency_weight_decay,
        beta2: float = TrainingConfig.beta2,
        max_grad_norm: float = TrainingConfig.max_grad_norm,
        row_sparse: bool = TrainingConfig.row_sparse,
        word_dropout: float = TrainingConfig.word_dropout,
        random_positions: int = TrainingConfig.random_positions,
        amplitude_penalty: float = TrainingConfig.amplitude_penalty,
        penalty_start: float = TrainingConfig.penalty_start,
        precision: str = TrainingConfig.precision,
        class_weight: str | dict[Any, float] | None = None,
        select: str | None = ClassificationTrainingConfig.select,
        random_state: int | np.random.RandomState | None = TrainingConfig.seed,
        dev_share: float | None = None,
        n_threads: int | None = 1,
        verbose: bool = False,
    ) -> None:
        # As scikit-learn requires: parameters are stored unchanged and validated by `fit`.
        given = dict(locals())
        del given["self"]
        for name, value in given.items():
            setattr(self, name, value)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WaveClassifier:
        """Train on texts and their labels.

        Args:
            sample_weight: how much each text counts, in the loss and in the scores that select the
                best epoch; a text of weight 2 counts as two, and one of weight 0 is left out.

        Shape: X (N,), y (N,) or (N, n_classes), sample_weight (N,)
        """
        return self._fit(X, y, sample_weight)

    def _labels(self, y: Any) -> tuple[np.ndarray[Any, Any], list[str], str | None]:
        is_matrix = getattr(y, "ndim", 1) > 1 or (
            isinstance(y, list) and y[:1] and isinstance(y[0], list)
        )
        if not is_matrix or type_of_target(y) != "multilabel-indicator":
            return super()._labels(y)
        matrix = np.asarray(y.toarray() if hasattr(y, "toarray") else y).astype(bool)
        rows = [SEPARATOR.join(map(str, row.nonzero()[0].tolist())) for row in matrix]
        if isinstance(self.class_weight, dict):
            raise WordwaveError("class_weight must be None or 'balanced' for several labels")
        return np.arange(matrix.shape[1]), rows, SEPARATOR

    @property
    def _is_multi_label(self) -> bool:
        check_is_fitted(self, "classifier_")
        return self.classifier_.multi_label

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The most probable label of each text; of several labels, 1 where the probability is at
        least a half. Shape: (N,) -> (N,) or (N, n_classes)"""
        return (self._logits(X) >= 0).long().numpy() if self._is_multi_label else super().predict(X)

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities, in the order of `classes_`. Shape: (N,) -> (N, n_classes)"""
        if self._is_multi_label:
            return self._logits(X).sigmoid().numpy()
        return super().predict_proba(X)

    def decision_function(self, X: Any) -> np.ndarray[Any, Any]:
        """Logits; with two classes that exclude each other, the second minus the first.

        Shape: (N,) -> (N, n_classes), or (N,) with two classes
        """
        return self._logits(X).numpy() if self._is_multi_label else super().decision_function(X)

    def transform(self, X: Any) -> np.ndarray[Any, Any]:
        """The vectors that the head classifies, one a text. Shape: (N,) -> (N, width), float32"""
        check_is_fitted(self, "classifier_")
        with threads(self.n_threads):
            return self.classifier_.encode(texts_in(X)).numpy()

    @property
    def _n_features_out(self) -> int:
        """For `get_feature_names_out`: waveclassifier0, waveclassifier1, …"""
        check_is_fitted(self, "classifier_")
        return self.classifier_.model.sentence_dim

    def _job(
        self, config: Any, inputs: list[str], labels: list[str], weights: Floats | None
    ) -> ClassificationJob:
        of_classes = self._class_weights(sorted(set(labels))) or None
        how = (config.training.seed, config.data.multi_label)
        parts, (rest, held) = self._parts(inputs, labels, *how), self._rows(labels, *how)
        given = of_mean_1(weights, rest), of_mean_1(weights, held)
        return ClassificationJob(config).prepare(parts, given, of_classes)

    def _parts(
        self, inputs: list[str], labels: list[str], seed: int, separator: str | None = None
    ) -> Splits:
        rest, held = self._rows(labels, seed, separator)
        examples = Examples(inputs, labels, "X")
        return Splits(examples.subset(rest), examples.subset(held) if held else None, None)

    def _rows(
        self, labels: list[str], seed: int, separator: str | None = None
    ) -> tuple[list[int], list[int]]:
        """The rows to train and those to validate on."""
        share = held_out_share(len(labels), self.dev_share, patience=self.patience)
        if not share:
            return list(range(len(labels))), []
        if separator is not None:
            sets = [split_labels(row, separator) for row in labels]
            rest, held = split_label_sets(sets, share, seed)
        else:
            rest, held = stratified_split(labels, share, seed)
        if not held:
            raise WordwaveError(
                f"dev_share must be 0 where no class has two texts, got {share} of "
                f"{len(labels)} texts"
            )
        return rest, held

    def _inputs(self, X: Any) -> list[str]:
        return texts_in(X)

    def _class_weights(self, names: list[str]) -> dict[str, float]:
        if not isinstance(self.class_weight, dict):
            return {}
        given = {name_of(plain(k)): plain(v) for k, v in self.class_weight.items()}
        for name, weight in given.items():
            if name not in names:
                raise WordwaveError(
                    f"class_weight must have classes of y, {clipped(names)}, got {clipped(name)}"
                )
            if not (isinstance(weight, (int, float)) and 0 < weight < np.inf):
                raise WordwaveError(f"class_weight must hold weights above 0, got {weight!r}")
        return given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []  # vectors are float32
        tags.classifier_tags.multi_label = True
        return tags


def of_mean_1(weights: Floats | None, rows: list[int]) -> Tensor | None:
    """The weights of some rows, divided by their mean. Shape: (N,) -> (n,)"""
    if weights is None or not rows:
        return None
    return torch.tensor(weights[rows] / weights[rows].mean(), dtype=torch.float32)


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
