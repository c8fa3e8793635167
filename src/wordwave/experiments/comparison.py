"""Encoders × embeddings on one data set, under the same settings for every embedding.

Selection sees the dev part only; the test part is scored once, with the weights that dev selected.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypedDict

from wordwave.experiments.store import Count, Positive, Record, Share, fits
from wordwave.models.config import EMBEDDINGS, ENCODERS, EmbeddingKind, EncoderKind, goes_with
from wordwave.plain import to_plain
from wordwave.tasks.config import ClassifyConfig, DataSettings

if TYPE_CHECKING:
    from wordwave.data.splits import Parts

TEST_SHARE = 0.1
KEY = ("encoder", "embedding", "seed", "config", "examples")
"""What makes a trial's record: all settings, and a fingerprint of the examples."""


class _TrialRecord(TypedDict):
    """What tables read of a record."""

    encoder: Annotated[str, ENCODERS.__contains__]
    embedding: Annotated[str, EMBEDDINGS.__contains__]
    seed: int
    test_accuracy: Share
    test_macro_f1: Share
    dev_accuracy: Share
    parameters: Count
    epoch_seconds: Annotated[float, lambda seconds: seconds >= 0]
    words_per_second: Positive
    predictions_per_second: Positive


def is_record(record: Record) -> bool:
    """Whether it has all that is read of a trial's record, of the right kind."""
    return fits(record, _TrialRecord)


@dataclass(frozen=True)
class Trial:
    """One training."""

    encoder: EncoderKind
    embedding: EmbeddingKind
    seed: int


@dataclass(frozen=True)
class Comparison:
    """What every trial has in common.

    Args:
        data: what is learnt from and scored on.
        recipes: the settings of each encoder, the same for all embeddings.
        examples: a fingerprint of the examples.
    """

    data: DataSettings
    recipes: Mapping[EncoderKind, ClassifyConfig]
    examples: str

    def config(self, trial: Trial) -> ClassifyConfig:
        """The settings of a trial."""
        recipe = self.recipes[trial.encoder]
        return replace(
            recipe,
            data=self.data,
            model=replace(recipe.model, encoder=trial.encoder, embedding=trial.embedding),
            training=replace(recipe.training, seed=trial.seed),
        )

    def key(self, trial: Trial) -> Record:
        """What identifies a trial's record."""
        return {
            "encoder": trial.encoder,
            "embedding": trial.embedding,
            "seed": trial.seed,
            "config": to_plain(self.config(trial)),
            "examples": self.examples,
        }

    def run(self, trial: Trial) -> Record:
        """Train, select by dev, score on test, and time predictions; on one thread."""
        import torch

        from wordwave.models.classifier import count_parameters
        from wordwave.tasks.classify import evaluate, prepare
        from wordwave.training.loop import Training

        torch.set_num_threads(1)
        config = self.config(trial)
        parts = examples_to_compare_on(config.data)
        prepared = prepare(config, parts)
        assert prepared.test is not None
        training = Training(prepared.classifier.model, prepared.task, config.training)
        start = time.process_time()
        for _ in training.run():
            pass
        seconds = time.process_time() - start
        progress = training.progress
        scores = evaluate(prepared.classifier, prepared.test)
        prepared.classifier.forget()
        start = time.process_time()
        prepared.classifier.predict(parts.train.texts)
        predicting = time.process_time() - start
        return {
            **self.key(trial),
            "test_accuracy": scores.accuracy,
            "test_macro_f1": scores.macro_f1,
            "dev_accuracy": progress.best_score,
            "best_epoch": progress.best_epoch,
            "epochs": progress.epoch,
            "parameters": count_parameters(prepared.classifier.model),
            "epoch_seconds": round(seconds / max(progress.epoch, 1), 3),
            "words_per_second": round(progress.n_words / seconds),
            "predictions_per_second": round(len(parts.train.texts) / predicting),
            "torch": torch.__version__,
        }


def examples_to_compare_on(data: DataSettings) -> Parts:
    """Examples in three parts; a tenth of those for training is the test part if none is named."""
    from wordwave.data.splits import Parts, stratified_split
    from wordwave.tasks.examples import load_examples

    parts = load_examples(data)
    if parts.test is not None:
        return parts
    rest, held = stratified_split(parts.train.labels, TEST_SHARE, seed=1)
    train, test = parts.train.subset(rest), parts.train.subset(held, f"{parts.train.name}, a tenth")
    return Parts(train, parts.dev, test)


def trials(
    encoders: tuple[EncoderKind, ...], embeddings: tuple[EmbeddingKind, ...], seeds: int
) -> list[Trial]:
    """All combinations that make sense: RoPE and ALiBi act inside attention only."""
    return [
        Trial(encoder, embedding, seed)
        for seed in range(seeds)
        for encoder in encoders
        for embedding in embeddings
        if goes_with(embedding, encoder)
    ]
