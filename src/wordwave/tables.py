"""A table once, shown in a terminal or written as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wordwave.files import write_text

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """A mean, how sure it is, and what the paper says in its place."""

    mean: float
    half: float | None = None
    """Half of its 95% interval."""
    n: int = 1
    marks: str = ""
    paper: float | None = None
    is_best: bool = False

    def short(self) -> str:
        beside = "" if self.paper is None else f"\n({self.paper:.3f})"
        return f"{self.mean:.3f}{self.marks}{beside}"

    def long(self) -> str:
        spread = "" if self.half is None else f" ± {self.half:.3f}"
        return f"{self.mean:.3f}{spread}{self.marks and ' ' + self.marks}"


Content = str | int | float | Figure | None


@dataclass(frozen=True)
class Grid:
    """Rows under columns; a row of one text alone is the heading of those that follow."""

    name: str
    """Of the files."""
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Content]]
    notes: Sequence[str] = field(default_factory=tuple)
    only_in_files: frozenset[str] = frozenset()
    """Columns that a terminal has no room for."""
    texts: frozenset[str] = frozenset()
    """Columns of words rather than figures."""


def terminal(grid: Grid) -> Table:
    """For a terminal: the paper's figures below ours, in brackets."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title=Text(grid.title),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption=Text("\n".join(grid.notes)),
        caption_justify="left",
    )
    kept = [i for i, name in enumerate(grid.columns) if name not in grid.only_in_files]
    for i in kept:
        is_text = i == 0 or grid.columns[i] in grid.texts
        shown.add_column(grid.columns[i], justify="left" if is_text else "right")
    for row in grid.rows:
        if len(row) == 1:
            shown.add_section()
            shown.add_row(Text(str(row[0]), style="bold"))
            continue
        cells = []
        for i in kept:
            value = row[i]
            text = value.short() if isinstance(value, Figure) else spelled(value)
            bold = isinstance(value, Figure) and value.is_best
            cells.append(Text(text, style="bold" if bold else ""))
        shown.add_row(*cells)
    return shown


def markdown(grid: Grid) -> str:
    """Ours, and the paper's after a slash."""

    def cell(value: Content) -> str:
        if not isinstance(value, Figure):
            return spelled(value).replace("|", "\\|")
        ours = f"**{value.long()}**" if value.is_best else value.long()
        return ours if value.paper is None else f"{ours} / {value.paper:.3f}"

    lines = [f"## {grid.title}", "", "| " + " | ".join(grid.columns) + " |"]
    lines.append("|" + "---|" * len(grid.columns))
    for row in grid.rows:
        if len(row) == 1:
            row = [f"**{row[0]}**", *[""] * (len(grid.columns) - 1)]
        lines.append("| " + " | ".join(map(cell, row)) + " |")
    lines += ["", *(f"- {note}" for note in grid.notes)]
    return "\n".join(lines).rstrip() + "\n"


def as_csv(grid: Grid) -> str:
    """Every number on its own: a figure takes five columns."""
    wide = {i for row in grid.rows for i, value in enumerate(row) if isinstance(value, Figure)}
    names = ["group"]
    for i, name in enumerate(grid.columns):
        ends = ("", " ±", " n", " marks", " paper") if i in wide else ("",)
        names += [name + end for end in ends]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    group = ""
    for row in grid.rows:
        if len(row) == 1:
            group = str(row[0])
            continue
        line: list[object] = [group]
        for i, value in enumerate(row):
            if isinstance(value, Figure):
                line += [value.mean, value.half, value.n, value.marks, value.paper]
            else:
                line += [value, *[None] * 4] if i in wide else [value]
        writer.writerow(line)
    return text.getvalue()


_LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "§": r"\S{}"}
_LATEX |= {
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
}
_LATEX |= {"†": r"\dag{}", "‡": r"\ddag{}", "∗": "$^{*}$", "δ": r"$\delta$", "Δ": r"$\Delta$"}
_LATEX |= {"×": r"$\times$", "−": "$-$", "≥": r"$\geq$", "·": r"$\cdot$", "ω": r"$\omega$"}
_LATEX |= {"θ": r"$\theta$", "✓": r"$\checkmark$", "…": r"\ldots{}", "“": "``", "”": "''"}


def latex(grid: Grid) -> str:
    """A tabular for the package booktabs."""

    def escaped(text: str) -> str:
        return "".join(_LATEX.get(letter, letter) for letter in text)

    def cell(value: Content) -> str:
        if not isinstance(value, Figure):
            return escaped(spelled(value))
        ours = escaped(value.long())
        ours = rf"\textbf{{{ours}}}" if value.is_best else ours
        return ours if value.paper is None else f"{ours} ({value.paper:.3f})"

    # Words fill what is left of a line; figures stand to the right.
    kinds = [r"p{0.7\linewidth}" if name in grid.texts else "r" for name in grid.columns[1:]]
    lines = [rf"\begin{{tabular}}{{l{''.join(kinds)}}}", r"\toprule"]
    lines += [" & ".join(map(escaped, grid.columns)) + r" \\", r"\midrule"]
    for i, row in enumerate(grid.rows):
        if len(row) == 1:
            heading = rf"\multicolumn{{{len(grid.columns)}}}{{l}}{{{cell(row[0])}}} \\"
            lines += [r"\midrule", heading] if i else [heading]
        else:
            lines.append(" & ".join(map(cell, row)) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"% {note}" for note in (grid.title, *grid.notes)]
    return "\n".join(lines) + "\n"


def write_grid(grid: Grid, folder: Path) -> list[Path]:
    """Markdown, CSV and LaTeX."""
    made = {".md": markdown(grid), ".csv": as_csv(grid), ".tex": latex(grid)}
    for ending, text in made.items():
        write_text(folder / f"{grid.name}{ending}", text)
    return [folder / f"{grid.name}{ending}" for ending in made]


def spelled(value: Content) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
