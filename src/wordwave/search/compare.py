"""Encoders × embeddings on one data set, under the same settings for every embedding.

The weights are selected on the validation set; the test set is scored once, with those weights.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from wordwave.config_io import to_dict, with_settings
from wordwave.data.splits import DataConfig
from wordwave.embedding.config import EMBEDDING_KINDS, EmbeddingKind
from wordwave.files import write_text
from wordwave.grid import Count, Positive, Record, Share, fits
from wordwave.models.config import ENCODERS, EncoderKind, goes_with
from wordwave.tables import Content, ResultTable, Score, rows_to_csv
from wordwave.tasks.config import ClassificationConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Splits


TEST_SHARE = 0.1
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
    "epoch_seconds": "s/epoch",
    "words_per_second": "words/s",
    "predictions_per_second": "predictions/s",
}
"""Fields of table.csv, and what they are called in the table; all but the first three and the
spread are means over seeds."""
COUNTS = ("parameters", "words_per_second", "predictions_per_second")


class _CandidateRecord(TypedDict):
    """The fields of a record that tables need."""

    encoder: Annotated[str, ENCODERS.__contains__]
    embedding: Annotated[str, EMBEDDING_KINDS.__contains__]
    seed: int
    test_accuracy: Share
    test_macro_f1: Share
    dev_accuracy: Share
    parameters: Count
    epoch_seconds: Annotated[float, lambda seconds: seconds >= 0]
    words_per_second: Positive
    predictions_per_second: Positive


def is_record(record: Record) -> bool:
    """Whether a record has all fields that tables need, with the right types."""
    return fits(record, _CandidateRecord)


@dataclass(frozen=True)
class Candidate:
    """One model to train."""

    encoder: EncoderKind
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
        recipe = replace(self.recipes[candidate.encoder], data=self.data)
        return with_settings(recipe, **asdict(candidate))

    def key(self, candidate: Candidate) -> Record:
        """The fields that identify a candidate's record."""
        config = to_dict(self.config(candidate))
        return {**asdict(candidate), "config": config, "examples": self.examples}

    def run(self, candidate: Candidate) -> Record:
        """Train, score on the test set and time predictions, on one thread."""
        import torch

        from wordwave.models.utils import count_parameters
        from wordwave.tasks.classification import ClassificationJob, evaluate

        torch.set_num_threads(1)
        config = self.config(candidate)
        parts = examples_to_compare_on(config.data)
        job = ClassificationJob(config).prepare(parts)
        assert job.test is not None
        training = job.training()
        start = time.process_time()
        for _ in training.run():
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
            "dev_accuracy": progress.best_score,
            "best_epoch": progress.best_epoch,
            "epochs": progress.epoch,
            "parameters": count_parameters(job.text_model.model),
            "epoch_seconds": round(seconds / max(progress.epoch, 1), 3),
            "words_per_second": round(progress.n_words / seconds),
            "predictions_per_second": round(len(parts.train.texts) / predicting),
            "torch": torch.__version__,
        }


def examples_to_compare_on(data: DataConfig) -> Splits:
    """Training, validation and test examples; the test set is a tenth of the training examples
    if none is named."""
    from wordwave.data.splits import Splits, stratified_split
    from wordwave.tasks.classification import load_examples

    parts = load_examples(data)
    if parts.test is not None:
        return parts
    rest, held = stratified_split(parts.train.labels, TEST_SHARE, seed=1)
    train, test = parts.train.subset(rest), parts.train.subset(held, f"{parts.train.name}, a tenth")
    return Splits(train, parts.dev, test)


def candidates(
    encoders: Sequence[EncoderKind], embeddings: Sequence[EmbeddingKind], *, seeds: int
) -> list[Candidate]:
    """All combinations that are possible: RoPE and ALiBi need attention."""
    return [
        Candidate(encoder, embedding, seed)
        for seed in range(seeds)
        for encoder in encoders
        for embedding in embeddings
        if goes_with(embedding, encoder)
    ]


def result_table(records: Sequence[Record], title: str, note: str = "") -> ResultTable:
    """Means over seeds, the best test accuracy with each encoder in bold."""
    means = mean_scores(records)
    rows: list[list[Content]] = []
    for r in means:
        best = max(rival["test_accuracy"] for rival in means if rival["encoder"] == r["encoder"])
        test = Score(r["test_accuracy"], is_best=r["test_accuracy"] == best)
        rows.append(list((r | {"test_accuracy": test}).values()))
    return ResultTable(
        "table",
        title,
        list(COLUMNS.values()),
        rows,
        notes=[note] if note else [],
        only_in_files=frozenset({"seeds", "macro F1", "predictions/s"}),
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
    for encoder, embedding in product(ENCODERS, EMBEDDING_KINDS):
        same = [r for r in records if (r["encoder"], r["embedding"]) == (encoder, embedding)]
        if not same:
            continue
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {"encoder": encoder, "embedding": embedding, "seeds": len(same)}
        if len(same) > 1:
            row["spread"] = stdev(r["test_accuracy"] for r in same)
        for name in COLUMNS.keys() - {"encoder", "embedding", "seeds", "spread"}:
            mean = fmean(r[name] for r in same)
            row[name] = round(mean) if name in COUNTS else mean
        rows.append(row)
    return rows
