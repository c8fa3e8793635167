"""Results of the laboratory: tables to read, and files for other tools."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from wordwave.embedding.config import EMBEDDING_KINDS, PAPER_EMBEDDINGS
from wordwave.files import write_text
from wordwave.grid import Record
from wordwave.models.config import ENCODERS
from wordwave.tables import Content, ResultTable, Score, rows_to_csv

Accuracies = Mapping[tuple[str, str, str], list[float]]
"""Accuracies over seeds, by task, encoder and embedding."""

VERDICT = "complex-order is"
"""The column that compares complex-order with the paper's other embeddings."""


def accuracies_at(records: Sequence[Record], lengths: str) -> Accuracies:
    """The accuracies of all seeds on sentences of a range of lengths, such as "10-20"."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for r in sorted(records, key=lambda r: r["seed"]):
        if lengths in r["accuracy"]:
            found[r["task"], r["encoder"], r["embedding"]].append(r["accuracy"][lengths])
    return found


def lengths_in(records: Sequence[Record]) -> list[str]:
    """All ranges of lengths that were tested, shortest first."""
    ranges = {k for r in records for k in r["accuracy"]}
    return sorted(ranges, key=lambda k: [int(n) for n in k.split("-")])


def rows_in(found: Accuracies) -> list[tuple[str, str]]:
    """(task, encoder), tasks in the order of the records."""
    rows = {(task, encoder): None for task, encoder, _ in found}
    tasks = dict.fromkeys(task for task, _ in rows)
    return [(t, e) for t in tasks for e in ENCODERS if (t, e) in rows]


def accuracy_table(
    records: Sequence[Record], lengths: str, note: str = "", *, mark_best: bool = False
) -> ResultTable:
    """Mean accuracy on sentences of some lengths, and in files the verdict on complex-order."""
    found = accuracies_at(records, lengths)
    columns: list[str] = [k for k in EMBEDDING_KINDS if any(key[2] == k for key in found)]
    rows: list[list[Content]] = []
    for task, encoder in rows_in(found):
        of_row = {k: found[task, encoder, k] for k in columns if (task, encoder, k) in found}
        best = max(map(statistics.fmean, of_row.values())) if mark_best else None
        scores = {k: _mean_score(values, best) for k, values in of_row.items()}
        said = verdict(of_row, records[0]["budget"]["n_test"])
        rows.append([task, encoder, *map(scores.get, columns), said])
    intro = """\
Mean accuracy ± standard deviation over seeds (one seed where there is no ±); last,
complex-order against the best of the paper's other four (noise: twice the standard error
of the difference over seeds)."""
    return ResultTable(
        f"accuracy-{lengths}",
        f"Accuracy on sentences of {lengths} words (chance on pairs: 0.500)",
        ["task", "encoder", *columns, VERDICT],
        rows,
        notes=[note] if note else [],
        intro=intro,
        only_in_files=frozenset({VERDICT}),
        texts=frozenset({"encoder"}),
    )


def write_files(records: Sequence[Record], folder: Path, note: str = "") -> list[Path]:
    """Every accuracy as CSV and JSON, and the tables as Markdown, below a note if there is one."""
    rows = [
        {name: r[name] for name in ("task", "encoder", "embedding", "recipe", "seed")}
        | {"lengths": lengths, "accuracy": accuracy}
        for r in records
        for lengths, accuracy in r["accuracy"].items()
    ]
    budget = ", ".join(f"{name} {value}" for name, value in records[0]["budget"].items())
    seeds = len({r["seed"] for r in records})
    about = f"{len(records)} cells, {seeds} seeds, recipe {records[0]['recipe']}; {budget}.\n"
    tables = [accuracy_table(records, lengths) for lengths in lengths_in(records)]
    tables += [frequency_table(records), parameter_table(records)]
    parts = [about, *(table.to_markdown() if table.rows else "" for table in tables)]
    texts = {
        "probe.csv": rows_to_csv(rows, end="\r\n"),
        "probe.json": json.dumps(rows, indent=1) + "\n",
        "probe.md": "\n".join([f"{note}\n", *parts] if note else parts),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def verdict(accuracies: Mapping[str, Sequence[float]], n_test: int) -> str:
    """Whether complex-order is the best of the paper's five embeddings, within noise of it, or
    behind; "" if it has fewer than two seeds or no other embedding has as many.

    Noise is twice the standard error of the difference: over seeds, but at least that of counting
    correct answers on n_test/2 pairs a seed.

    Args:
        accuracies: of each embedding, over seeds.
    """
    waves = accuracies.get("complex-order", [])
    rivals = [k for k in PAPER_EMBEDDINGS if k != "complex-order"]
    rivals = [k for k in rivals if len(accuracies.get(k, [])) == len(waves)]
    if len(waves) < 2 or not rivals:
        return ""
    best = max(rivals, key=lambda k: statistics.fmean(accuracies[k]))
    differences = [w - r for w, r in zip(waves, accuracies[best], strict=True)]
    lead = statistics.fmean(differences)
    means = statistics.fmean(waves), statistics.fmean(accuracies[best])
    counting = sum(p * (1 - p) for p in means) / (len(waves) * n_test / 2)
    between_seeds = statistics.variance(differences) / len(differences)
    noise = 2 * max(counting, between_seeds) ** 0.5
    if lead > noise:
        return f"best, by {lead:.3f}"
    return "within noise of the best" if lead >= -noise else f"behind {best} by {-lead:.3f}"


def frequency_table(records: Sequence[Record]) -> ResultTable:
    """Do words whose position decides the answer get higher frequencies?

    The effect size is Cohen's d, (mean δ deciding − mean δ others) / pooled standard deviation.
    """
    rows: list[list[Content]] = []
    for (task, encoder), seeds in sensitivities(records).items():
        deciding, others = ([d for seed in seeds for d in seed[i]] for i in (0, 1))
        pooled = ((statistics.variance(deciding) + statistics.variance(others)) / 2) ** 0.5
        means = statistics.fmean(deciding), statistics.fmean(others)
        effect = f"{(means[0] - means[1]) / pooled:+.1f}"
        rows.append([task, encoder, *(f"{mean:.4f}" for mean in means), effect, len(seeds)])
    columns = ["task", "encoder", "deciding", "others", "Cohen's d", "seeds"]
    intro = "Mean δ of the words whose place decides the answer and of all others after training."
    return ResultTable("frequencies", "Frequencies", columns, rows, intro=intro)


def sensitivities(
    records: Sequence[Record],
) -> dict[tuple[str, str], list[tuple[list[float], list[float]]]]:
    """By task and encoder, for each seed, δ of the words whose position decides the answer and of
    all others; only where words have frequencies of their own."""
    found: dict[tuple[str, str], list[tuple[list[float], list[float]]]] = defaultdict(list)
    for r in sorted(records, key=lambda r: ENCODERS.index(r["encoder"])):
        words = r.get("sensitivity")
        if words and len(set(words["others"])) > 1:
            found[r["task"], r["encoder"]].append((words["marked"], words["others"]))
    return found


def parameter_table(records: Sequence[Record]) -> ResultTable:
    """The smallest and the largest model of each encoder and embedding, over tasks."""
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        for kind in EMBEDDING_KINDS:
            sizes = [
                r["parameters"]
                for r in records
                if (r["encoder"], r["embedding"], r["seed"]) == (encoder, kind, 0)
            ]
            if sizes:
                rows.append([encoder, kind, min(sizes), max(sizes)])
    columns = ["encoder", "embedding", "least", "most"]
    return ResultTable("parameters", "Parameters", columns, rows)


def _mean_score(values: Sequence[float], best: float | None) -> Score:
    mean, spread = statistics.fmean(values), None
    if len(values) > 1:
        spread = statistics.stdev(values)
    return Score(mean, spread, len(values), is_best=mean == best)
