"""The table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.record import Record

WIDTH_IN_A_FILE = 120
VERDICTS = {True: "[green]holds[/]", False: "[red]missed[/]", None: "not applied"}


def show_records(records: Sequence[Record]) -> list[Record]:
    """Print all records and those that missed their target, and return the latter."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_IN_A_FILE
    console.print(_table(records))
    for note in dict.fromkeys(r["note"] for r in records if r["bar"] and r["holds"] is None):
        console.print(f"note: {note}")
    missed = [record for record in records if record["holds"] is False]
    for r in missed:
        ratio = f"{r['direction']} is {r['ratio']}, the target {r['bar']}"
        console.print(f"[red]missed[/]: {_name(r)} against {r['peer']}: {ratio}")
    return missed


def _table(records: Sequence[Record]) -> Table:
    title = "Medians on one thread; the ratio is peer / ours (higher is better) unless marked"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("row", "peer", "ours ms", "peer ms", "ratio", "target", "goal", "verdict"):
        left = column in ("row", "peer", "verdict")
        wraps = column in ("row", "peer")
        table.add_column(column, justify="left" if left else "right", no_wrap=not wraps)
    previous = None
    for r in records:
        name = _name(r)
        if name != previous:
            table.add_section()
        table.add_row("" if name == previous else name, *_cells(r))
        previous = name
    return table


def _name(r: Record) -> str:
    return r["row"] if r["precision"] == "fp32" else f"{r['row']} {r['precision']}"


def _cells(r: Record) -> tuple[str, ...]:
    at_most = r["direction"] == "ours / peer"
    fell_back = r["peer_ran_in"] != r["precision"]
    return (
        f"{r['peer']} (in fp32)" if fell_back else r["peer"],
        f"{r['ms']:.1f}",
        f"{r['peer_ms']:.1f}",
        f"{'ours/peer ' if at_most else ''}{r['ratio']:.2f}",
        "" if r["bar"] is None else f"{'≤' if at_most else '≥'} {r['bar']}",
        "" if r["goal"] is None else str(r["goal"]),
        "" if r["bar"] is None else VERDICTS[r["holds"]],
    )
