"""`WaveClassifier`: the classifier as a scikit-learn estimator."""

from __future__ import annotations

import os
from reprlib import repr as clipped
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wordwave.data.examples import Examples
from wordwave.data.splits import (
    Splits,
    held_out_share,
    split_label_sets,
    split_labels,
    stratified_split,
)
from wordwave.errors import WordwaveError
from wordwave.models.config import ClassifierConfig
from wordwave.sklearn_base import Floats, TextEstimator, name_of, plain, texts_in, threads
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationTrainingConfig, TextConfig
from wordwave.training.config import TrainingConfig

SEPARATOR = "|"
"""Between the labels of a text."""
_EMBEDDING = ClassifierConfig().embedding


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
            dictionary from labels to weights of at least 0, in which those that are missing have 1.
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
        ngrams: bool | None = ClassifierConfig.ngrams,
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
        self,
        config: Any,
        inputs: list[str],
        labels: list[str],
        weights: Floats | None,
        of_classes: dict[str, float],
    ) -> ClassificationJob:
        how = (config.training.seed, config.data.multi_label)
        parts, (rest, held) = self._parts(inputs, labels, *how), self._rows(labels, *how)
        given = of_mean_1(weights, rest), of_mean_1(weights, held)
        return ClassificationJob(config).prepare(parts, given, of_classes or None)

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

    def _class_weights(self, classes: list[Any]) -> dict[str, float]:
        if not isinstance(self.class_weight, dict):
            return {}
        given = {plain(label): plain(weight) for label, weight in self.class_weight.items()}
        known = set(classes)  # in which 0, 0.0 and False are the same
        for label, weight in given.items():
            if label not in known:
                raise WordwaveError(
                    f"class_weight must have classes of y, {clipped(classes)}, got {clipped(label)}"
                )
            if not (isinstance(weight, (int, float)) and 0 <= weight < np.inf):
                raise WordwaveError(f"class_weight must hold weights of at least 0, got {weight!r}")
        if not any(np.float32(given.get(label, 1)) for label in classes):
            raise WordwaveError(f"class_weight must not be 0 for all classes, got {clipped(given)}")
        return {name_of(label): given[label] for label in classes if label in given}

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
