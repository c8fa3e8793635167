"""The laboratory on real text: do two sentences of nearly the same words mean the same?

Three matchers are trained on the built-in pairs of PAWS-Wiki with the same settings: a sum of
words, a sum of words with sinusoids added, and a sum of waves. They are tested on pairs that share
no sentence with those of training and of validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

from wordwave.config_io import to_dict, with_settings
from wordwave.data.pairs import load_pair_splits
from wordwave.data.registry import BUILT_IN
from wordwave.embedding.config import EmbeddingKind
from wordwave.grid import Count, Record, Share, fits
from wordwave.tables import Content, ResultTable, Score
from wordwave.tasks.config import MatchingConfig

KEY = ("embedding", "config", "examples")
"""What identifies a record: all settings, and a fingerprint of the pairs."""

ROWS: dict[EmbeddingKind, str] = {
    "none": "sum of words",
    "tpe": "sum of words + sinusoids",
    "complex-order": "sum of waves",
}
"""The embeddings that are compared, and what a sentence is with each."""

SETTINGS: dict[str, Any] = {
    "data": BUILT_IN,
    "dim": 128,
    "hidden_dim": 128,
    "learning_rate": 6e-3,
    "epochs": 10,
}
"""Smaller and quicker than the defaults of `train match`; chosen on the validation pairs."""

GUESSING = 0.565
"""The share of test pairs that are no paraphrases: the accuracy of “different” for all of them."""

_TOUR = "The team toured also in Asia in 1953 and Australia in August 1959 ."
EXAMPLES = (
    (_TOUR, "The team also toured in Asia in 1953 and Australia in August 1959 .", "paraphrase"),
    ("The team also toured in Australia in 1953 and Asia in August 1959 .", _TOUR, "different"),
)
"""Two test pairs of the same words, all of which occur in training pairs, with their labels."""


class _MatcherRecord(TypedDict):
    """The fields of a record that the table, the figure and the examples need."""

    embedding: Annotated[str, ROWS.__contains__]
    auc: Share
    accuracy: Share
    dev_auc: Share
    parameters: Count
    n_test: Count
    probabilities: Annotated[list[Share], lambda values: len(values) == len(EXAMPLES)]


def is_record(record: Record) -> bool:
    """Whether a record has all fields that are shown, with the right types."""
    return fits(record, _MatcherRecord)


@dataclass(frozen=True)
class ParaphraseTest:
    """The conditions that all matchers share. A cell of this grid is an embedding.

    Args:
        folder: gets a run folder for each matcher.
        settings: of data, model and training, by the names of their flags.
    """

    folder: Path
    settings: Mapping[str, Any]
    _examples: str = field(init=False)

    def __post_init__(self) -> None:
        examples = load_pair_splits(self.settings["data"]).fingerprint()
        object.__setattr__(self, "_examples", examples)

    def config(self, embedding: EmbeddingKind) -> MatchingConfig:
        return with_settings(MatchingConfig(), **self.settings, embedding=embedding)

    def key(self, embedding: EmbeddingKind) -> Record:
        """The fields that identify a matcher's record."""
        config = to_dict(self.config(embedding))
        return {"embedding": embedding, "config": config, "examples": self._examples}

    def run_folder(self, embedding: EmbeddingKind) -> Path:
        return self.folder / embedding

    def run(self, embedding: EmbeddingKind) -> Record:
        """Train a matcher in its run folder, resuming if it was stopped; on one thread."""
        import torch

        from wordwave.tasks.matcher import TextMatcher
        from wordwave.tasks.matching import MatchingJob

        torch.set_num_threads(1)
        job, folder = MatchingJob(self.config(embedding)), self.run_folder(embedding)
        job.check_config(folder)
        result = job.finished(folder)
        if result is None:
            result = job.prepare(job.load_data()).train(folder)
        matcher = TextMatcher.load(folder)
        probabilities = matcher.probabilities([pair[:2] for pair in EXAMPLES])
        return {
            **self.key(embedding),
            **{name: result["test"][name] for name in ("auc", "accuracy")},
            "n_test": result["test"]["n"],
            "dev_auc": result["dev"]["auc"],
            "best_epoch": result["best_epoch"],
            "parameters": result["parameters"],
            "probabilities": probabilities[:, matcher.labels.index("paraphrase")].tolist(),
            "seconds": result["seconds"],
            "torch": torch.__version__,
        }

    def cost(self, embedding: EmbeddingKind) -> float:
        """About the CPU seconds of a training, for the time left."""
        return 30.0 if embedding == "complex-order" else 8.0

    def spent(self, embedding: EmbeddingKind) -> float:
        """The part of its cost that a training has behind it, by the epochs in its run folder."""
        from wordwave.training.run import read_metrics

        metrics = read_metrics(self.run_folder(embedding) / "metrics.jsonl")
        done = len(metrics) / self.config(embedding).training.epochs
        return self.cost(embedding) * min(done, 1.0)


def score_table(records: Sequence[Record], note: str = "") -> ResultTable:
    """AUC and accuracy on the test pairs."""
    found = {r["embedding"]: r for r in records}
    best = max(r["auc"] for r in records)
    rows: list[list[Content]] = []
    for kind, name in ROWS.items():
        if kind in found:
            r = found[kind]
            auc = Score(r["auc"], is_best=r["auc"] == best)
            rows.append([name, kind, auc, r["accuracy"], r["parameters"]])
    guessing = f"Guessing: AUC 0.500, accuracy {GUESSING:.3f} (always “different”)."
    return ResultTable(
        "paraphrases",
        f"Paraphrase or not? {records[0]['n_test']:,} held-out pairs of PAWS-Wiki",
        ["a sentence is a", "embedding", "AUC", "accuracy", "parameters"],
        rows,
        notes=[guessing, note] if note else [guessing],
        texts=frozenset({"embedding"}),
    )
