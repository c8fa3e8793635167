"""Tables 2 and 3 of the paper: accuracy of every encoder and embedding, ours beside its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from experiments import paper
from experiments.anchors import ANCHORS, TITLES
from experiments.cells import DATASETS, SENTENCES, TABLE4, WAVES
from experiments.protocol import Protocol
from experiments.statistics import (
    FEWEST_PAIRS,
    FEWEST_PAIRS_OF_FOUR,
    MARKS,
    McNemar,
    Paired,
    Row,
    Summary,
    compared,
    interval,
    is_better,
    mcnemar,
    named,
    terms_of,
)
from wordwave.models.config import EMBEDDINGS, ENCODERS, goes_with
from wordwave.plotting import COLOURS, canvas, saved, tidy
from wordwave.tables import Content, Figure, Grid


def table2(summary: Summary, protocol: Protocol) -> Grid:
    """Every row that has a run; the best of the paper's five under each encoder is bold."""
    columns = columns_of(summary)
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        own = [row for row in _rows_of(encoder) if row in summary.rows]
        if own:
            rows.append([encoder])
            rows += [[_label(row), *(_figure(summary, row, d) for d in columns)] for row in own]
    anchors: list[Row] = [(name, "none", "paper") for name in ANCHORS]
    anchors = [row for row in anchors if row in summary.rows]
    if anchors:
        rows.append(["anchors"])
        rows += [[TITLES[r[0]], *(_figure(summary, r, d) for d in columns)] for r in anchors]
    return Grid(
        named("table2", protocol),
        "Table 2. Test accuracy" + (", quick version" if protocol.budget == "quick" else ""),
        ["", *columns],
        rows,
        [*notes_on(protocol), *_coverage(summary, columns)],
    )


def table3(summary: Summary, protocol: Protocol) -> Grid:
    """What others reported on the same sets, and our best complex-order beside it."""
    columns = list(DATASETS)
    known = paper.accuracies("table3")
    rows: list[list[Content]] = [["reported by others, from the paper's Table 3"]]
    for model in dict.fromkeys(model for model, _, _ in known):
        rows.append([model, *(known.get((model, "", d)) for d in columns)])
    rows.append(["complex-order"])
    for encoder in ENCODERS:
        row = (encoder, WAVES, "paper")
        if row in summary.rows:
            rows.append([f"{encoder}, ours", *(_column_figure(summary, row, d) for d in columns)])
    notes = [
        "Others trained on other splits and more text; their figures are context, not rivals.",
        *notes_on(protocol),
    ]
    return Grid(named("table3", protocol), "Table 3. Context", ["", *columns], rows, notes)


def columns_of(summary: Summary) -> list[str]:
    """The paper's data sets; SST-2 from sentences only where more than Table 4 was run on it."""
    on_sentences = {row for row, dataset in summary.runs if dataset == SENTENCES}
    of_table4 = {("transformer", *row) for row in TABLE4}
    is_alone = summary.datasets == [SENTENCES]
    extra = [SENTENCES] if is_alone or on_sentences - of_table4 else []
    wanted = [d for d in DATASETS if d != "sst2" or d in summary.datasets or not extra]
    place = wanted.index("sst2") + 1 if "sst2" in wanted else len(wanted) - 1
    return [*wanted[:place], *extra, *wanted[place:]]


def judged_columns(summary: Summary) -> list[str]:
    """As `columns_of`, but SST-2 once: from its phrases where there are runs of them."""
    columns = columns_of(summary)
    return [d for d in columns if d != SENTENCES] if "sst2" in columns else columns


def against_rivals(summary: Summary, encoder: str, dataset: str) -> dict[str, Paired]:
    """complex-order against the paper's four others on the same folds and seeds."""
    rivals = {kind: summary.scores((encoder, kind, "paper"), dataset) for kind in MARKS}
    return compared(summary.scores((encoder, WAVES, "paper"), dataset), rivals)


def mcnemar_of_rivals(summary: Summary, encoder: str, dataset: str) -> dict[str, McNemar]:
    """complex-order against the same four, over the examples they answer differently."""
    rivals = {kind: summary.answers((encoder, kind, "paper"), dataset) for kind in MARKS}
    return mcnemar(summary.answers((encoder, WAVES, "paper"), dataset), rivals)


def notes_on(protocol: Protocol) -> list[str]:
    """What a reader must know to trust the figures."""
    return [
        "Mean over folds × seeds; in brackets or after a slash, the paper's figure. Files add the "
        "95% interval from three runs on.",
        "§ † ‡ ∗: complex-order is significantly better than none, pe, tpe, complex-vanilla "
        "(two-sided Wilcoxon signed-rank over folds × seeds, Holm over the four, p < 0.05); it "
        f"takes {FEWEST_PAIRS} pairs for a test, {FEWEST_PAIRS_OF_FOUR} for four.",
        *terms_of(protocol),
    ]


def comparisons_of_table2(summary: Summary, protocol: Protocol) -> Grid:
    """Every comparison of complex-order with another row on the same folds and seeds."""
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        for dataset in columns_of(summary):
            tests = mcnemar_of_rivals(summary, encoder, dataset)
            for rival, found in against_rivals(summary, encoder, dataset).items():
                p = None if found.p is None else f"{found.p:.2g}"
                effect = None if found.effect is None else f"{found.effect:+.2f}"
                gain = f"{found.difference:+.4f}"
                line: list[Content] = [f"{encoder} on {dataset}", rival, found.n, gain, p, effect]
                own = tests.get(rival)
                by_example = (own.n, own.won, own.lost, f"{own.p:.2g}") if own else (None,) * 4
                rows.append([*line, *by_example])
    return Grid(
        named("table2-tests", protocol),
        "Complex-order against each rival",
        [
            *("cell", "rival", "pairs", "difference", "p", "effect"),
            *("examples", "only ours", "only theirs", "p of examples"),
        ],
        rows,
        [
            "p: two-sided Wilcoxon signed-rank, Holm over the four rivals of a cell; effect: "
            "rank-biserial correlation of the pairs.",
            "p of examples: of those that only one of two models answers right (McNemar's exact "
            "test, Holm over the rivals there), from one run a fold of each, the first whose "
            "answers all have kept; it knows nothing of what other seeds would have learnt.",
        ],
    )


def _coverage(summary: Summary, columns: list[str]) -> list[str]:
    """How many runs stand behind each column."""
    found = []
    for dataset in columns:
        counts = {len(runs) for (_, d), runs in summary.runs.items() if d == dataset}
        if counts:
            low, high = min(counts), max(counts)
            found.append(f"{dataset} {low}" if low == high else f"{dataset} {low} to {high}")
    return ["Runs a row: " + ", ".join(found) + "."] if found else ["No run yet."]


def _rows_of(encoder: str) -> Iterator[Row]:
    kinds = [k for k in EMBEDDINGS if goes_with(k, encoder)]
    yield from ((encoder, kind, "paper") for kind in kinds)
    yield from ((encoder, kind, "matched") for kind in kinds)


def _label(row: Row) -> str:
    return row[1] if row[2] == "paper" else f"{row[1]}, as many parameters"


def _column_figure(summary: Summary, row: Row, dataset: str) -> Figure | None:
    """SST-2 from sentences stands in where there is no run on its phrases; none is best here."""
    found = _figure(summary, row, dataset)
    found = found or (_figure(summary, row, SENTENCES) if dataset == "sst2" else None)
    return found and replace(found, is_best=False)


def _figure(summary: Summary, row: Row, dataset: str) -> Figure | None:
    values = list(summary.scores(row, dataset).values())
    mean = summary.mean(row, dataset)
    if mean is None:
        return None
    encoder, embedding, variant = row
    marks = ""
    if (embedding, variant) == (WAVES, "paper"):
        results = against_rivals(summary, encoder, dataset)
        marks = "".join(
            MARKS[kind] for kind in MARKS if kind in results and is_better(results[kind])
        )
    return Figure(
        mean,
        interval(values),
        len(values),
        marks,
        paper.accuracy(*row, dataset),
        is_best=row in _best_rows(summary, encoder, dataset),
    )


def _best_rows(summary: Summary, encoder: str, dataset: str) -> list[Row]:
    """The best of the paper's five, over the folds and seeds that all of them have."""
    kinds = (*MARKS, WAVES) if encoder in ENCODERS else ()
    five: list[Row] = [(encoder, kind, "paper") for kind in kinds]
    there = [row for row in five if summary.scores(row, dataset)]
    means = summary.common_means(there, dataset) or []
    return [row for row, mean in zip(there, means, strict=False) if mean == max(means)]


RIVALS = ("none", "pe", "tpe")


def gains(summary: Summary) -> dict[tuple[str, str], tuple[float, float]]:
    """Points of accuracy over the mean of the real embeddings, ours and the paper's, by encoder
    and data set; only folds and seeds that all four have count."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for encoder in ENCODERS:
        for dataset in judged_columns(summary):
            rows: list[Row] = [(encoder, kind, "paper") for kind in (WAVES, *RIVALS)]
            ours = summary.common_means(rows, dataset)
            printed = [paper.accuracy(*row, dataset) for row in rows]
            if ours is not None:
                known = [value for value in printed if value is not None]
                found[encoder, dataset] = _gain(ours), _gain(known)
    return found


def _gain(values: list[float]) -> float:
    waves, *rivals = values
    return 100 * (waves - fmean(rivals))


def draw_gains(summary: Summary, path: Path, *, note: str = "") -> list[Path]:
    """A line of each data set, an encoder a panel: a dot for us, a ring for the paper.

    Args:
        note: what else the title should say.
    """
    found = gains(summary)
    encoders = [e for e in ENCODERS if any(place[0] == e for place in found)]
    datasets = [d for d in judged_columns(summary) if any(place[1] == d for place in found)]
    figure = canvas(max(2.5 * len(encoders) + 1, 7.5), 0.34 * len(datasets) + 1.7)
    panels = figure.subplots(1, len(encoders), squeeze=False, sharex=True, sharey=True)[0]
    for encoder, axes in zip(encoders, panels, strict=True):
        axes.axvline(0, color="#777777", lw=1)
        for line, dataset in enumerate(datasets):
            if (encoder, dataset) in found:
                ours, printed = found[encoder, dataset]
                axes.plot([ours, printed], [line, line], color="#d5d5d5", lw=1.4, zorder=1)
                ring = {"mfc": "white", "mec": COLOURS[1], "mew": 1.6, "ms": 7}
                axes.plot(printed, line, "o", label="the paper", **ring)
                axes.plot(ours, line, "o", color=COLOURS[0], ms=7, label="here, test seen once")
        axes.set_title(encoder)
        axes.set_yticks(range(len(datasets)), datasets)
        tidy(axes, "both")
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=2, frameon=False)
    title = "Points of accuracy that complex-order adds to the mean of none, pe and tpe"
    counts = sorted({len(summary.scores((e, WAVES, "paper"), d)) for e, d in found})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    figure.suptitle(f"{title}\n{runs} runs a row{note and f'; {note}'}", fontsize=11)
    return saved(figure, path)
