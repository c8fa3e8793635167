"""What the laboratory found: tables for people, files for tools, pictures for both."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wordwave.files import write_text
from wordwave.grid import Record
from wordwave.models.config import EMBEDDINGS, ENCODERS, PAPER_EMBEDDINGS

if TYPE_CHECKING:
    from rich.table import Table


Scores = dict[tuple[str, str, str], list[float]]
"""Accuracies over seeds, by task, encoder and embedding."""


def scores_at(records: list[Record], lengths: str) -> Scores:
    """The accuracies of all seeds at one length range, such as "10-20"."""
    found: Scores = defaultdict(list)
    for r in sorted(records, key=lambda r: r["seed"]):
        if lengths in r["accuracy"]:
            found[r["task"], r["encoder"], r["embedding"]].append(r["accuracy"][lengths])
    return found


def lengths_in(records: list[Record]) -> list[str]:
    """All length ranges that were tested, shortest first."""
    ranges = {k for r in records for k in r["accuracy"]}
    return sorted(ranges, key=lambda k: [int(n) for n in k.split("-")])


def by_encoder(records: list[Record]) -> list[Record]:
    """The same records, encoder after encoder."""
    return sorted(records, key=lambda r: ENCODERS.index(r["encoder"]))


def rows_in(scores: Scores) -> list[tuple[str, str]]:
    """(task, encoder), in the order of the laboratory."""
    tasks = list(dict.fromkeys(task for task, _, _ in scores))
    return [(t, e) for t in tasks for e in ENCODERS if any((t, e, k) in scores for k in EMBEDDINGS)]


def table(records: list[Record], lengths: str, note: str = "") -> Table:
    """Mean accuracy at one length, a row for each task and encoder, the best in bold.

    Args:
        note: stands below it.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    scores = scores_at(records, lengths)
    columns = [k for k in EMBEDDINGS if any(key[2] == k for key in scores)]
    title = f"Accuracy on sentences of {lengths} words (chance on pairs: 0.500)"
    shown = Table(title=title, caption=note, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("task", "encoder", *columns):
        justify: Literal["left", "right"] = "left" if name in ("task", "encoder") else "right"
        shown.add_column(name.replace("complex-", "complex-\n"), justify=justify)
    for task, encoder in rows_in(scores):
        means = {k: statistics.fmean(v) for k in columns if (v := scores.get((task, encoder, k)))}
        best = max(means.values())
        shown.add_row(
            task,
            encoder,
            *(
                Text(f"{means[k]:.3f}", style="bold" if means[k] == best else "")
                if k in means
                else ""
                for k in columns
            ),
        )
    return shown


def write_files(records: list[Record], folder: Path, note: str = "") -> list[Path]:
    """Every accuracy as CSV and JSON, and the tables as Markdown, below a note if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "task": r["task"],
            "encoder": r["encoder"],
            "embedding": r["embedding"],
            "recipe": r["recipe"],
            "seed": r["seed"],
            "lengths": lengths,
            "accuracy": accuracy,
        }
        for r in records
        for lengths, accuracy in r["accuracy"].items()
    ]
    as_csv, as_json, as_markdown = (folder / f"probe.{end}" for end in ("csv", "json", "md"))
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_text(as_csv, table.getvalue())
    write_text(as_json, json.dumps(rows, indent=1) + "\n")
    tables = [_markdown(records, n) for n in lengths_in(records)]
    more = [_effects_markdown(records), _parameters(records)]
    notes = [f"{note}\n"] if note else []
    write_text(as_markdown, "\n".join([*notes, _counts(records), *tables, *more]))
    return [as_csv, as_json, as_markdown]


def _counts(records: list[Record]) -> str:
    budget = ", ".join(f"{name} {value}" for name, value in records[0]["budget"].items())
    seeds = len({r["seed"] for r in records})
    return f"{len(records)} cells, {seeds} seeds, recipe {records[0]['recipe']}; {budget}.\n"


def _markdown(records: list[Record], lengths: str) -> str:
    scores = scores_at(records, lengths)
    columns = [k for k in EMBEDDINGS if any(key[2] == k for key in scores)]
    lines = [
        f"## Sentences of {lengths} words\n",
        "Mean accuracy ± standard deviation over seeds (one seed where there is no ±); last,",
        "complex-order against the best of the paper's other four (noise: twice the standard error",
        "of the difference over seeds).\n",
        f"| task | encoder | {' | '.join(columns)} | complex-order is |",
        "|---|---|" + "---|" * (len(columns) + 1),
    ]
    n_test = records[0]["budget"]["n_test"]
    for task, encoder in rows_in(scores):
        values = [scores.get((task, encoder, k), []) for k in columns]
        verdict = _verdict(scores, task, encoder, n_test)
        lines.append(f"| {task} | {encoder} | {' | '.join(map(_mean, values))} | {verdict} |")
    return "\n".join(lines) + "\n"


def _verdict(scores: Scores, task: str, encoder: str, n_test: int) -> str:
    """Best, within noise of the best, or behind it, among the paper's five embeddings.

    Noise is twice the standard error of the difference: over seeds, but at least that of counting
    right answers on n_test/2 pairs a seed.
    """
    waves = scores.get((task, encoder, "complex-order"), [])
    rivals = {k: scores.get((task, encoder, k), []) for k in PAPER_EMBEDDINGS[:-1]}
    rivals = {k: v for k, v in rivals.items() if len(v) == len(waves)}
    if len(waves) < 2 or not rivals:
        return ""
    best = max(rivals, key=lambda k: statistics.fmean(rivals[k]))
    differences = [w - r for w, r in zip(waves, rivals[best], strict=True)]
    lead = statistics.fmean(differences)
    means = statistics.fmean(waves), statistics.fmean(rivals[best])
    counting = sum(p * (1 - p) for p in means) / (len(waves) * n_test / 2)
    between_seeds = statistics.variance(differences) / len(differences)
    noise = 2 * max(counting, between_seeds) ** 0.5
    if lead > noise:
        return f"best, by {lead:.3f}"
    return "within noise of the best" if lead >= -noise else f"behind {best} by {-lead:.3f}"


def _effects_markdown(records: list[Record]) -> str:
    effects = frequency_effect(records)
    if not effects:
        return ""
    lines = [
        "## Frequencies\n",
        "Mean δ of the words whose place decides the answer and of all others after training.\n",
        "| task | encoder | deciding | others | Cohen's d | seeds |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {e['task']} | {e['encoder']} | {e['marked']:.4f} | {e['others']:.4f} "
        f"| {e['cohens_d']:+.1f} | {e['seeds']} |"
        for e in effects
    ]
    return "\n".join(lines) + "\n"


def _parameters(records: list[Record]) -> str:
    """How large the models of each row are."""
    sizes = {(r["encoder"], r["embedding"], r["parameters"]) for r in records if r["seed"] == 0}
    lines = ["## Parameters\n", "| encoder | embedding | least | most |", "|---|---|---|---|"]
    for encoder in ENCODERS:
        for kind in EMBEDDINGS:
            found = [n for e, k, n in sizes if (e, k) == (encoder, kind)]
            if found:
                lines.append(f"| {encoder} | {kind} | {min(found):,} | {max(found):,} |")
    return "\n".join(lines) + "\n"


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def frequency_effect(records: list[Record]) -> list[Record]:
    """Per task and encoder: do words whose place decides get higher frequencies?

    The effect size is Cohen's d, (mean δ marked − mean δ others) / pooled standard deviation.
    """
    found: dict[tuple[str, str], list[tuple[list[float], list[float]]]] = defaultdict(list)
    for r in by_encoder(records):
        words = r.get("sensitivity")
        if words and len(set(words["others"])) > 1:
            found[r["task"], r["encoder"]].append((words["marked"], words["others"]))
    effects = []
    for (task, encoder), seeds in found.items():
        marked = [d for m, _ in seeds for d in m]
        others = [d for _, o in seeds for d in o]
        pooled = ((statistics.variance(marked) + statistics.variance(others)) / 2) ** 0.5
        effects.append(
            {
                "task": task,
                "encoder": encoder,
                "marked": statistics.fmean(marked),
                "others": statistics.fmean(others),
                "cohens_d": (statistics.fmean(marked) - statistics.fmean(others)) / pooled,
                "seeds": len(seeds),
            }
        )
    return effects
