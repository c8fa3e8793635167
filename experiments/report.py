"""What `python -m experiments` shows and writes, from records alone; and results/REPORT.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from experiments import claims, paper
from experiments.cells import COMPLEX_ORDER
from experiments.protocol import Protocol
from experiments.sensitive_words import table7
from experiments.settings_search import with_best_settings
from experiments.summary import Summary, belongs_to, file_name, protocol_notes
from experiments.table2 import compared_datasets, significance_table, table2, table3
from experiments.table4 import table4
from experiments.timing import fig5_table, find_timing
from wordwave.embedding.config import PAPER_EMBEDDINGS
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.grid import Record, Store
from wordwave.models.config import ENCODERS
from wordwave.tables import Content, ResultTable

N_CELLS = 24
"""Encoders × data sets of the paper's Table 2."""


@dataclass(frozen=True)
class Results:
    """The records that belong to a protocol."""

    protocol: Protocol
    summary: Summary
    words: Sequence[Record] = ()
    """δ of all words, one record per encoder."""
    timing: Record | None = None

    @classmethod
    def read(cls, protocol: Protocol, store: Store, words: Store) -> Results:
        """The results in two stores, under the hyperparameters that searches selected."""
        protocol, records = with_best_settings(protocol, store), store.records()
        return cls(
            protocol,
            Summary.of(records, protocol),
            words_records(words.records(), protocol),
            find_timing(records, protocol),
        )

    def check(self, target: str, store: Path, words: Path) -> None:
        """Raise if there is nothing to show for a target."""
        if target in ("table2", "table3", "table4", "report") and not self.summary.runs:
            raise WordwaveError(
                f"'{store}' has no run with these settings: give the --search flags of its runs, "
                "or train with python -m experiments table2"
            )
        if target in ("table7", "fig1", "fig6") and not self.words:
            raise WordwaveError(f"'{words}' has no such training; run without --report-only")
        if target == "fig5" and self.timing is None:
            raise WordwaveError(f"'{store}' has no measurement; run without --report-only")

    def tables(self, target: str) -> list[ResultTable]:
        """The tables of a target; none for a figure alone."""
        if target == "table2":
            return [
                table2(self.summary, self.protocol),
                significance_table(self.summary, self.protocol),
            ]
        if target in ("table3", "table4"):
            make = table3 if target == "table3" else table4
            return [make(self.summary, self.protocol)]
        if target == "table7":
            return [table7(self.words, self.protocol)]
        if target == "fig5" and self.timing is not None:
            return [fig5_table(self.timing, self.protocol)]
        return []

    def draw(self, target: str, folder: Path) -> list[Path]:
        """The picture of a figure, as files; none for a table."""
        from experiments.figures import draw_fig1, draw_fig5, draw_fig6

        path = folder / file_name(target, self.protocol)
        if target == "fig1":
            cnn = [record for record in self.words if record["encoder"] == "cnn"]
            return draw_fig1((cnn or self.words)[0], path)
        if target == "fig5" and self.timing is not None:
            return draw_fig5(self.timing, path)
        return draw_fig6(self.words, path) if target == "fig6" else []

    def write_report(self, path: Path, folder: Path) -> list[Path]:
        """REPORT.md, with Table 2's gains as a picture in a folder beside it."""
        from experiments.table2 import draw_gains, gains

        drawn: list[Path] = []
        if gains(self.summary):
            note = "QUICK" if self.protocol.budget == "quick" else ""
            name = file_name("gains", self.protocol)
            drawn = draw_gains(self.summary, folder / name, note=note)
        picture = drawn[0].relative_to(path.parent).as_posix() if drawn else None
        write_text(path, report(self, picture))
        return [path, *drawn]


def words_records(records: Sequence[Record], protocol: Protocol) -> list[Record]:
    """The record of each encoder with seed 0, on SST-2's phrases where there are any."""
    own = [r for r in records if r["seed"] == 0 and belongs_to(protocol, r)]
    phrases = [r for r in own if r["dataset"] == "sst2"]
    return list({r["encoder"]: r for r in phrases or own}.values())


def report(results: Results, picture: str | None = None) -> str:
    """The whole page.

    Args:
        picture: the path of that of Table 2, relative to the page.
    """
    summary, protocol = results.summary, results.protocol
    found = [
        claims.beats_all(summary),
        claims.reaches_the_paper(summary),
        claims.beats_equal_size(summary),
        claims.beats_later_encodings(summary),
        claims.transformer_gains_most(summary),
        claims.cnn_is_best(summary),
        claims.beats_anchors(summary),
        claims.sharing_costs_little(summary),
        claims.sentiment_is_sensitive(results.words),
        claims.cost_is_negligible(results.timing),
    ]
    flags = " --quick" if protocol.budget == "quick" else ""
    flags += " --protocol-version first" if protocol.version == "first" else ""
    flags += "" if protocol.search is None else protocol.search.flags()
    n = len(claims.measured_cells(summary))
    lines = [
        "# Which claims of the paper hold" + (": QUICK" if protocol.budget == "quick" else ""),
        "",
        f"Made by `python -m experiments report{flags}` from the records in reproduce/; the rules "
        "are in docs/protocol.md. The test set of a fold is evaluated once, by the model that the "
        "validation set selects.",
        "",
        f"Measured so far: {n} of {N_CELLS} cells of complex-order; a verdict is about those. "
        "*Holds*: in every cell; *in part*: in most.",
        "",
        *(f"{note}\n" for note in protocol_notes(protocol)),
        "| Claim | Verdict |",
        "|---|---|",
        *(f"| {c.text} | **{c.verdict}**{c.basis and f' ({c.basis})'} |" for c in found),
        "",
        *([f"![What complex-order adds, here and in the paper]({picture})", ""] if picture else []),
        "## Evidence",
    ]
    for claim in found:
        lines += ["", f"**{claim.text}** {claim.verdict.capitalize()}."]
        lines += ["", *(f"- {line}" for line in claim.evidence)] if claim.evidence else []
    table_2, significance = results.tables("table2")
    tables = [side_by_side(summary), over_the_paper(summary), table_2]
    tables += [*results.tables("table3"), *results.tables("table4"), significance]
    tables += results.tables("table7") if results.words else []
    tables += results.tables("fig5")
    tables += [selected_settings(protocol)] if protocol.best_settings else []
    return "\n".join(lines) + "\n\n" + "\n".join(map(ResultTable.to_markdown, tables))


def side_by_side(summary: Summary) -> ResultTable:
    """Every cell of complex-order beside the paper's."""
    rows: list[list[Content]] = []
    for encoder, dataset in claims.measured_cells(summary):
        row = (encoder, COMPLEX_ORDER, "paper")
        mean, printed = summary.mean(row, dataset), paper.accuracy(*row, dataset)
        if mean is not None and printed is not None:
            n = len(summary.accuracies(row, dataset))
            rows.append([encoder, dataset, mean, printed, f"{mean - printed:+.3f}", n])
    columns = ["encoder", "data set", "ours", "paper's", "difference", "runs"]
    return ResultTable("complex-order", "Complex-order, cell by cell", columns, rows)


def over_the_paper(summary: Summary) -> ResultTable:
    """How many percentage points our rows are above the paper's, mean over data sets."""
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        line: list[Content] = [encoder]
        for kind in PAPER_EMBEDDINGS:
            row = (encoder, kind, "paper")
            columns = compared_datasets(summary)
            pairs = [(summary.mean(row, d), paper.accuracy(*row, d)) for d in columns]
            above = [ours - printed for ours, printed in pairs if ours is not None and printed]
            line.append(f"{100 * fmean(above):+.1f}" if above else None)
        rows.append(line)
    return ResultTable(
        "over-the-paper",
        "Ours above the paper's, in points",
        ["", *PAPER_EMBEDDINGS],
        rows,
        [
            "Mean over the data sets that a row has. Where baselines are far above the paper's and "
            "complex-order is not, the paper's gain is over baselines that were not at their best."
        ],
    )


def selected_settings(protocol: Protocol) -> ResultTable:
    """The hyperparameters that searches selected for each encoder and embedding."""
    rows: list[list[Content]] = []
    for (dataset, encoder, embedding), sections in protocol.best_settings.items():
        values = {name: value for section in sections.values() for name, value in section.items()}
        settings = ", ".join(f"{name} {value}" for name, value in values.items())
        rows.append([encoder, embedding, dataset, settings])
    columns = ["encoder", "embedding", "searched on", "hyperparameters"]
    return ResultTable("settings", "Hyperparameters that the searches selected", columns, rows)
