"""Tables of results, shown in a terminal or written as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wordwave.files import write_text

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = str.maketrans({
    "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "{": r"\{", "}": r"\}", "$": r"\$",
    "\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "§": r"\S{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "∗": "$^{*}$", "δ": r"$\delta$", "Δ": r"$\Delta$",
    "×": r"$\times$", "−": "$-$", "≥": r"$\geq$", "·": r"$\cdot$", "ω": r"$\omega$",
    "θ": r"$\theta$", "✓": r"$\checkmark$", "…": r"\ldots{}", "“": "``", "”": "''",
})  # fmt: skip


@dataclass(frozen=True)
class Score:
    """A mean with its uncertainty, beside the figure that the paper reports."""

    mean: float
    half: float | None = None
    """Half of the 95% interval, or the standard deviation: what follows ±."""
    n: int = 1
    marks: str = ""
    paper: float | None = None
    is_best: bool = False

    def short(self, digits: int = 3) -> str:
        paper = "" if self.paper is None else f"\n({self.paper:.3f})"
        return f"{self.mean:.{digits}f}{self.marks}{paper}"

    def long(self, digits: int = 3) -> str:
        spread = "" if self.half is None else f" ± {self.half:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}{self.marks and ' ' + self.marks}"


Content = str | int | float | Score | None


@dataclass(frozen=True)
class ResultTable:
    """Rows under columns; a row of a single text is the heading of the rows that follow."""

    name: str
    """Of the files, without a suffix."""
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Content]]
    notes: Sequence[str] = ()
    """Lines below the table."""
    intro: str = ""
    """A paragraph above the table, in Markdown."""
    only_in_files: frozenset[str] = frozenset()
    """Columns that a terminal has no room for."""
    texts: frozenset[str] = frozenset()
    """Columns of text, which are aligned to the left as the first one is."""
    digits: int = 3
    """Digits after the decimal point."""

    def to_rich(self) -> Table:
        """For a terminal: the paper's figures below ours, in brackets."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        def cell(value: Content) -> Text:
            if isinstance(value, Score):
                return Text(value.short(self.digits), style="bold" if value.is_best else "")
            return Text(self._format(value))

        shown = Table(
            title=Text(self.title),
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption=Text("\n".join(self.notes)),
            caption_justify="left",
        )
        kept = [i for i, name in enumerate(self.columns) if name not in self.only_in_files]
        for i in kept:
            is_text = i == 0 or self.columns[i] in self.texts
            header = self.columns[i].replace("complex-", "complex-\n")
            shown.add_column(header, justify="left" if is_text else "right")
        for row in self.rows:
            if len(row) == 1:
                shown.add_section()
                shown.add_row(Text(str(row[0]), style="bold"))
                continue
            shown.add_row(*(cell(row[i]) for i in kept))
        return shown

    def to_markdown(self) -> str:
        """Our figures, and the paper's after a slash."""

        def cell(value: Content) -> str:
            if not isinstance(value, Score):
                return self._format(value).replace("|", "\\|")
            ours = value.long(self.digits)
            ours = f"**{ours}**" if value.is_best else ours
            return ours if value.paper is None else f"{ours} / {value.paper:.3f}"

        lines = [f"## {self.title}", "", *([self.intro, ""] if self.intro else [])]
        lines += ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        for row in self.rows:
            if len(row) == 1:
                row = [f"**{row[0]}**", *[""] * (len(self.columns) - 1)]
            lines.append("| " + " | ".join(map(cell, row)) + " |")
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def to_csv(self) -> str:
        """Each number in a column of its own: a score takes five."""
        wide = {i for row in self.rows for i, value in enumerate(row) if isinstance(value, Score)}
        names = ["group"]
        for i, name in enumerate(self.columns):
            ends = ("", " ±", " n", " marks", " paper") if i in wide else ("",)
            names += [name + end for end in ends]
        lines: list[Sequence[object]] = [names]
        group = ""
        for row in self.rows:
            if len(row) == 1:
                group = str(row[0])
                continue
            line: list[object] = [group]
            for i, value in enumerate(row):
                if isinstance(value, Score):
                    line += [value.mean, value.half, value.n, value.marks, value.paper]
                else:
                    line += [value, *[None] * 4] if i in wide else [value]
            lines.append(line)
        return _csv(lines)

    def to_latex(self) -> str:
        """A tabular for the package booktabs."""

        def cell(value: Content) -> str:
            if not isinstance(value, Score):
                return self._format(value).translate(_LATEX)
            ours = value.long(self.digits).translate(_LATEX)
            ours = rf"\textbf{{{ours}}}" if value.is_best else ours
            return ours if value.paper is None else f"{ours} ({value.paper:.3f})"

        # Text fills the rest of a line; numbers are aligned to the right.
        kinds = [r"p{0.7\linewidth}" if name in self.texts else "r" for name in self.columns[1:]]
        lines = [rf"\begin{{tabular}}{{l{''.join(kinds)}}}", r"\toprule"]
        lines += [" & ".join(map(cell, self.columns)) + r" \\", r"\midrule"]
        for i, row in enumerate(self.rows):
            if len(row) == 1:
                heading = rf"\multicolumn{{{len(self.columns)}}}{{l}}{{{cell(row[0])}}} \\"
                lines += [r"\midrule", heading] if i else [heading]
            else:
                lines.append(" & ".join(map(cell, row)) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [f"% {note}" for note in (self.title, *self.notes)]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Markdown, CSV and LaTeX."""
        made = {".md": self.to_markdown(), ".csv": self.to_csv(), ".tex": self.to_latex()}
        for suffix, text in made.items():
            write_text(folder / f"{self.name}{suffix}", text)
        return [folder / f"{self.name}{suffix}" for suffix in made]

    def _format(self, value: str | int | float | None) -> str:
        if value is None:
            return ""
        if isinstance(value, float):
            return f"{value:.{self.digits}f}"
        return f"{value:,}" if isinstance(value, int) else value


def rows_to_csv(rows: Sequence[Mapping[str, object]], *, end: str = "\n") -> str:
    """Rows of the same fields as CSV; `end` ends a line."""
    return _csv([list(rows[0]), *(list(row.values()) for row in rows)], end)


def _csv(lines: Sequence[Sequence[object]], end: str = "\n") -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows(lines)
    return text.getvalue()
