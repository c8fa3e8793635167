"""Encoders × embeddings on one data set, under the same settings for every embedding.

Selection sees the dev part only; the test part is scored once, with the weights that dev selected.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from wordwave.config_io import to_dict
from wordwave.files import write_text
from wordwave.grid import Count, Positive, Record, Share, fits
from wordwave.models.config import EMBEDDINGS, ENCODERS, EmbeddingKind, EncoderKind, goes_with
from wordwave.tasks.config import ClassificationConfig, DataConfig

if TYPE_CHECKING:
    from rich.table import Table

    from wordwave.data.splits import Splits


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

    data: DataConfig
    recipes: Mapping[EncoderKind, ClassificationConfig]
    examples: str

    def config(self, trial: Trial) -> ClassificationConfig:
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
            "config": to_dict(self.config(trial)),
            "examples": self.examples,
        }

    def run(self, trial: Trial) -> Record:
        """Train, select by dev, score on test, and time predictions; on one thread."""
        import torch

        from wordwave.models.classifier import count_parameters
        from wordwave.tasks.classification import evaluate, prepare
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


def examples_to_compare_on(data: DataConfig) -> Splits:
    """Examples in three parts; a tenth of those for training is the test part if none is named."""
    from wordwave.data.splits import Splits, stratified_split
    from wordwave.tasks.classification import load_examples

    parts = load_examples(data)
    if parts.test is not None:
        return parts
    rest, held = stratified_split(parts.train.labels, TEST_SHARE, seed=1)
    train, test = parts.train.subset(rest), parts.train.subset(held, f"{parts.train.name}, a tenth")
    return Splits(train, parts.dev, test)


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


def table(records: list[Record], title: str, note: str = "") -> Table:
    """For the terminal, the best test accuracy under each encoder in bold, with a note below."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title), caption=note, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    names = ("encoder", "embedding", "test", "±", "dev", "parameters", "s/epoch", "words/s")
    for name in names:
        shown.add_column(name, justify="left" if name.startswith("e") else "right")
    rows = summarised(records)
    best = {r["encoder"]: 0.0 for r in rows}
    for r in rows:
        best[r["encoder"]] = max(best[r["encoder"]], r["test_accuracy"])
    for r in rows:
        is_best = r["test_accuracy"] == best[r["encoder"]]
        shown.add_row(
            r["encoder"],
            r["embedding"],
            Text(f"{r['test_accuracy']:.4f}", style="bold" if is_best else ""),
            "" if r["spread"] is None else f"{r['spread']:.4f}",
            f"{r['dev_accuracy']:.4f}",
            f"{r['parameters']:,}",
            f"{r['epoch_seconds']:.2f}",
            f"{r['words_per_second']:,}",
        )
    return shown


def write_tables(records: list[Record], folder: Path, title: str, note: str = "") -> list[Path]:
    """Means over seeds as CSV and Markdown, with a note in the latter."""
    rows = summarised(records)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "table.csv", text.getvalue())
    names = list(rows[0])
    heading = [f"# {title}", "", *([note, ""] if note else [])]
    lines = [*heading, "| " + " | ".join(n.replace("_", " ") for n in names) + " |"]
    lines.append("|" + "---|" * len(names))
    lines += ["| " + " | ".join(_cell(row[n]) for n in names) + " |" for row in rows]
    write_text(folder / "table.md", "\n".join(lines) + "\n")
    return [folder / "table.csv", folder / "table.md"]


def summarised(records: list[Record]) -> list[dict[str, Any]]:
    """A row for each encoder and embedding: means over seeds, and the spread of the test figure."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["encoder"], record["embedding"]), []).append(record)
    rows = []
    for (encoder, embedding), same in groups.items():
        test = [r["test_accuracy"] for r in same]
        rows.append(
            {
                "encoder": encoder,
                "embedding": embedding,
                "seeds": len(same),
                "test_accuracy": fmean(test),
                "spread": stdev(test) if len(test) > 1 else None,
                "test_macro_f1": fmean(r["test_macro_f1"] for r in same),
                "dev_accuracy": fmean(r["dev_accuracy"] for r in same),
                "parameters": same[0]["parameters"],
                "epoch_seconds": fmean(r["epoch_seconds"] for r in same),
                "words_per_second": round(fmean(r["words_per_second"] for r in same)),
                "predictions_per_second": round(fmean(r["predictions_per_second"] for r in same)),
            }
        )
    return rows


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "")
