"""What Table 5 found: a table as Markdown, and learning curves."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from wordwave.experiments.bleu_bootstrap import paired_bootstrap
from wordwave.experiments.store import Record
from wordwave.experiments.table5 import ROWS, Table5
from wordwave.files import write_text, write_whole

COLOURS = dict(
    zip(ROWS, ("#9aa0a6", "#555555", "#2f9e66", "#e0662f", "#2a6fdb", "#7a3fd1"), strict=True)
)
PUBLISHED = {
    "AED": 34.2,
    "Transformer + tpe": 34.5,
    "complex-vanilla": 34.7,
    "complex-order": 35.8,
}
"""The paper's figures, for models of full size; those of AED (with BPE) and of the Transformer it
took from others."""
WAVES = ("complex-order", "complex-order, shared ω")
COLUMNS = (
    "row",
    "parameters",
    "updates",
    "seeds",
    "BLEU, lower-case tokens",
    "first release",
    "BLEU, cased text",
    "chrF",
    "minutes",
    "paper",
)


def write_table5(table: Table5) -> list[Path]:
    """The table and the curves of all trainings that are there, of whichever rows."""
    table = replace(table, rows=tuple(ROWS))
    records = table.records()
    lines = [
        "# Translation, real and with waves, at equal parameters and updates",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|" + "---:|" * (len(COLUMNS) - 1),
    ]
    for row in table.rows:
        same = [r for r in records if r["row"] == row]
        if same:
            lines.append("| " + " | ".join(_cells(row, same)) + " |")
    lines += [
        "",
        f"Test part of {table.data}, beam 5; in brackets, 95% bootstrap intervals of the first "
        "seed. “First release”: the same translations against the German sentences as they first "
        "came out. Models learn from small letters; cased text and chrF are of translations with "
        "capitals put back by how words were spelled in training. The paper's figures are of "
        "models of full size and compare only in their order; those of AED (with BPE) and of the "
        "Transformer it took from others.",
        *_against(records),
    ]
    signatures = {
        f"{name}: `{r['test'][name]['signature']}`"
        for r in records
        if r["test"]
        for name in ("bleu", "tokenised_bleu", "chrf")
    }
    lines += ["", *(f"- {signature}" for signature in sorted(signatures))]
    made = [table.out / "table5.md"]
    write_text(made[0], "\n".join(lines) + "\n")
    if records:
        made.append(draw_curves(records, table.out / "table5.png"))
    return made


def _cells(row: str, same: list[Record]) -> list[str]:
    return [
        row,
        f"{same[0]['parameters']:,}",
        f"{same[0]['steps']:,}",
        str(len(same)),
        _figure([r["test"] for r in same], "tokenised_bleu"),
        _figure([r.get("test_first_release") for r in same], "tokenised_bleu"),
        _figure([r["test"] for r in same], "bleu"),
        _figure([r["test"] for r in same], "chrf"),
        f"{fmean(r['seconds'] for r in same) / 60:.0f}",
        str(PUBLISHED.get(row, "")),
    ]


def _against(records: list[Record]) -> list[str]:
    """Each row with waves against every other row: paired bootstrap over the test sentences."""
    counts = {r["row"]: r["bleu_counts"] for r in records if r["seed"] == 0}
    pairs = [(ours, row) for ours in WAVES for row in counts if ours in counts and row != ours]
    if not pairs:
        return []
    lines = ["", "## Against each other", "", "| row | against | BLEU | 95% | p |"]
    lines.append("|---|---|---:|---:|---:|")
    for ours, row in pairs:
        gap = paired_bootstrap(counts[ours], counts[row])
        low, high = gap.interval
        lines.append(
            f"| {ours} | {row} | {gap.difference:+.2f} | {low:+.2f} to {high:+.2f} | {gap.p:.2g} |"
        )
    lines += ["", "Lower-case tokens, seed 0, paired bootstrap over sentences; it knows nothing of"]
    lines[-1] += " what another seed would have done."
    return lines


def _figure(scores: list[dict[str, Any] | None], name: str) -> str:
    there = [s[name] for s in scores if s]
    if not there:
        return ""
    low, high = there[0]["interval"]
    return f"{fmean(f['value'] for f in there):.2f} [{low:.2f}, {high:.2f}]"


def draw_curves(records: list[Record], path: Path) -> Path:
    """Dev likelihood over updates and over minutes, and dev BLEU over updates."""
    import matplotlib as mpl
    from matplotlib.figure import Figure  # no pyplot: no window system, no global state

    with mpl.rc_context({"font.size": 9, "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        by_step, by_minute, bleu = figure.subplots(1, 3)
        for record in records:
            curve = record["curve"]
            steps = [point["step"] for point in curve]
            minutes = [s / 60 for s in accumulate(point["seconds"] for point in curve)]
            style: dict[str, Any] = {"color": COLOURS[record["row"]], "lw": 1.5}
            label = record["row"] if record["seed"] == 0 else None
            losses = [-point["dev_likelihood"] for point in curve]
            by_step.plot(steps, losses, label=label, **style)
            by_minute.plot(minutes, losses, **style)
            if all(point["dev_bleu"] is not None for point in curve):
                bleu.plot(steps, [point["dev_bleu"] for point in curve], **style)
        for axes, across, up in (
            (by_step, "updates", "dev: −log-probability of a piece"),
            (by_minute, "minutes of training", "dev: −log-probability of a piece"),
            (bleu, "updates", "dev: greedy BLEU, lower-case tokens"),
        ):
            axes.set_xlabel(across)
            axes.set_ylabel(up)
            axes.grid(color="#e6e6e6", lw=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        by_step.legend(frameon=False)
        write_whole(path, lambda new: figure.savefig(new, dpi=150, format="png"))
    return path
