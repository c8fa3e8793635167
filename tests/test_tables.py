"""Tables as Markdown, CSV and LaTeX, and in a terminal."""

import csv
import io
import re

from rich.console import Console

from wordwave.cli import console as cli
from wordwave.tables import ResultTable, Score, rows_to_csv


def test_a_table_in_every_form(tmp_path):
    score = Score(0.8, 0.01, 10, "§", 0.79, is_best=True)
    table = ResultTable(
        "t", "A & B", ["row", "x"], [["group"], ["a|b", score], ["c", None]], ["50%"]
    )
    assert r"a\|b" in table.to_markdown() and "**0.800 ± 0.010 §** / 0.790" in table.to_markdown()
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert rows[0] == {
        "group": "group", "row": "a|b", "x": "0.8", "x ±": "0.01", "x n": "10", "x marks": "§",
        "x paper": "0.79",
    }  # fmt: skip
    assert r"\textbf{0.800 $\pm$ 0.010 \S{}} (0.790)" in table.to_latex()
    assert not re.search(r"[§†‡∗±δΔ]", table.to_latex().split("%")[0])
    formula = ResultTable(
        "t", "T", ["row", "x"], [["e^{i ω}", "50$ ~ a\\b"]], texts=frozenset({"x"})
    )
    assert r"e\^{}\{i $\omega$\} & 50\$ \~{} a\textbackslash{}b" in formula.to_latex()
    assert r"{lp{0.7\linewidth}}" in formula.to_latex()
    assert [p.suffix for p in table.write(tmp_path)] == [".md", ".csv", ".tex"]


def test_a_terminal_shows_fewer_columns_and_files_the_paragraph_above():
    score = Score(0.85, 0.0707, is_best=True)
    table = ResultTable(
        "t", "Title", ["row", "complex-order", "seeds"], [["a", score, 1234]], ["note"],
        intro="What it is.", only_in_files=frozenset({"seeds"}), digits=4,
    )  # fmt: skip
    assert table.to_markdown() == (
        "## Title\n\nWhat it is.\n\n| row | complex-order | seeds |\n|---|---|---|\n"
        "| a | **0.8500 ± 0.0707** | 1,234 |\n\n- note\n"
    )
    shown = io.StringIO()
    Console(file=shown, width=60).print(table.to_rich())
    assert "0.8500" in shown.getvalue() and "note" in shown.getvalue()
    assert not any(text in shown.getvalue() for text in ("±", "seeds", "1,234", "What it is"))


def test_rows_become_csv_with_their_fields_as_header():
    assert rows_to_csv([{"a": 1, "b": None}, {"a": "x,y", "b": 0.5}]) == 'a,b\n1,\n"x,y",0.5\n'


def test_control_characters_of_strangers_do_not_reach_the_terminal():
    label = "\x1b[2J\x1b]0;title\x07bad\x9b31m"
    table = ResultTable("name", label, ["class", label], [[label, 1], [label]], notes=[label])
    file = io.StringIO()
    console = cli.Console(file=file, force_terminal=True, width=80, color_system=None)
    console.print(table.to_rich())
    console.print(f"the class {label}\tx")
    shown = file.getvalue()
    assert "[2J]0;titlebad31m" in shown and shown.count("bad") == 6
    assert not [c for c in shown if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
