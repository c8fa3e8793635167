"""`PairClassifier`: the matcher of sentence pairs as a scikit-learn estimator."""

from __future__ import annotations

import os
from reprlib import repr as clipped
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from wordwave.data.pairs import PairSplits, TextPairs, hold_out
from wordwave.data.splits import DEV_SHARE, held_out_share
from wordwave.errors import WordwaveError
from wordwave.models.config import PairModelConfig
from wordwave.sklearn_base import TextEstimator, texts_in, threads
from wordwave.tasks.config import MatchingTrainingConfig, TextConfig
from wordwave.tasks.matcher import Pair, TextMatcher
from wordwave.tasks.matching import MatchingJob


def pairs_in(X: Any) -> list[Pair]:
    """The pairs of a list, an array of shape (N, 2) or a data frame of two columns, validated."""
    if isinstance(X, (str, bytes)):
        raise WordwaveError(f"X must be a list of pairs, got the one text {clipped(X)}")
    array = np.asarray(X, dtype=object)
    if not array.size:
        raise WordwaveError("X must hold at least one pair, got none")
    if array.ndim != 2 or array.shape[1] != 2:
        got = f"the shape {array.shape}" if array.ndim else type(X).__name__
        raise WordwaveError(
            f"X must be a list of pairs, an array or a data frame with two texts in each row, got "
            f"{got}"
        )
    first, second = (texts_in(column) for column in array.T)
    return list(zip(first, second, strict=True))


_EMBEDDING = PairModelConfig().embedding


class PairClassifier(TextEstimator):
    """A classifier of sentence pairs, paraphrase or not, as a scikit-learn estimator.

    `X` is a list of pairs, an array of shape (N, 2) or a data frame with two columns of texts, `y`
    their labels: strings, integers or booleans. Every setting of `wordwave train match` is a
    parameter of the same name and default, explained by `wordwave train match --help`. These are
    the main ones; the last three are the estimator's own.

    Args:
        encoder: "fasttext", "cnn", "lstm" or "transformer".
        embedding: "complex-order", "complex-vanilla", "none", "pe" or "tpe"; with the transformer
            also "rope", "alibi" and the other encodings of `wordwave.positions`.
        views: how waves count positions, one or more of "start", "end",
            "relative" and "context".
        dim: width of the embedding; set by `vectors`.
        hidden_dim: units of the hidden layer that compares two sentences; 0 for none.
        symmetric: whether (a, b) and (b, a) get the same answer; not so for entailment.
        unknown_words: "shared" for one vector for all of them, "hashed" for that of a rare word.
        vectors: a file of pretrained vectors, or its name in the data home.
        epochs: maximum number of epochs.
        patience: epochs without a higher validation score after which training stops; 0 for never.
        word_renaming: probability that a word of a training pair is replaced by a random other
            one, the same wherever it stands in both sentences.
        attention_score: the setting `score` of the command line.
        random_state: an integer, a `RandomState`, or `None`. Equal integers give equal predictions.
        dev_share: fraction of the training pairs held out for validation, to select the best epoch;
            they share no sentence with the others. 0 for none, which keeps the last epoch.
        n_threads: threads while fitting and predicting, `None` for torch's setting.
        verbose: print a line for each epoch.

    Attributes:
        classes_: the labels, sorted. Shape: (n_classes,)
        classifier_: the trained `TextMatcher`.
        history_: loss and validation scores of each epoch of `fit`.
    """

    job_class = MatchingJob
    classifier_: TextMatcher

    def __init__(
        self,
        *,
        encoder: str = PairModelConfig.encoder,
        embedding: str = _EMBEDDING.kind,
        dim: int = PairModelConfig.dim,
        hidden_dim: int = PairModelConfig.hidden_dim,
        dropout: float = PairModelConfig.dropout,
        embedding_dropout: float | None = PairModelConfig.embedding_dropout,
        max_norm: float = PairModelConfig.max_norm,
        readout: str = PairModelConfig.readout,
        pooling: str = PairModelConfig.pooling,
        n_filters: int = PairModelConfig.n_filters,
        widths: tuple[int, ...] = PairModelConfig.widths,
        padding: str = PairModelConfig.padding,
        state_dim: int | None = PairModelConfig.state_dim,
        n_layers: int = PairModelConfig.n_layers,
        n_heads: int = PairModelConfig.n_heads,
        feed_forward_dim: int = PairModelConfig.feed_forward_dim,
        attention_score: str = PairModelConfig.score,
        normalization: str = PairModelConfig.normalization,
        share: str = PairModelConfig.share,
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
        symmetric: bool = PairModelConfig.symmetric,
        max_length: int = PairModelConfig.max_length,
        tokenizer: str = TextConfig.tokenizer,
        bpe_size: int = TextConfig.bpe_size,
        min_count: int = TextConfig.min_count,
        max_vocabulary: int | None = TextConfig.max_vocabulary,
        unknown_words: str = "hashed",
        vectors: str | os.PathLike[str] | None = TextConfig.vectors,
        vector_scale: float = TextConfig.vector_scale,
        freeze_vectors: bool = TextConfig.freeze_vectors,
        extra_words: int = TextConfig.extra_words,
        epochs: int = MatchingTrainingConfig.epochs,
        max_steps: int = MatchingTrainingConfig.max_steps,
        eval_every: int = MatchingTrainingConfig.eval_every,
        patience: int = MatchingTrainingConfig.patience,
        batch_size: int = MatchingTrainingConfig.batch_size,
        grad_accumulation: int = MatchingTrainingConfig.grad_accumulation,
        learning_rate: float = MatchingTrainingConfig.learning_rate,
        schedule: str = MatchingTrainingConfig.schedule,
        warmup_fraction: float = MatchingTrainingConfig.warmup_fraction,
        weight_decay: float = MatchingTrainingConfig.weight_decay,
        vector_lr_scale: float = MatchingTrainingConfig.vector_lr_scale,
        frequency_lr_scale: float = MatchingTrainingConfig.frequency_lr_scale,
        frequency_weight_decay: float = MatchingTrainingConfig.frequency_weight_decay,
        beta2: float = MatchingTrainingConfig.beta2,
        max_grad_norm: float = MatchingTrainingConfig.max_grad_norm,
        row_sparse: bool = MatchingTrainingConfig.row_sparse,
        word_dropout: float = MatchingTrainingConfig.word_dropout,
        word_renaming: float = MatchingTrainingConfig.word_renaming,
        random_positions: int = MatchingTrainingConfig.random_positions,
        amplitude_penalty: float = MatchingTrainingConfig.amplitude_penalty,
        penalty_start: float = MatchingTrainingConfig.penalty_start,
        precision: str = MatchingTrainingConfig.precision,
        random_state: int | np.random.RandomState | None = MatchingTrainingConfig.seed,
        dev_share: float = DEV_SHARE,
        n_threads: int | None = 1,
        verbose: bool = False,
    ) -> None:
        # As scikit-learn requires: parameters are stored unchanged and validated by `fit`.
        given = dict(locals())
        del given["self"]
        for name, value in given.items():
            setattr(self, name, value)

    def encode(self, texts: Any) -> np.ndarray[Any, Any]:
        """The vectors that are compared, one a sentence. Shape: (N,) -> (N, width), float32"""
        check_is_fitted(self, "classifier_")
        with threads(self.n_threads):
            return self.classifier_.encode(texts_in(texts)).numpy()

    def _inputs(self, X: Any) -> list[Pair]:
        return pairs_in(X)

    def _parts(self, inputs: list[Pair], labels: list[str], seed: int) -> PairSplits:
        first, second = [a for a, _ in inputs], [b for _, b in inputs]
        pairs = TextPairs(first, second, labels, "X")
        share = held_out_share(len(inputs), self.dev_share, patience=self.patience)
        if not share:
            return PairSplits(pairs, None, None)
        remedy = f"dev_share must then be 0, got {share}"
        return PairSplits(*hold_out(pairs, seed=seed, share=share, remedy=remedy), None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.two_d_array = True
        return tags
