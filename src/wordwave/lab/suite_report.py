"""Results of the suite of encodings: tables to read, and files for other tools."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from wordwave.files import write_text
from wordwave.grid import Record
from wordwave.lab.report import lengths_in
from wordwave.lab.suite import ALL_ENCODINGS, BUDGETS
from wordwave.tables import Content, ResultTable, Score, rows_to_csv

Cells = Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
"""Accuracies by task and encoding, seed, and lengths."""


def cells_of(records: Sequence[Record]) -> Cells:
    """The last record of a cell counts."""
    found: dict[tuple[str, str], dict[int, Mapping[str, float]]] = defaultdict(dict)
    for r in records:
        found[r["task"], r["encoding"]][r["seed"]] = r["accuracy"]
    return found


def tasks_in(cells: Cells) -> list[str]:
    return [task for task in BUDGETS if any(task == t for t, _ in cells)]


def encodings_in(cells: Cells) -> list[str]:
    """Those of the suite in its order, then the users' own."""
    found = dict.fromkeys(encoding for _, encoding in cells)
    known = [name for name in ALL_ENCODINGS if name in found]
    return known + [name for name in found if name not in known]


def accuracy_table(records: Sequence[Record], lengths: str, note: str = "") -> ResultTable:
    """Mean accuracy of each encoding on each task, on sequences of some lengths."""
    cells = cells_of(records)
    tasks = [t for t in tasks_in(cells) if any(at(cells, t, e, lengths) for _, e in cells)]
    rows: list[list[Content]] = []
    means = {
        (t, e): statistics.fmean(values)
        for t in tasks
        for e in encodings_in(cells)
        if (values := at(cells, t, e, lengths))
    }
    for encoding in encodings_in(cells):
        row: list[Content] = [encoding]
        for task in tasks:
            values = at(cells, task, encoding, lengths)
            best = max(mean for (t, _), mean in means.items() if t == task)
            row.append(_score(values, best) if values else None)
        rows.append(row)
    return ResultTable(
        f"accuracy-{lengths}",
        f"Accuracy on sequences of {lengths} tokens",
        ["encoding", *tasks],
        rows,
        notes=[note] if note else [],
        intro="Fraction of answers without any wrong token; mean ± standard deviation over seeds.",
        digits=2,
    )


def rank_table(records: Sequence[Record], note: str = "") -> ResultTable:
    """Mean reciprocal rank over tasks, at training lengths and beyond, with intervals over seeds.

    An encoding's rank on a task and at a length is one more than the number of better ones.
    """
    cells, lengths = cells_of(records), lengths_in(records)
    seeds = sorted({seed for by_seed in cells.values() for seed in by_seed})
    groups = {"training lengths": lengths[:1], "longer": lengths[1:]}
    rows: list[list[Content]] = []
    for encoding in encodings_in(cells):
        row: list[Content] = [encoding]
        for group in groups.values():
            by_seed = [_reciprocal_ranks(cells, encoding, seed, group) for seed in seeds]
            found = [statistics.fmean(ranks) for ranks in by_seed if ranks]
            row.append(_score(found, 2.0) if found else None)
        for length in lengths:
            values = [
                value for task in tasks_in(cells) for value in at(cells, task, encoding, length)
            ]
            row.append(statistics.fmean(values) if values else None)
        rows.append(row)
    return ResultTable(
        "ranks",
        "Mean reciprocal rank, and mean accuracy over tasks by length",
        ["encoding", *groups, *lengths],
        rows,
        notes=[note] if note else [],
        intro="Mean reciprocal rank over tasks and lengths ± standard deviation over seeds; 1 is "
        "best on every task.",
    )


def cost_table(records: Sequence[Record], note: str = "") -> ResultTable:
    """Parameters, CPU time and memory of a training step, relative to the median of RoPE."""
    rows: list[list[Content]] = []
    by_task: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        by_task[r["encoding"]][r["task"]].append(r)
    for encoding in encodings_in(cells_of(records)):
        of_encoding = by_task[encoding]
        ratios = []
        for task, found in of_encoding.items():
            peers = by_task.get("rope", {}).get(task)
            if peers:
                ours, theirs = (
                    statistics.median(r["ms_per_step"] for r in part) for part in (found, peers)
                )
                ratios.append(ours / theirs)
        every = [r for found in of_encoding.values() for r in found]
        row: list[Content] = [encoding, min(r["parameters"] for r in every)]
        row.append(max(r["parameters"] for r in every))
        row.append(f"{statistics.median(r['ms_per_step'] for r in every):.1f}")
        row.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        row.append(f"{statistics.median(r['megabytes'] for r in every):.1f}")
        rows.append(row)
    return ResultTable(
        "cost",
        "Cost of a training step",
        ["encoding", "parameters, least", "most", "ms of CPU", "× rope", "MB kept for backward"],
        rows,
        notes=[note] if note else [],
    )


def write_files(records: Sequence[Record], folder: Path, note: str = "") -> list[Path]:
    """Every accuracy as CSV and JSON, and the tables as Markdown."""
    rows = [
        {name: r[name] for name in ("task", "encoding", "seed")}
        | {"lengths": lengths, "accuracy": accuracy, "tokens": r["token_accuracy"][lengths]}
        for r in records
        for lengths, accuracy in r["accuracy"].items()
    ]
    seeds = len({r["seed"] for r in records})
    steps = {r["task"]: r["budget"]["steps"] for r in records}
    budgets = ", ".join(f"{task} {n:,}" for task, n in steps.items())
    about = f"{len(records)} cells, {seeds} seeds. Steps: {budgets}.\n"
    tables = [accuracy_table(records, lengths) for lengths in lengths_in(records)]
    tables += [rank_table(records), cost_table(records)]
    parts = [about, *(table.to_markdown() for table in tables)]
    texts = {
        "encodings.csv": rows_to_csv(rows, end="\r\n"),
        "encodings.json": json.dumps(rows, indent=1) + "\n",
        "encodings.md": "\n".join([f"{note}\n", *parts] if note else parts),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def at(cells: Cells, task: str, encoding: str, lengths: str) -> list[float]:
    """Accuracies of all seeds."""
    by_seed = cells.get((task, encoding), {})
    return [by_seed[seed][lengths] for seed in sorted(by_seed) if lengths in by_seed[seed]]


def _reciprocal_ranks(
    cells: Cells, encoding: str, seed: int, lengths: Sequence[str]
) -> list[float]:
    found = []
    for task in tasks_in(cells):
        for length in lengths:
            values = {
                e: by_seed[seed][length]
                for (t, e), by_seed in cells.items()
                if t == task and length in by_seed.get(seed, {})
            }
            if encoding in values:
                better = sum(value > values[encoding] for value in values.values())
                found.append(1 / (1 + better))
    return found


def _score(values: Sequence[float], best: float) -> Score:
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Score(mean, spread, len(values), is_best=mean == best > 0)
