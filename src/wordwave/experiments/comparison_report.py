"""What a comparison found: means over seeds, as tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from wordwave.experiments.store import Record
from wordwave.files import write_text

if TYPE_CHECKING:
    from rich.table import Table


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
