"""What Table 5 found: the table, tests between rows, and learning curves."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from wordwave.experiments.grid import Content, Grid
from wordwave.experiments.long.bleu_bootstrap import paired_bootstrap
from wordwave.experiments.long.learning_curves import MINUTES, Panel, draw_curves
from wordwave.experiments.long.table5 import ROWS, Table5
from wordwave.experiments.significance import holm
from wordwave.experiments.store import Record

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
OF_THE_PAPER = (
    "The paper's figures are of models of full size and compare only in their order; those of AED "
    "(with BPE) and of the Transformer it took from others."
)
WAVES = ("complex-order", "complex-order, chosen")
COLUMNS = ("row", "parameters", "updates", "seeds", "BLEU", "95%", "first release", "cased", "chrF")


def table5_grids(table: Table5) -> list[Grid]:
    """The table, and the rows with waves against every other one."""
    records = table.records()
    in_order = sorted(records, key=lambda r: int(r["seed"]))
    seconds = table.known_step_seconds()
    is_papers = table.data == "multi30k"
    own = {row: [r for r in in_order if r["row"] == row] for row in table.rows}
    notes = [
        f"Test part of {table.data}, beam 5. BLEU: small letters, tokenised; 95%: bootstrap over "
        "sentences, of the first seed. First release: the same against the German sentences as "
        "they first came out. Models learn from small letters; cased BLEU and chrF are of "
        "translations with capitals put back by how words were spelled in training. Core minutes: "
        "updates times the CPU seconds of a step, all rows measured in turns.",
        *([OF_THE_PAPER] if is_papers else []),
        *sorted({s for r in records for s in _signatures(r["test"])}),
    ]
    whole = Grid(
        "table5",
        "Table 5. Translation at equal parameters and updates",
        [*COLUMNS, MINUTES, *(["paper"] if is_papers else [])],
        [
            [*_cells(row, same, seconds.get(row)), *([_published(row)] if is_papers else [])]
            for row, same in own.items()
            if same
        ],
        notes,
        only_in_files=frozenset({"updates", "seeds", "first release", "cased", MINUTES}),
    )
    tests = _against({r["row"]: r["bleu_counts"] for r in records if r["seed"] == 0})
    return [whole, tests] if tests.rows else [whole]


def _cells(row: str, same: list[Record], step_seconds: float | None) -> list[Content]:
    test = [r["test"] for r in same]
    low, high = test[0]["tokenised_bleu"]["interval"]
    return [
        row,
        same[0]["parameters"],
        same[0]["steps"],
        len(same),
        _mean(test, "tokenised_bleu"),
        f"{low:.2f} to {high:.2f}",
        _mean([r.get("test_first_release") for r in same], "tokenised_bleu"),
        _mean(test, "bleu"),
        _mean(test, "chrf"),
        None if step_seconds is None else f"{same[0]['steps'] * step_seconds / 60:.0f}",
    ]


def _published(row: str) -> str | None:
    return f"{PUBLISHED[row]:.1f}" if row in PUBLISHED else None


def _mean(scores: list[dict[str, Any] | None], name: str) -> str | None:
    values = [s[name]["value"] for s in scores if s]
    return f"{fmean(values):.2f}" if values else None


def _signatures(test: dict[str, Any]) -> list[str]:
    names = {"bleu": "Cased BLEU", "tokenised_bleu": "BLEU", "chrf": "chrF"}
    return [f"{title}: {test[name]['signature']}" for name, title in names.items()]


def _against(counts: dict[str, Any]) -> Grid:
    """Each row with waves against every other row: paired bootstrap over the test sentences."""
    rows: list[list[Content]] = []
    for ours in (row for row in WAVES if row in counts):
        before = WAVES[: WAVES.index(ours) + 1]
        rivals = [row for row in counts if row not in before]
        gaps = {row: paired_bootstrap(counts[ours], counts[row]) for row in rivals}
        p = holm({row: gap.p for row, gap in gaps.items()})
        for row, gap in gaps.items():
            low, high = gap.interval
            between = f"{low:+.2f} to {high:+.2f}"
            rows.append([ours, row, f"{gap.difference:+.2f}", between, f"{p[row]:.2g}"])
    return Grid(
        "table5-tests",
        "Rows with waves against each other row",
        ["row", "against", "BLEU", "95%", "p"],
        rows,
        [
            "Small letters, tokenised, seed 0; paired bootstrap over sentences, Holm over the "
            "rows that one is held against. It knows nothing of what another seed would have done."
        ],
    )


def draw_table5(table: Table5) -> list[Path]:
    """Dev likelihood over updates and over minutes, and dev BLEU over updates."""
    likelihood = "dev: −log-probability of a piece"
    panels = [
        Panel(lambda point: -point["dev_likelihood"], likelihood),
        Panel(lambda point: -point["dev_likelihood"], likelihood, table.known_step_seconds()),
        Panel(lambda point: point["dev_bleu"], "dev: greedy BLEU, small letters"),
    ]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table5")
