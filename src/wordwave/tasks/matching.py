"""Matching of sentence pairs: the training task, its scores, and the job."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.pairs import (
    PairSplits,
    TextPairs,
    hold_out,
    official_pairs,
    pair_set_names,
    read_pairs,
)
from wordwave.data.splits import DEV_SHARE, check_no_share, check_one_dev, held_out_share
from wordwave.data.tables import label_cell, number_cell
from wordwave.errors import WordwaveError, suggestion
from wordwave.memory import check_training_fits
from wordwave.models.classifier import PairNetwork
from wordwave.tasks.config import MatchingConfig, PairDataConfig
from wordwave.tasks.matcher import TextMatcher, pair_logits
from wordwave.tasks.run import Evaluation
from wordwave.tasks.sentence_job import SentenceJob, check_penalty, vocabulary_of
from wordwave.text.batching import Sentences, bucketed
from wordwave.text.encoder import TextEncoder
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID
from wordwave.training.loop import Positions, Training
from wordwave.training.positions import check_random_positions


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of sentences as ids.

    Shape: targets (N,), class numbers, or scores, of which the training set spans [0, 1]
    """

    first: Sentences
    second: Sentences
    targets: Tensor

    @property
    def lengths(self) -> Tensor:
        """Of the longer sentence. Shape: (N,)"""
        return torch.maximum(self.first.lengths, self.second.lengths)


@dataclass(frozen=True)
class MatchingTask:
    """Predict the class, or the score, of a pair of sentences."""

    train: EncodedPairs
    dev: EncodedPairs | None
    """The validation set."""
    rare: range
    """The ids of rare words, which may be renamed."""
    word_dropout: float = 0.0
    word_renaming: float = 0.0

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return bucketed(self.train.lengths, size, generator=generator)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        first, second = self.train.first.padded(rows), self.train.second.padded(rows)
        n_words = int((first != PADDING_ID).sum() + (second != PADDING_ID).sum())
        drawn = positions(first != PADDING_ID), positions(second != PADDING_ID)
        if self.word_renaming:
            first, second = rename_words(first, second, self.word_renaming, self.rare)
        first, second = (self._dropped(ids).to(device) for ids in (first, second))
        given = None if drawn[0] is None else tuple(p.to(device) for p in drawn if p is not None)
        logits = model(first, second, given).float()
        total = pair_loss(logits, self.train.targets[rows].to(device))
        return total, len(rows), n_words

    def _dropped(self, ids: Tensor) -> Tensor:
        if not self.word_dropout:
            return ids
        dropped = (ids != PADDING_ID) & (torch.rand(ids.shape) < self.word_dropout)
        return ids.masked_fill(dropped, UNKNOWN_ID)

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        assert isinstance(model, PairNetwork)
        logits = pair_logits(model, self.dev.first, self.dev.second)
        loss = float(pair_loss(logits.double(), self.dev.targets)) / len(logits)
        return {**selecting_metric(logits, self.dev.targets), "likelihood": -loss}


def rename_words(first: Tensor, second: Tensor, share: float, rare: range) -> tuple[Tensor, Tensor]:
    """Replace a share of the rare words of each pair by random others, the same wherever a word
    stands.

    Shape: (B, L), (B, M) -> the same
    """
    if not rare:
        return first, second
    both = torch.cat([first, second], dim=1)
    # A word's first occurrence in the pair, the start of its run in the sorted row, draws for all.
    words, order = both.sort(dim=1, stable=True)
    starts = F.pad(words[:, 1:] != words[:, :-1], (1, 0), value=True)
    runs = torch.where(starts, torch.arange(both.shape[1]), 0).cummax(dim=1).values
    leader = torch.empty_like(order).scatter_(1, order, order.gather(1, runs))
    is_renamed = (torch.rand(both.shape) < share).gather(1, leader) & (both >= rare.start)
    new = torch.randint(rare.start, rare.stop, both.shape)
    renamed = torch.where(is_renamed, new.gather(1, leader), both)
    return renamed[:, : first.shape[1]], renamed[:, first.shape[1] :]


def pair_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed cross-entropy, of scores that of a soft label. Shape: (B, n_classes), (B,)"""
    if targets.is_floating_point():
        soft = targets.clamp(0, 1).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits.squeeze(-1), soft, reduction="sum")
    return F.cross_entropy(logits, targets, reduction="sum")


def selecting_metric(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """The metric that selects the best epoch: Spearman's ρ, the AUC of two classes, accuracy."""
    if targets.is_floating_point():
        return {"spearman": correlations(logits.squeeze(-1), targets)["spearman"]}
    if logits.shape[1] == 2 and len(targets.unique()) == 2:
        from sklearn.metrics import roc_auc_score

        return {"auc": float(roc_auc_score(targets, logits[:, 1] - logits[:, 0]))}
    return {"accuracy": float((logits.argmax(-1) == targets).double().mean())}


def metrics(logits: Tensor, targets: Tensor, labels: list[str]) -> dict[str, Any]:
    """All metrics of a matcher: of scores Pearson's r and Spearman's ρ; of classes accuracy and F1,
    and of two classes AUC and average precision of the second.

    Shape: logits (N, n_classes), targets (N,)
    """
    if len(targets) == 0:
        raise WordwaveError("there must be at least one pair to score, got none")
    if targets.is_floating_point():
        scores = logits.squeeze(-1).double().sigmoid()  # in float32 it is 1 from 17 on
        pearson = correlations(scores, targets)["pearson"]
        return {"n": len(targets), "pearson": pearson, **selecting_metric(logits, targets)}
    from sklearn.metrics import average_precision_score, f1_score

    predicted = logits.argmax(-1)
    found: dict[str, Any] = {"n": len(targets)}
    found["accuracy"] = float((predicted == targets).double().mean())
    if len(labels) == 2:
        found["f1"] = float(f1_score(targets, predicted, zero_division=0))
        if len(targets.unique()) == 2:
            margin = logits[:, 1] - logits[:, 0]
            found |= selecting_metric(logits, targets)
            found["average_precision"] = float(average_precision_score(targets, margin))
    else:
        numbers = list(range(len(labels)))
        f1 = f1_score(targets, predicted, labels=numbers, average="macro", zero_division=0)
        found["macro_f1"] = float(f1)
    return found


def correlations(found: Tensor, targets: Tensor) -> dict[str, float]:
    """Pearson's r and Spearman's ρ. Shape: (N,), (N,)"""
    from scipy.stats import pearsonr, spearmanr

    if len(targets) < 2 or not found.std() or not targets.std():
        return {"pearson": 0.0, "spearman": 0.0}  # a constant correlates with nothing
    return {
        "pearson": float(pearsonr(found, targets).statistic),
        "spearman": float(spearmanr(found, targets).statistic),
    }


class _Result(TypedDict):
    test: dict[str, float] | None
    dev: dict[str, float] | None
    best_epoch: int
    parameters: int
    words_per_second: float | None


class MatchingJob(SentenceJob[MatchingConfig, PairSplits]):
    """Train or evaluate a matcher of sentence pairs."""

    examples = "pairs"
    model_class, result_schema, counts_epochs = TextMatcher, _Result, True
    network_class: type[PairNetwork] = PairNetwork
    next_command = "wordwave predict {run} pairs.tsv"
    config: MatchingConfig
    text_model: TextMatcher
    task: MatchingTask
    test: EncodedPairs | None

    def load_data(self) -> PairSplits:
        data, patience = self.config.data, self.config.training.patience
        return load_pairs(data, patience=patience, strict=self.share_is_given)

    def prepare(self, data: PairSplits) -> MatchingJob:
        config = self.config
        is_score = self.config.data.predicts_scores
        labels = [] if is_score else sorted(set(data.train.labels))
        scores = [float(label) for label in data.train.labels] if is_score else [0.0, 1.0]
        limits = (min(scores), max(scores))
        if not math.isfinite(limits[1] - limits[0]):
            raise WordwaveError(f"{data.train.name}: scores are too far apart, {limits}")
        if len(labels) == 1 or limits[0] == limits[1]:
            what = "scores" if is_score else "classes"
            raise WordwaveError(
                f"{data.train.name} must have two {what} or more, got only "
                f"{clipped(data.train.labels[0])}"
            )
        check_penalty(config)
        texts = [*data.train.first, *data.train.second]
        tokenizer, vocabulary, vectors = vocabulary_of(texts, config.text)
        if vectors is not None:
            config = replace(config, model=replace(config.model, dim=vectors.dim))
        n_classes = len(labels) or 1
        what = f"scores from {limits[0]:g} to {limits[1]:g}" if is_score else f"{n_classes} classes"
        self.notes = [f"{len(data.train):,} pairs, {len(vocabulary):,} words, {what}"]
        self.notes += self.held_out_note(data)
        make = partial(self.network_class, config.model, len(vocabulary), n_classes)
        check_training_fits(
            make,
            f"it has {len(vocabulary):,} words (--max-vocabulary, --min-count) of width "
            f"{config.model.dim:,} (--dim) and a hidden layer of {config.model.hidden_dim:,} "
            "(--hidden-dim)",
            row_sparse=config.training.row_sparse,
        )
        model = self.network(make, config, vocabulary, vectors)
        hashed = config.text.unknown_words == "hashed"
        length = config.model.max_length
        encoder = TextEncoder(tokenizer, vocabulary, max_length=length, hashed=hashed)
        self.text_model = TextMatcher(model, encoder, labels, config, limits)
        train, dev, self.test = (
            None if part is None else self._encoded(part)
            for part in (data.train, data.dev, data.test)
        )
        assert train is not None
        check_random_positions(
            config.training.random_positions,
            int(train.lengths.max()),
            "words of the longest sentence",
            config.model.max_length if config.model.embedding.kind == "pe" else None,
        )
        shares = config.training.word_dropout, config.training.word_renaming
        rare = range(vocabulary.first_rare, len(vocabulary))
        self.task = MatchingTask(train, dev, rare, *shares)
        self.fingerprint = data.fingerprint()
        return self

    def _encoded(self, part: TextPairs) -> EncodedPairs:
        encoder = self.text_model.encoder
        first, n = encoder.encode(part.first)
        second, m = encoder.encode(part.second)
        if n + m:
            self.notes.append(
                f"{n + m:,} sentences of {part.name} were truncated to {encoder.max_length} words "
                "(--max-length)"
            )
        if not self.text_model.labels:
            low, high = self.text_model.score_range
            scores = torch.tensor([float(label) for label in part.labels], dtype=torch.float64)
            return EncodedPairs(first, second, (scores - low) / (high - low))
        return EncodedPairs(first, second, self.class_numbers(part.labels, part.name))

    def _scores(self, pairs: EncodedPairs) -> dict[str, Any]:
        logits = pair_logits(self.text_model.model, pairs.first, pairs.second)
        return metrics(logits, pairs.targets, self.text_model.labels)

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        test = None if self.test is None else self._scores(self.test)
        dev = None if self.task.dev is None else self._scores(self.task.dev)
        return {"test": test, "dev": dev}

    @property
    def run_name(self) -> str:
        data, model = Path(self.config.data.data).name.split(".")[0], self.config.model
        return f"match-{data}-{model.encoder}-{model.embedding.kind}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        lines = ["no validation set: the weights of the last epoch"]
        if result["dev"] is not None:
            lines = [f"validation {_line(result['dev'])} (epoch {result['best_epoch']})"]
        return lines + ([f"test {_line(result['test'])}"] if result["test"] else [])

    def read_data(self, **files: Any) -> TextPairs:
        """Args: data, text_a, text_b, label, table: a file and its columns, by default as in
        training."""
        data = self.config.data
        columns = {c: files.get(c) or getattr(data, c) for c in ("text_a", "text_b", "table")}
        usual = data.similarity if self.config.data.predicts_scores else data.label
        columns["label"] = files.get("label") or usual or "score"
        checked = number_cell if self.config.data.predicts_scores else label_cell
        return read_pairs(files["data"], **columns, checked=checked, may_be_empty=True)

    def test_part(self, data: PairSplits, folder: Path) -> TextPairs:
        if data.test is not None:
            return data.test
        if data.dev is None:
            raise WordwaveError(
                f"'{folder}' has no test set and no validation set: name pairs with --data"
            )
        return replace(data.dev, name=f"{data.dev.name} (which chose the weights: optimistic)")

    def evaluate(self, data: TextPairs, **options: Any) -> Evaluation:
        scores = self._scores(self._encoded(data))
        return Evaluation(scores, [f"{data.name}: {_line(scores)}", *self.notes])


def _line(scores: dict[str, Any]) -> str:
    shown = ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items() if name != "n"
    )
    return f"{shown}, {scores['n']:,} pairs"


def load_pairs(data: PairDataConfig, *, patience: int = 0, strict: bool = True) -> PairSplits:
    """Training, validation and test pairs; `test` is `None` if none are named, `dev` if none are
    held out.

    Args:
        patience: of early stopping, which needs validation pairs.
        strict: refuse a `dev_share` or patience that would be ignored.
    """
    if strict:
        check_one_dev(data)
    parts = _named_pairs(data)
    if parts.dev is not None:
        if strict:
            check_no_share(data)
        return parts
    share = DEV_SHARE if data.dev_share is None else data.dev_share
    share = held_out_share(len(parts.train), share, patience=patience if strict else 0)
    if not share:
        return parts
    held_out = hold_out(
        parts.train,
        share=share,
        keep_classes=not data.predicts_scores,
        remedy="name one with --dev, or train without one, --dev-share 0",
    )
    return PairSplits(*held_out, parts.test)


def _named_pairs(data: PairDataConfig) -> PairSplits:
    """The pairs that a config names; `dev` is `None` if it is to be cut."""
    if not data.data:
        raise WordwaveError(
            "there must be pairs to train on: --data FILE.tsv, --data built-in, or --data NAME "
            "(wordwave data list)"
        )
    if data.data in pair_set_names():
        if data.dev or data.test or data.similarity:
            raise WordwaveError(
                f"--dev, --test and --similarity go with files of your own, not with {data.data!r}"
            )
        return official_pairs(data.data)
    hint = suggestion(data.data, pair_set_names())
    if hint and not Path(data.data).exists():
        raise WordwaveError(f"there is no data set or file {data.data!r}{hint}")
    is_score = data.similarity is not None
    columns: dict[str, Any] = {"text_a": data.text_a, "text_b": data.text_b, "table": data.table}
    columns |= {"label": data.similarity or data.label}
    columns |= {"checked": number_cell if is_score else label_cell}
    columns |= {"label_option": "similarity" if is_score else "label"}
    train, dev, test = (
        read_pairs(file, **columns) if file else None for file in (data.data, data.dev, data.test)
    )
    assert train is not None
    return PairSplits(train, dev, test)
