"""What Table 6 found: means over seeds as Markdown, and curves."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from statistics import fmean, stdev

from wordwave.experiments.store import Record
from wordwave.experiments.table6 import ROWS, Table6
from wordwave.files import write_text, write_whole

COLOURS = dict(zip(ROWS, ("#555555", "#2f9e66", "#e0662f", "#2a6fdb"), strict=True))
PUBLISHED = {"transformer-xl": 1.29, "complex-vanilla": 1.30, "complex-order": 1.26}
"""The paper's figures: 6 layers of full size, the whole of text8."""

COLUMNS = (
    *("row", "parameters", "steps", "seeds", "memory"),
    *("valid", "test", "±", "minutes", "paper"),
)


def write_table6(table: Table6) -> list[Path]:
    """Tables at equal updates and at equal time, and the curves of all trainings."""
    records = table.records()
    lines = ["# Transformer-XL, real and with waves: bits per character", ""]
    for budget in table.budgets:
        steps = table.steps_of(budget)
        lines += [f"## At equal {budget}", ""]
        lines += [
            "| row | parameters | steps | seeds | memory | valid | test | ± | minutes | paper |"
        ]
        lines += ["|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
        for row in ROWS:
            same = [r for r in records if (r["row"], _planned(r)) == (row, steps[row])]
            if same:
                lines.append(_line(row, same))
        lines.append("")
    some = records[0] if records else None
    if some is not None:
        lines.append(
            f"Data: {table.data}; valid and test on {some['valid_characters']:,} and "
            f"{some['test_characters']:,} characters, with the memory that valid preferred. The "
            "paper's figures are of its full size on the official test part and compare with ours "
            "only in their order."
        )
    write_text(table.out / "table6.md", "\n".join(lines) + "\n")
    made = [table.out / "table6.md"]
    if records:
        made.append(draw_curves(records, table.out / "table6.png"))
    return made


def _planned(record: Record) -> int:
    steps: int = record["config"]["training"]["max_steps"]
    return steps


def _line(row: str, same: list[Record]) -> str:
    test = [r["test_bpc"] for r in same]
    cells = [
        row,
        f"{same[0]['parameters']:,}",
        f"{same[0]['steps']:,}",
        str(len(same)),
        " ".join(map(str, sorted({r["memory"] for r in same}))),
        f"{fmean(r['valid_bpc'] for r in same):.4f}",
        f"{fmean(test):.4f}",
        f"{stdev(test):.4f}" if len(test) > 1 else "",
        f"{fmean(r['seconds'] for r in same) / 60:.1f}",
        f"{PUBLISHED[row]:.2f}" if row in PUBLISHED else "",
    ]
    return "| " + " | ".join(cells) + " |"


def draw_curves(records: list[Record], path: Path) -> Path:
    """Bits per character on the valid part, over steps and over minutes."""
    from matplotlib.figure import Figure  # no pyplot: no window system, no global state

    figure = Figure(figsize=(10, 4), layout="constrained")
    by_step, by_time = figure.subplots(1, 2, sharey=True)
    named = set()
    for r in records:
        curve = r["curve"]
        bpc = [point["bpc"] for point in curve]
        minutes = [s / 60 for s in accumulate(point["seconds"] for point in curve)]
        label = None if r["row"] in named else r["row"]
        named.add(r["row"])
        style = {"color": COLOURS[r["row"]], "lw": 1.3, "alpha": 0.8}
        by_step.plot([point["step"] for point in curve], bpc, label=label, **style)
        by_time.plot(minutes, bpc, **style)
    by_step.set(xlabel="steps", ylabel="bits per character, valid part")
    by_time.set(xlabel="minutes")
    by_step.legend(frameon=False)
    for axes in (by_step, by_time):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e6e6e6", lw=0.6)
    write_whole(path, lambda new: figure.savefig(new, dpi=150, format="png"))
    return path
