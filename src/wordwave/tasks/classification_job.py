"""The job of text classification: examples are read, encoded, trained on, scored and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from wordwave.data.examples import Examples
from wordwave.data.splits import FEW, Splits, load_examples, split_labels
from wordwave.data.tables import read_examples
from wordwave.errors import WordwaveError
from wordwave.memory import BYTES_PER_LOGIT, check_training_fits, confusion_bytes
from wordwave.models.classifier import Classifier
from wordwave.progress import Stage, track
from wordwave.tasks.classification import (
    ClassificationTask,
    LabelledSentences,
    balanced,
    evaluate,
    in_loss,
)
from wordwave.tasks.classifier import TextClassifier, classes_of, logits_of
from wordwave.tasks.config import ClassificationConfig
from wordwave.tasks.run import Evaluation
from wordwave.tasks.scores import describe_scores
from wordwave.tasks.sentence_job import SentenceJob, check_penalty, vocabulary_of
from wordwave.tasks.stacking import (
    USUAL_WEIGHTS,
    Counts,
    fit,
    fit_bytes,
    fitted_rows,
    folds_of,
    n_subwords_of,
    room_for_subwords,
    stacking_weights,
)
from wordwave.text.encoder import TextEncoder
from wordwave.text.ngrams import repeated_bigrams
from wordwave.text.vocabulary import Vocabulary
from wordwave.training.devices import OneProcess
from wordwave.training.loop import Training
from wordwave.training.positions import check_random_positions

SAMPLE = 200_000
"""Texts whose bigrams are counted."""
MAX_BIGRAMS = 1 << 17
FEWEST = 20
"""Of fewer training texts than these, n-grams have their usual weight."""
FOLDS = "training on parts, to weight the n-grams"
N_FOLDS = 5
Weights = tuple[Tensor | None, Tensor | None]
"""How much each training and each validation example counts, `None` for 1. Shape: (N,)"""
CHECKED = 1000
"""Training texts whose predictions are checked to be of more than one class."""


class _TestScores(TypedDict):
    n: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float


class _Warnings(TypedDict, total=False):
    only_class: str | None


class _Result(_Warnings):
    test: _TestScores | None
    dev_accuracy: float | None
    best_epoch: int
    parameters: int
    words_per_second: float | None


class ClassificationJob(SentenceJob[ClassificationConfig, Splits]):
    """Train or evaluate a text classifier."""

    examples = "examples"
    model_class, result_schema, counts_epochs = TextClassifier, _Result, True
    network_class: type[Classifier] = Classifier
    next_command = 'echo "a text" | wordwave predict {run}'
    config: ClassificationConfig
    text_model: TextClassifier
    task: ClassificationTask
    test: LabelledSentences | None
    class_factors: Tensor | None = None
    """How much each class counts in the loss; `None` for 1. Shape: (n_classes,), of several labels
    (2, n_classes)"""
    new_network: Callable[[], Classifier]
    """Another network with the same initial weights."""

    @property
    def may_differ(self) -> tuple[str, ...]:
        model = self.config.model
        chosen = ("n_bigrams", "ngrams", "n_subwords")
        return (*super().may_differ, *(name for name in chosen if getattr(model, name) is None))

    def load_data(self) -> Splits:
        data, patience = self.config.data, self.config.training.patience
        return load_examples(data, patience=patience, strict=self.share_is_given)

    def prepare(
        self,
        data: Splits,
        weights: Weights = (None, None),
        class_weight: Mapping[str, float] | None = None,
    ) -> ClassificationJob:
        """As `Job.prepare`.

        Args:
            weights: how much training and validation examples count.
            class_weight: how much those of each label count in the loss, by default as the config
                says.
        """
        config = self.config
        labels = sorted(
            {label for cell in set(data.train.labels) for label in self._labels_in(cell)}
        )
        if len(labels) < 2:
            raise WordwaveError(
                f"{data.train.name} must have two classes or more, got only "
                f"{clipped(labels[0]) if labels else 'examples without a label'}"
            )
        check_penalty(config)
        tokenizer, vocabulary, vectors = vocabulary_of(data.train.texts, config.text)
        if vectors is not None:
            config = replace(config, model=replace(config.model, dim=vectors.dim))
        self.notes = [
            f"{len(vocabulary):,} words, {len(labels)} classes",
            *self.held_out_note(data),
        ]
        hashed, length = config.text.unknown_words == "hashed", config.model.max_length
        encoder = TextEncoder(
            tokenizer,
            vocabulary,
            max_length=length,
            hashed=hashed,
            keep_unknown=config.model.has_ngrams,
        )
        bigrams, n_bigrams = None, 0
        if config.model.encoder == "bag" and config.model.n_bigrams != 0:
            sample = encoder.encode(data.train.texts[:SAMPLE]).sentences
            bigrams = repeated_bigrams(sample, len(vocabulary))
            # Two rows for each, so that most have one of their own.
            n_bigrams = config.model.n_bigrams or min(max(2 * len(bigrams), 2), MAX_BIGRAMS)
            config = replace(config, model=replace(config.model, n_bigrams=n_bigrams))
        config = self._with_ngrams(config, vocabulary, n_bigrams, len(labels))
        make = partial(self.network_class, config.model, len(vocabulary), len(labels))
        check_training_fits(
            make,
            f"it has {len(vocabulary):,} words (--max-vocabulary, --min-count) of width "
            f"{config.model.dim:,} (--dim), a hidden layer of {config.model.hidden_dim:,} "
            f"(--hidden-dim), {n_bigrams:,} bigrams (--n-bigrams) and "
            f"{len(labels):,} classes; a test set needs a confusion matrix of all pairs of classes",
            row_sparse=config.training.row_sparse,
            besides=BYTES_PER_LOGIT * min(config.training.batch_size, len(data.train)) * len(labels)
            + (0 if data.test is None else confusion_bytes(len(labels)))
            + (fit_bytes(len(data.train), len(labels)) if config.model.has_ngrams else 0),
        )

        def network() -> Classifier:
            model = self.network(make, config, vocabulary, vectors)
            if model.bigrams is not None and bigrams is not None:
                model.bigrams.assign(bigrams)
            return model

        self.new_network = network
        self.text_model = TextClassifier(network(), encoder, labels, config)
        fitted = fitted_rows(len(data.train), len(labels))
        train, dev, self.test = (
            None if part is None else self._encoded(part, rows)
            for part, rows in ((data.train, fitted), (data.dev, None), (data.test, None))
        )
        assert train is not None
        check_random_positions(
            config.training.random_positions,
            int(train.sentences.lengths.max()),
            "words of the longest text",
            config.model.max_length if config.model.embedding.kind == "pe" else None,
        )
        if class_weight is not None:
            factors = torch.tensor([class_weight.get(label, 1.0) for label in labels])
            self.class_factors = factors / in_loss(train.targets, weights[0], factors).mean()
        elif config.training.class_weight == "balanced":
            self.class_factors = balanced(train.targets, weights[0], len(labels))
        if weights[0] is not None or self.class_factors is not None:
            train = replace(train, weights=in_loss(train.targets, weights[0], self.class_factors))
        dev = None if dev is None else replace(dev, weights=weights[1])
        settings = config.training
        self.task = ClassificationTask(
            train, dev, word_dropout=settings.word_dropout, select=config.select
        )
        self.fingerprint = data.fingerprint()
        return self

    def _with_ngrams(
        self, config: ClassificationConfig, vocabulary: Vocabulary, n_bigrams: int, n_classes: int
    ) -> ClassificationConfig:
        """The settings with a number of subwords, or without n-grams if they would be too many."""
        model = config.model
        if not model.has_ngrams:
            return config
        room = room_for_subwords(vocabulary, n_bigrams, n_classes)
        if room < 0:
            what = f"{len(vocabulary):,} words, {n_bigrams:,} bigrams and {n_classes:,} classes"
            if model.ngrams:
                raise WordwaveError(
                    f"ngrams must be off for {what}, got True: there is no room for their weights"
                )
            self.notes.append(f"no linear model of n-grams: there is no room for {what}")
            return replace(config, model=replace(model, ngrams=False))
        n_subwords = model.n_subwords
        if n_subwords is None:
            n_subwords = n_subwords_of(vocabulary, n_bigrams, n_classes)
        if n_subwords > room:
            raise WordwaveError(
                f"n_subwords must be at most {room} with {len(vocabulary):,} words, "
                f"{n_bigrams:,} bigrams and {n_classes:,} classes, got {n_subwords}"
            )
        return replace(config, model=replace(model, ngrams=True, n_subwords=n_subwords))

    def complete(self) -> None:
        """Fit the n-grams, and the weights of head and n-grams on texts that are held out."""
        model, dev = self.text_model.model, self.task.dev
        if model.ngrams is None:
            return
        train, n_classes = self._sampled(model.n_classes), model.n_classes
        targets = train.targets.numpy()
        weighted = in_loss(train.targets, train.weights, None).numpy()
        size = len(model.ngrams.subwords) - 1
        vocabulary = self.text_model.encoder.vocabulary
        counts = Counts(train.sentences, vocabulary, model.bigrams, size)
        fitted = fit(counts, targets, n_classes, weights=weighted)
        weights = USUAL_WEIGHTS
        if dev is not None:
            of_head = logits_of(model, dev.sentences).double().numpy()
            model.scale.zero_()
            fitted.assign(model.ngrams, counts.keys, 1.0)
            of_ngrams = logits_of(model, dev.sentences).double().numpy()
            of_dev = in_loss(dev.targets, dev.weights, self.class_factors).numpy()
            weights = stacking_weights(of_head, of_ngrams, dev.targets.numpy(), of_dev)
        elif len(targets) >= FEWEST:
            folds, stage = self._folds(targets), Stage(FOLDS)

            def report(n_done: int, share: float) -> None:
                stage.at((n_done + share) / len(folds))

            held = [
                self._held_out(train, counts, *fold, partial(report, i))
                for i, fold in enumerate(folds)
            ]
            rows, of_head, of_ngrams = (np.concatenate(part) for part in zip(*held, strict=True))
            weights = stacking_weights(of_head, of_ngrams, targets[rows], weighted[rows])
        model.scale.fill_(weights[0])
        fitted.assign(model.ngrams, counts.keys, weights[1])

    def _folds(self, targets: Any) -> list[tuple[Any, Any]]:
        """All of a cross-validation of few texts, one of ten of many."""
        return folds_of(targets, N_FOLDS) if len(targets) < FEW else folds_of(targets, 10)[:1]

    @property
    def more_trainings(self) -> float:
        """Those on parts of the texts, without a validation set for the weights of the n-grams."""
        n = len(self.task.train.sentences)
        if self.text_model.model.ngrams is None or self.task.dev is not None or n < FEWEST:
            return 0.0
        return N_FOLDS - 1 if n < FEW else 0.9

    def _sampled(self, n_classes: int) -> LabelledSentences:
        """The training texts, or a random sample of as many as n-grams are fitted to."""
        train = self.task.train
        chosen = fitted_rows(len(train.sentences), n_classes)
        if chosen is None:
            return train
        rows = torch.from_numpy(chosen)
        weights = None if train.weights is None else train.weights[rows]
        return LabelledSentences(train.sentences.subset(rows), train.targets[rows], weights)

    def _held_out(
        self,
        train: LabelledSentences,
        counts: Counts,
        rows: Any,
        held: Any,
        report: Callable[[float], None],
    ) -> tuple[Any, Any, Any]:
        """Logits of texts by a head and n-grams that are trained on other texts only.

        `report` is called with the share of the training that is done.

        Shape: (n,), (n, C), (n, C)
        """
        weights = None if train.weights is None else train.weights[rows]
        part = LabelledSentences(train.sentences.subset(rows), train.targets[rows], weights)
        model = self.new_network()
        task = ClassificationTask(part, word_dropout=self.task.word_dropout)
        training = Training(model, task, self.text_model.config.training, OneProcess())
        for _ in training.run():
            report(training.progress.step / training.n_steps)
        of_head = logits_of(model, train.sentences.subset(held)).double().numpy()
        weighted = in_loss(train.targets, train.weights, None).numpy()
        targets = train.targets.numpy()
        fitted = fit(counts, targets, model.n_classes, rows=rows, weights=weighted)
        return held, of_head, fitted.logits(counts, held)

    def _encoded(self, part: Examples, fitted: Any = None) -> LabelledSentences:
        """Args: fitted: the texts whose unknown words are needed, by default all."""
        encoder = self.text_model.encoder
        n = len(part.texts)
        spelled = None if fitted is None else np.isin(np.arange(n), fitted)
        sentences, n_truncated = encoder.encode(track(part.texts, "encoding texts", n), spelled)
        if n_truncated:
            self.notes.append(
                f"{n_truncated:,} of {len(part.texts):,} texts of {part.name} were truncated to "
                f"{encoder.max_length} words (--max-length)"
            )
        if self.config.data.multi_label is None:
            return LabelledSentences(sentences, self.class_numbers(part.labels, part.name))
        cells = sorted(set(part.labels))
        found = [self._labels_in(cell) for cell in cells]
        columns = self.class_numbers([label for labels in found for label in labels], part.name)
        rows = torch.arange(len(cells)).repeat_interleave(torch.tensor(list(map(len, found))))
        of_cells = torch.zeros(len(cells), len(self.text_model.labels), dtype=torch.bool)
        of_cells[rows, columns] = True
        number = {cell: i for i, cell in enumerate(cells)}
        numbers = np.fromiter(map(number.__getitem__, part.labels), np.int64, n)
        return LabelledSentences(sentences, of_cells[torch.from_numpy(numbers)])

    def _labels_in(self, cell: str) -> list[str]:
        """The labels of an example: one, or those that are separated by `multi_label`."""
        separator = self.config.data.multi_label
        return [cell] if separator is None else split_labels(cell, separator)

    def best_scores(self, training: Training) -> dict[str, float]:
        """The scores of the best weights on the validation set, if there is one."""
        if self.task.dev is None:
            return {}
        names = dict.fromkeys((self.task.first_score, "accuracy", "likelihood"))
        if self.text_model.model.ngrams is not None:
            return self.task.score(self.text_model.model)  # n-grams came after the training
        best = training.progress
        return dict(zip(names, best.best_scores, strict=False)) or {"accuracy": best.best_score}

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        test = None if self.test is None else evaluate(self.text_model, self.test).plain()
        best = {f"dev_{name}": value for name, value in self.best_scores(training).items()}
        return {"test": test, "dev_accuracy": None, **best, "only_class": self.only_class()}

    def only_class(self) -> str | None:
        """The class that all training texts are predicted as, if there is one; of many texts, all
        of a sample."""
        train = self.task.train.sentences
        rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:CHECKED]
        sample = train.subset(rows)
        if self.text_model.multi_label:
            found = (logits_of(self.text_model.model, sample) >= 0).unique(dim=0)
            same = [self.text_model.labels[i] for i in found[0].nonzero().flatten().tolist()]
            return (", ".join(same) or "without a label") if len(found) == 1 else None
        found = classes_of(self.text_model.model, sample).unique()
        return self.text_model.labels[int(found)] if len(found) == 1 else None

    @property
    def run_name(self) -> str:
        data, model = Path(self.config.data.data).name.split(".")[0], self.config.model
        return f"{data}-{model.encoder}-{model.embedding.kind}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        lines = ["no validation set: the weights of the last epoch"]
        if result["dev_accuracy"] is not None:
            validation = f"{result['dev_accuracy']:.4f} (epoch {result['best_epoch']})"
            which = "accuracy" if self.config.data.multi_label is None else "subset accuracy"
            lines = [f"validation {which} {validation}"]
        if "dev_macro_f1" in result:
            lines[0] += f", macro-F1 {result['dev_macro_f1']:.4f}"
        if only := result.get("only_class"):
            lines.append(
                f"warning: all training texts are predicted as {clipped(only)}; train for more "
                "--epochs, on more texts, or with another --learning-rate"
            )
        if test := result["test"]:
            lines.append(f"test {describe_scores(test)}, {test['n']:,} examples")
        return lines

    def read_data(self, **files: Any) -> Examples:
        """Args: data, text, label, table: a file and its columns, by default as in training."""
        options = ("text", "label", "table")
        given = {name: files.get(name) or getattr(self.config.data, name) for name in options}
        several = self.config.data.multi_label is not None
        return read_examples(files["data"], **given, several_labels=several, may_be_empty=True)

    def test_part(self, data: Splits, folder: Path) -> Examples:
        if data.test is not None:
            return data.test
        if data.dev is None:
            raise WordwaveError(
                f"'{folder}' has no test set and no validation set: name examples with --data"
            )
        return replace(data.dev, name=f"{data.dev.name} (which chose the weights: optimistic)")

    def evaluate(self, data: Examples, **options: Any) -> Evaluation:
        scores = evaluate(self.text_model, self._encoded(data)).plain()
        return Evaluation(
            scores, [f"{data.name}: {scores['n']:,} examples", describe_scores(scores), *self.notes]
        )
