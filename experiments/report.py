"""REPORT.md: what holds of the paper, with the tables as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from experiments import claims, paper
from experiments import claims as claims_on_waves
from experiments.cells import WAVES
from experiments.epoch_timing import fig5_table
from experiments.protocol import Protocol
from experiments.sensitive_words import table7
from experiments.statistics import Summary, terms_of
from experiments.table2 import comparisons_of_table2, judged_columns, table2, table3
from experiments.table4 import table4
from wordwave.grid import Record
from wordwave.models.config import ENCODERS, PAPER_EMBEDDINGS
from wordwave.tables import Content, Grid, markdown


def report(
    summary: Summary,
    protocol: Protocol,
    words: Sequence[Record],
    timing: Record | None,
    picture: str | None = None,
) -> str:
    """The whole page, a function of the records alone.

    Args:
        picture: where that of Table 2 is, as seen from the page.
    """
    found = [
        claims.beats_all(summary),
        claims.reaches_the_paper(summary),
        claims.beats_equal_size(summary),
        claims.beats_later_encodings(summary),
        claims.transformer_gains_most(summary),
        claims.cnn_is_best(summary),
        claims.beats_anchors(summary),
        claims_on_waves.sharing_costs_little(summary),
        claims_on_waves.sentiment_is_sensitive(words),
        claims_on_waves.cost_is_negligible(timing),
    ]
    flags = " --quick" if protocol.budget == "quick" else ""
    flags += "" if protocol.search is None else protocol.search.flags()
    lines = [
        "# What holds of the paper" + (": QUICK" if protocol.budget == "quick" else ""),
        "",
        f"Made by `wordwave reproduce report{flags}` from the records in reproduce/; the rules are "
        "in docs/protocol.md. The test part of a fold is scored once, by what dev selected.",
        "",
        f"Measured so far: {len(claims.places(summary))} of 24 cells of complex-order; a verdict "
        "is about those. *Holds*: in every cell; *in part*: in most.",
        "",
        *(f"{note}\n" for note in terms_of(protocol)),
        "| Claim | Verdict |",
        "|---|---|",
        *(f"| {c.says} | **{c.verdict}**{c.basis and f' ({c.basis})'} |" for c in found),
        "",
        *([f"![What complex-order adds, here and in the paper]({picture})", ""] if picture else []),
        "## Evidence",
    ]
    for claim in found:
        lines += ["", f"**{claim.says}** {claim.verdict.capitalize()}."]
        lines += ["", *(f"- {line}" for line in claim.evidence)] if claim.evidence else []
    tables = [
        side_by_side(summary),
        over_the_paper(summary),
        table2(summary, protocol),
        table3(summary, protocol),
    ]
    tables += [table4(summary, protocol), comparisons_of_table2(summary, protocol)]
    tables += [table7(words, protocol)] if words else []
    tables += [fig5_table(timing, protocol)] if timing is not None else []
    tables += [settings_chosen(protocol)] if protocol.chosen else []
    return "\n".join(lines) + "\n\n" + "\n".join(map(markdown, tables))


def side_by_side(summary: Summary) -> Grid:
    """Every cell of complex-order beside the paper's."""
    rows: list[list[Content]] = []
    for encoder, dataset in claims.places(summary):
        values = summary.scores((encoder, WAVES, "paper"), dataset)
        mean = summary.mean((encoder, WAVES, "paper"), dataset)
        printed = paper.accuracy(encoder, WAVES, "paper", dataset)
        if mean is not None and printed is not None:
            gap = f"{mean - printed:+.3f}"
            rows.append([encoder, dataset, mean, printed, gap, len(values)])
    columns = ["encoder", "data set", "ours", "paper's", "difference", "runs"]
    return Grid("complex-order", "Complex-order, cell by cell", columns, rows)


def over_the_paper(summary: Summary) -> Grid:
    """How many points our rows are above the paper's, mean over data sets."""
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        line: list[Content] = [encoder]
        for kind in PAPER_EMBEDDINGS:
            row = (encoder, kind, "paper")
            columns = judged_columns(summary)
            pairs = [(summary.mean(row, d), paper.accuracy(*row, d)) for d in columns]
            above = [ours - printed for ours, printed in pairs if ours is not None and printed]
            line.append(f"{100 * fmean(above):+.1f}" if above else None)
        rows.append(line)
    return Grid(
        "over-the-paper",
        "Ours above the paper's, in points",
        ["", *PAPER_EMBEDDINGS],
        rows,
        [
            "Mean over the data sets that a row has. Where baselines are far above the paper's and "
            "complex-order is not, the paper's gain is over baselines that were not at their best."
        ],
    )


def settings_chosen(protocol: Protocol) -> Grid:
    """What the searches chose for each encoder and embedding."""
    rows: list[list[Content]] = []
    for (dataset, encoder, embedding), parts in protocol.chosen.items():
        values = {name: value for part in parts.values() for name, value in part.items()}
        told = ", ".join(f"{name} {value}" for name, value in values.items())
        rows.append([encoder, embedding, dataset, told])
    columns = ["encoder", "embedding", "searched on", "settings"]
    return Grid("settings", "Settings that the searches chose", columns, rows)
