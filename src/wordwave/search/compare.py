"""Encoders × embeddings on one data set, under the same settings for every embedding, beside linear
models and fastText.

The weights are selected on the validation set; the test set is scored once, with those weights.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from wordwave.config_io import to_dict, with_settings
from wordwave.data.splits import DataConfig
from wordwave.embedding.config import EMBEDDING_KINDS, EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.grid import Count, Positive, Record, Share, fits
from wordwave.migrate import as_default
from wordwave.models.config import ENCODERS, EncoderKind, goes_with
from wordwave.search.baselines import BASELINES, SETTINGS, Baseline, fit_baseline
from wordwave.tables import Content, ResultTable, Score, rows_to_csv
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Splits


TEST_SHARE = 0.1
ROWS: tuple[str, ...] = ("bag", *ENCODERS, *BASELINES)
"""The encoders, and models to compare with, in the order of the table."""
KEY = ("encoder", "embedding", "seed", "config", "examples")
"""What identifies a record: all settings, and a fingerprint of the examples."""
COLUMNS = {
    "encoder": "encoder",
    "embedding": "embedding",
    "seeds": "seeds",
    "test_accuracy": "test",
    "spread": "±",
    "test_macro_f1": "macro F1",
    "dev_accuracy": "dev",
    "parameters": "parameters",
    "seconds": "seconds",
    "epoch_seconds": "s/epoch",
    "words_per_second": "words/s",
    "predictions_per_second": "predictions/s",
}
"""Fields of table.csv, and what they are called in the table; all but the first three and the
spread are means over seeds. `seconds` is the whole training."""
COUNTS = ("parameters", "words_per_second", "predictions_per_second")


class _CandidateRecord(TypedDict):
    """The fields of a record that tables need."""

    encoder: Annotated[str, ROWS.__contains__]
    embedding: Annotated[str, EMBEDDING_KINDS.__contains__]
    seed: int
    test_accuracy: Share
    test_macro_f1: Share
    dev_accuracy: Share
    parameters: Count
    epochs: Count
    epoch_seconds: Annotated[float, lambda seconds: seconds >= 0]
    words_per_second: Positive
    predictions_per_second: Positive


def is_record(record: Record) -> bool:
    """Whether a record has all fields that tables need, with the right types."""
    return fits(record, _CandidateRecord)


@dataclass(frozen=True)
class Candidate:
    """One model to train: an encoder and an embedding, or a baseline, which has the embedding
    none."""

    encoder: EncoderKind | Baseline
    embedding: EmbeddingKind
    seed: int


@dataclass(frozen=True)
class Comparison:
    """The conditions that all candidates share."""

    data: DataConfig
    """What they are trained and tested on."""
    recipes: Mapping[EncoderKind, ClassificationConfig]
    """The settings of each encoder, the same for all embeddings."""
    examples: str
    """A fingerprint of the examples."""

    def config(self, candidate: Candidate) -> ClassificationConfig:
        recipe = replace(self.recipes[cast("EncoderKind", candidate.encoder)], data=self.data)
        return with_settings(recipe, **asdict(candidate))

    def key(self, candidate: Candidate) -> Record:
        """The fields that identify a candidate's record."""
        if candidate.encoder in SETTINGS:
            config = {"data": to_dict(self.data), "baseline": SETTINGS[candidate.encoder]}
        else:
            config = to_dict(self.config(candidate))
            config["model"] = as_default(config["model"])
        return {**asdict(candidate), "config": config, "examples": self.examples}

    def run(self, candidate: Candidate) -> Record:
        """Train, score on the test set and time predictions, on one thread."""
        if candidate.encoder in SETTINGS:
            return self._run_baseline(candidate)
        import torch

        from wordwave.models.utils import count_fitted
        from wordwave.tasks.classification import evaluate
        from wordwave.tasks.classification_job import ClassificationJob

        torch.set_num_threads(1)
        config = self.config(candidate)
        parts = examples_to_compare_on(config.data)
        job = ClassificationJob(config).prepare(parts)
        assert job.test is not None
        training = job.training()
        start = time.process_time()
        for _ in job.run(training):
            pass
        seconds = time.process_time() - start
        progress = training.progress
        scores = evaluate(job.text_model, job.test)
        job.text_model.clear_cache()
        start = time.process_time()
        job.text_model.predict(parts.train.texts)
        predicting = time.process_time() - start
        return {
            **self.key(candidate),
            "test_accuracy": scores.accuracy,
            "test_macro_f1": scores.macro_f1,
            "dev_accuracy": job.best_scores(training)["accuracy"],
            "best_epoch": progress.best_epoch,
            "epochs": progress.epoch,
            "parameters": count_fitted(job.text_model.model),
            "epoch_seconds": round(seconds / max(progress.epoch, 1), 3),
            "words_per_second": round(progress.n_words / seconds),
            "predictions_per_second": round(len(parts.train.texts) / predicting),
            "torch": torch.__version__,
        }

    def _run_baseline(self, candidate: Candidate) -> Record:
        from wordwave.tasks.scores import score_labels
        from wordwave.text.tokenizers import PlainTokenizer

        parts, name = examples_to_compare_on(self.data), candidate.encoder
        assert name in SETTINGS
        assert parts.dev is not None
        assert parts.test is not None
        start = time.process_time()
        fitted = fit_baseline(name, parts.train, candidate.seed)
        seconds = time.process_time() - start
        start = time.process_time()
        fitted.predict(list(parts.train.texts))
        predicting = time.process_time() - start
        dev, test = (
            score_labels(part.labels, fitted.predict(list(part.texts)))
            for part in (parts.dev, parts.test)
        )
        n_words, epochs = sum(map(len, map(PlainTokenizer(), parts.train.texts))), 1
        if name == "fasttext-library":
            epochs = SETTINGS[name]["epoch"]
        return {
            **self.key(candidate),
            "test_accuracy": test.accuracy,
            "test_macro_f1": test.macro_f1,
            "dev_accuracy": dev.accuracy,
            "epochs": epochs,
            "parameters": fitted.n_parameters,
            "epoch_seconds": round(seconds / epochs, 3),
            "words_per_second": round(epochs * n_words / seconds),
            "predictions_per_second": round(len(parts.train.texts) / predicting),
        }


def examples_to_compare_on(data: DataConfig) -> Splits:
    """Training, validation and test examples; the test set is a tenth of the training examples
    if none is named."""
    from wordwave.data.splits import Splits, stratified_split

    if data.multi_label is not None:
        raise WordwaveError("compare needs texts with one label each, got --multi-label")
    parts = load_for_selection(data)
    if parts.test is not None:
        return parts
    rest, held = stratified_split(parts.train.labels, TEST_SHARE, seed=1)
    train, test = parts.train.subset(rest), parts.train.subset(held, f"{parts.train.name}, a tenth")
    return Splits(train, parts.dev, test)


def load_for_selection(data: DataConfig) -> Splits:
    """Examples with a validation set, by default a tenth of the training examples however few."""
    from wordwave.data.splits import DEV_SHARE, load_examples

    if data.dev_share == 0 and data.dev is None:
        raise WordwaveError("models are selected on validation examples: dev_share must be above 0")
    if data.dev_share is not None:
        return load_examples(data)
    return load_examples(replace(data, dev_share=DEV_SHARE), strict=False)


def candidates(
    encoders: Sequence[EncoderKind],
    embeddings: Sequence[EmbeddingKind],
    baselines: Sequence[Baseline] = (),
    *,
    seeds: int,
) -> list[Candidate]:
    """All combinations that are possible: RoPE and ALiBi need attention. Linear models do not
    depend on a seed."""
    made = []
    for seed in range(seeds):
        made += [
            Candidate(encoder, embedding, seed)
            for encoder in encoders
            for embedding in embeddings
            if goes_with(embedding, encoder)
        ]
        made += [
            Candidate(name, "none", seed)
            for name in baselines
            if seed == 0 or name == "fasttext-library"
        ]
    return made


def result_table(records: Sequence[Record], title: str, note: str = "") -> ResultTable:
    """Means over seeds, the best test accuracy with each encoder in bold; the spread if there are
    several seeds."""
    means = mean_scores(records)
    has_spread = any(r["spread"] is not None for r in means)
    columns = {name: title for name, title in COLUMNS.items() if has_spread or name != "spread"}
    rows: list[list[Content]] = []
    for r in means:
        best = max(rival["test_accuracy"] for rival in means if rival["encoder"] == r["encoder"])
        is_baseline = r["encoder"] in BASELINES
        test = Score(r["test_accuracy"], is_best=r["test_accuracy"] == best and not is_baseline)
        shown = r | {"test_accuracy": test, "seconds": f"{r['seconds']:,.1f}"}
        shown |= {"embedding": ""} if is_baseline else {}
        rows.append([shown[name] for name in columns])
    return ResultTable(
        "table",
        title,
        list(columns.values()),
        rows,
        notes=[note] if note else [],
        only_in_files=frozenset({"seeds", "macro F1", "s/epoch", "predictions/s"}),
        texts=frozenset({"embedding"}),
        digits=4,
    )


def write_files(records: Sequence[Record], table: ResultTable, folder: Path) -> list[Path]:
    """The table as Markdown, and its figures in full precision as CSV."""
    paths = [folder / "table.csv", folder / "table.md"]
    write_text(paths[0], rows_to_csv(mean_scores(records)))
    write_text(paths[1], table.to_markdown())
    return paths


def mean_scores(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Means over the seeds of each encoder and embedding, and the spread of test accuracy."""
    rows: list[dict[str, Any]] = []
    for encoder, embedding in product(ROWS, EMBEDDING_KINDS):
        same = [r for r in records if (r["encoder"], r["embedding"]) == (encoder, embedding)]
        if not same:
            continue
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {"encoder": encoder, "embedding": embedding, "seeds": len(same)}
        if len(same) > 1:
            row["spread"] = stdev(r["test_accuracy"] for r in same)
        row["seconds"] = fmean(r["epoch_seconds"] * r["epochs"] for r in same)
        for name in COLUMNS.keys() - {"encoder", "embedding", "seeds", "spread", "seconds"}:
            mean = fmean(r[name] for r in same)
            row[name] = round(mean) if name in COUNTS else mean
        rows.append(row)
    return rows
