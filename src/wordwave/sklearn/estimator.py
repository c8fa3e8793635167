"""The estimator: parameters in, a trained classifier out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wordwave.data.splits import DEV_SHARE, Parts, stratified_split
from wordwave.data.tables import Examples
from wordwave.models.config import ModelConfig
from wordwave.plain import from_plain
from wordwave.sklearn.inputs import classes_in, name_of, plain, texts_in
from wordwave.sklearn.saved import OWN_PARAMETERS, read_estimator, write_estimator
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.classify import prepare
from wordwave.tasks.config import IN_MEMORY, ClassifyConfig, DataSettings, TextSettings
from wordwave.training.loop import Training
from wordwave.training.settings import TrainingSettings
from wordwave.training.task import Epoch

C = TypeVar("C")

OTHER_NAMES = {"score": "attention_score", "seed": "random_state"}
"""Settings that are called otherwise here: an estimator's `score` is a method."""


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
        own = {name: plain(getattr(self, name)) for name in OWN_PARAMETERS}
        self.classifier_.save(Path(folder))
        write_estimator(Path(folder), own, self.classes_)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> WaveClassifier:
        """Read what `save` wrote, or a run of `wordwave train classify`, whose labels are strings.

        Its parameters are those it was trained with.
        """
        classifier = TextClassifier.load(Path(folder))
        own, classes = read_estimator(Path(folder), classifier.labels)
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
        given = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(given["random_state"], int):
            given["random_state"] = int(check_random_state(self.random_state).randint(2**31))

        def part(kind: type[C]) -> C:
            names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
            values = {name: given[OTHER_NAMES.get(name, name)] for name in names}
            return from_plain(kind, values, where=type(self).__name__)

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
