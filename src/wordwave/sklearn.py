"""A text classifier with the manners of scikit-learn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wordwave import __version__
from wordwave.data.splits import DEV_SHARE, Parts, stratified_split
from wordwave.data.tables import Examples
from wordwave.files import write_text
from wordwave.models.config import ModelConfig
from wordwave.plain import from_plain
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.classify import prepare
from wordwave.tasks.config import IN_MEMORY, ClassifyConfig, DataSettings, TextSettings
from wordwave.training.loop import Training
from wordwave.training.settings import TrainingSettings
from wordwave.training.task import Epoch

C = TypeVar("C")

ESTIMATOR_FILE = "estimator.json"
OTHER_NAMES = {"score": "attention_score", "seed": "random_state"}
"""Settings that are called otherwise here: an estimator's `score` is a method."""
OWN_PARAMETERS = ("dev_share", "n_threads", "verbose")
"""Those that are no setting of `wordwave train classify`."""


class WaveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A text classifier whose words are waves, as a scikit-learn estimator.

    `X` is a list, array or series of texts, `y` their labels: strings, integers or truth values.
    Every setting of `wordwave train classify` is a parameter of the same name and default
    (`wordwave train classify --help` explains them all). Below are the ones to know; the last three
    are the estimator's own.

    Args:
        encoder: "fasttext", "cnn", "lstm" or "transformer".
        embedding: "complex-order", "complex-vanilla", "none", "pe" or "tpe"; with the transformer
            also "rope" or "alibi".
        dim: width of the embedding; `vectors` set it.
        max_length: longer texts are cut to so many words.
        tokeniser: "plain", "kim" or "bpe".
        vectors: a file of pretrained vectors, or its name in the data home.
        epochs: how often every text is seen at most.
        patience: epochs without a better score on the held-out texts after which training stops;
            0 for never.
        attention_score: what the command line calls score.
        random_state: a number, a `RandomState`, or `None`. Same number, same predictions.
        dev_share: share of the training texts held out to choose the best epoch by; 0 for none,
            and then the last epoch counts.
        n_threads: threads while fitting and predicting, `None` for as many as torch has.
        verbose: print a line for each epoch.

    Attributes:
        classes_: the labels, sorted. Shape: (n_classes,)
        classifier_: the trained `TextClassifier`, which `push_to_hub` can share.
        history_: loss and held-out accuracy of each epoch of `fit`.
    """

    def __init__(
        self,
        *,
        encoder: str = ModelConfig.encoder,
        embedding: str = ModelConfig.embedding,
        dim: int = ModelConfig.dim,
        hidden_dim: int = ModelConfig.hidden_dim,
        dropout: float = ModelConfig.dropout,
        readout: str = ModelConfig.readout,
        pooling: str = ModelConfig.pooling,
        n_filters: int = ModelConfig.n_filters,
        widths: tuple[int, ...] = ModelConfig.widths,
        state_dim: int | None = ModelConfig.state_dim,
        n_layers: int = ModelConfig.n_layers,
        n_heads: int = ModelConfig.n_heads,
        feed_forward_dim: int = ModelConfig.feed_forward_dim,
        attention_score: str = ModelConfig.score,
        share: str = ModelConfig.share,
        share_frequency: str | None = ModelConfig.share_frequency,
        share_amplitude: str | None = ModelConfig.share_amplitude,
        phase: bool = ModelConfig.phase,
        damping: bool = ModelConfig.damping,
        frequency_init: str = ModelConfig.frequency_init,
        frequency_range: tuple[float, float] | None = ModelConfig.frequency_range,
        freeze_frequency: bool = ModelConfig.freeze_frequency,
        word_scale: float = ModelConfig.word_scale,
        position_scale: float = ModelConfig.position_scale,
        max_length: int = ModelConfig.max_length,
        tokeniser: str = TextSettings.tokeniser,
        bpe_size: int = TextSettings.bpe_size,
        min_count: int = TextSettings.min_count,
        max_vocabulary: int | None = TextSettings.max_vocabulary,
        vectors: str | os.PathLike[str] | None = TextSettings.vectors,
        vector_scale: float = TextSettings.vector_scale,
        freeze_vectors: bool = TextSettings.freeze_vectors,
        extra_words: int = TextSettings.extra_words,
        epochs: int = TrainingSettings.epochs,
        max_steps: int = TrainingSettings.max_steps,
        judge_every: int = TrainingSettings.judge_every,
        patience: int = TrainingSettings.patience,
        batch_size: int = TrainingSettings.batch_size,
        accumulate: int = TrainingSettings.accumulate,
        learning_rate: float = TrainingSettings.learning_rate,
        schedule: str = TrainingSettings.schedule,
        warm_up: float = TrainingSettings.warm_up,
        weight_decay: float = TrainingSettings.weight_decay,
        frequency_rate: float = TrainingSettings.frequency_rate,
        frequency_decay: float = TrainingSettings.frequency_decay,
        beta2: float = TrainingSettings.beta2,
        clip: float = TrainingSettings.clip,
        row_sparse: bool = TrainingSettings.row_sparse,
        word_dropout: float = TrainingSettings.word_dropout,
        random_positions: int = TrainingSettings.random_positions,
        amplitude_penalty: float = TrainingSettings.amplitude_penalty,
        penalty_start: float = TrainingSettings.penalty_start,
        precision: str = TrainingSettings.precision,
        random_state: int | np.random.RandomState | None = TrainingSettings.seed,
        dev_share: float = DEV_SHARE,
        n_threads: int | None = 1,
        verbose: bool = False,
    ) -> None:
        # As scikit-learn wants it: each parameter kept as it is, and looked at by `fit` only.
        given = dict(locals())
        del given["self"]
        for name, value in given.items():
            setattr(self, name, value)

    def fit(self, X: Any, y: Any) -> WaveClassifier:
        """Learn from texts and their labels. Shape: X (N,), y (N,)"""
        texts, (classes, numbers) = texts_in(X), classes_in(y)
        check_consistent_length(texts, numbers)
        if len(classes) < 2:
            raise ValueError(
                f"y must have two classes or more, got one class, {classes.tolist()[0]!r}"
            )
        names = [name_of(label) for label in classes.tolist()]
        examples = Examples(texts, [names[i] for i in numbers], "X")
        config = self._config()
        parts = self._parts(examples, config.training.seed)
        history = []
        with threads(self.n_threads), torch.random.fork_rng(devices=_devices()):
            prepared = prepare(config, parts)
            model = prepared.classifier.model
            if self.verbose:
                print(*prepared.notes, sep="\n", flush=True)
            for report in Training(model, prepared.task, config.training).run():
                if isinstance(report, Epoch):
                    history.append({"epoch": report.epoch, "loss": report.loss, **report.scores})
                    if self.verbose:
                        print("  ".join(f"{k} {v:.4g}" for k, v in history[-1].items()), flush=True)
        model.eval()
        self.classifier_, self.classes_, self.history_ = prepared.classifier, classes, history
        return self

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The likeliest label of each text. Shape: (N,) -> (N,)"""
        logits = self._logits(X)
        return self.classes_[logits.argmax(-1).numpy()]

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """How likely each label is, in the order of `classes_`. Shape: (N,) -> (N, n_classes)"""
        return self._logits(X).softmax(-1).numpy()

    def decision_function(self, X: Any) -> np.ndarray[Any, Any]:
        """Logits; with two classes, how far the second is above the first.

        Shape: (N,) -> (N, n_classes), or (N,) with two classes
        """
        logits = self._logits(X)
        return (logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits).numpy()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `load` reads, and `wordwave predict` too."""
        check_is_fitted(self, "classifier_")
        own = {name: _plain(getattr(self, name)) for name in OWN_PARAMETERS}
        kind = self.classes_.dtype
        told = {
            "version": __version__,
            "parameters": own,
            "label_type": "str" if kind.kind == "U" else kind.name,
            "classes": self.classes_.tolist(),
        }
        self.classifier_.save(Path(folder))
        text = json.dumps(told, ensure_ascii=False, indent=2)
        write_text(Path(folder) / ESTIMATOR_FILE, text + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> WaveClassifier:
        """Read what `save` wrote, or a run of `wordwave train classify`, whose labels are strings.

        Its parameters are those it was trained with.
        """
        classifier = TextClassifier.load(Path(folder))
        file = Path(folder) / ESTIMATOR_FILE
        own: dict[str, Any] = {}
        classes = np.array(classifier.labels)
        if file.exists():
            try:
                own, classes = _estimator_from(json.loads(file.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError, OverflowError) as problem:
                raise ValueError(f"'{file}' is not of an estimator: {problem}") from None
            if sorted(map(name_of, classes.tolist())) != sorted(classifier.labels):
                raise ValueError(
                    f"'{file}' must have the classes of vocab.json beside it, "
                    f"{clipped(classifier.labels)}, got {clipped(classes.tolist())}"
                )
        config = classifier.config
        settings = {
            OTHER_NAMES.get(field.name, field.name): getattr(part, field.name)
            for part in (config.model, config.text, config.training)
            for field in fields(part)
        }
        estimator = cls(**settings, **own)
        estimator.classifier_, estimator.classes_ = classifier, classes
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _config(self) -> ClassifyConfig:
        """The settings that the parameters say, checked."""
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(given["random_state"], int):
            given["random_state"] = int(check_random_state(self.random_state).randint(2**31))

        def part(kind: type[C]) -> C:
            names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
            values = {name: given[OTHER_NAMES.get(name, name)] for name in names}
            return from_plain(kind, values, where=type(self).__name__)

        # The default would claim that it was trained on trec.
        data = DataSettings(data=IN_MEMORY)
        return ClassifyConfig(data, part(TextSettings), part(ModelConfig), part(TrainingSettings))

    def _parts(self, examples: Examples, seed: int) -> Parts:
        share = self.dev_share
        if not 0 <= share < 1:
            raise ValueError(f"dev_share must be at least 0 and below 1, got {share}")
        if share == 0:
            if self.patience:
                raise ValueError(
                    f"patience needs a dev_share above 0 to judge by, got patience {self.patience}"
                )
            return Parts(examples, None, None)
        rest, held = stratified_split(examples.labels, share, seed)
        if not held:
            raise ValueError(
                f"dev_share must be 0 where no class has two texts, got {share} of "
                f"{len(examples)} texts"
            )
        return Parts(examples.subset(rest), examples.subset(held), None)

    def _logits(self, X: Any) -> Tensor:
        """Shape: (N,) -> (N, n_classes), in the order of `classes_`"""
        check_is_fitted(self, "classifier_")
        texts = texts_in(X)
        with threads(self.n_threads):
            logits = self.classifier_.logits(texts)
        # Numbers have another order than their names: 9 < 10, but "10" < "9".
        column = {name: i for i, name in enumerate(self.classifier_.labels)}
        order = [column[name_of(label)] for label in self.classes_.tolist()]
        return logits[:, order].double()


def texts_in(X: Any) -> list[str]:
    """The texts of a list, array or series, which must be nothing else."""
    if isinstance(X, (str, bytes)):
        raise ValueError(f"X must be a list of texts, got the one text {clipped(X)}")
    array = np.asarray(X, dtype=object)
    if array.ndim != 1:
        got = f"the shape {array.shape}" if array.ndim else type(X).__name__
        raise ValueError(f"X must be a list, array or series of texts, one for each row, got {got}")
    if not len(array):
        raise ValueError("X must hold at least one text, got none")
    texts: list[str] = array.tolist()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts only, got {clipped(text)} at {i}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"X must hold whole characters, got {clipped(text)} at {i}") from None
    return texts


def classes_in(y: Any) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The different labels, sorted, and the number of each row's label among them."""
    if y is None:
        raise ValueError("WaveClassifier requires y to be passed, but the target y is None")
    _of_one_kind(y if isinstance(y, (list, tuple)) else [])
    labels = column_or_1d(y, warn=True)
    _of_one_kind(labels.tolist() if labels.dtype == object else [])
    check_classification_targets(labels)
    if labels.dtype.kind not in "biufUO":
        raise ValueError(f"y must hold strings, numbers or truth values, got {labels.dtype}")
    classes, numbers = np.unique(labels, return_inverse=True)
    return classes, numbers.tolist()


def _of_one_kind(labels: Any) -> None:
    """Refuse what numpy would turn into strings: a missing label among names."""
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        i = strings.index(False)
        raise ValueError(f"y must hold strings only or none, got {clipped(labels[i])} at {i}")


def name_of(label: Any) -> str:
    """A label as the name of a class: numbers and truth values as JSON spells them."""
    return label if isinstance(label, str) else json.dumps(label)


def _estimator_from(told: Any) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The parameters and classes in what `save` wrote."""
    own, kind, classes = (told[key] for key in ("parameters", "label_type", "classes"))
    if not isinstance(own, dict) or not set(own) <= set(OWN_PARAMETERS):
        raise ValueError(f"parameters must be among {OWN_PARAMETERS}, got {clipped(own)}")
    if not isinstance(kind, str) or np.dtype(kind).kind not in "biufUO":
        raise ValueError(f"label_type must be of strings or numbers, got {clipped(kind)}")
    array = np.array(classes, dtype=kind)
    if array.ndim != 1 or array.tolist() != classes:
        raise ValueError(f"classes must be a list of {kind}, got {clipped(classes)}")
    return own, np.unique(array)


def _plain(value: Any) -> Any:
    """A parameter as Python has it; a search may give numpy's numbers."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    if n is not None and (not isinstance(n, int) or n < 1):
        raise ValueError(f"n_threads must be at least 1 or None, got {n!r}")
    before = torch.get_num_threads()
    torch.set_num_threads(before if n is None else n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _devices() -> list[int]:
    return [torch.cuda.current_device()] if torch.cuda.is_available() else []
