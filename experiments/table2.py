"""Tables 2 and 3 of the paper: accuracy of every encoder and embedding, ours beside the paper's.

Significance: `compare_with_baselines`, by the tests in `experiments.statistics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from experiments import paper
from experiments.anchors import ANCHORS, TITLES
from experiments.cells import COMPLEX_ORDER, DATASETS, SST2_SENTENCES, TABLE2_VARIANTS, TABLE4
from experiments.figures import save_png_and_svg
from experiments.protocol import Protocol
from experiments.statistics import (
    MIN_PAIRS,
    MIN_PAIRS_OF_FOUR,
    McNemar,
    PairedComparison,
    compare_all,
    confidence_interval,
    mcnemar,
)
from experiments.summary import Row, Summary, file_name, protocol_notes
from wordwave.embedding.config import COMPARED
from wordwave.models.config import ENCODERS, goes_with
from wordwave.plotting import COLOURS, new_figure, tidy
from wordwave.tables import Content, ResultTable, Score

MARKS = {"none": "§", "pe": "†", "tpe": "‡", "complex-vanilla": "∗"}
"""The paper's marks for a significant improvement over each baseline."""
REAL_BASELINES = ("none", "pe", "tpe")


def table2(summary: Summary, protocol: Protocol) -> ResultTable:
    """Every row that has a run; the best of the paper's five under each encoder is bold."""
    columns = table2_columns(summary)
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        own = [row for row in _rows_of(encoder) if any((row, d) in summary.runs for d in columns)]
        if own:
            rows.append([encoder])
            rows += [[_label(row), *(_accuracy(summary, row, d) for d in columns)] for row in own]
    anchors: list[Row] = [(name, "none", "paper") for name in ANCHORS]
    anchors = [row for row in anchors if row in summary.rows]
    if anchors:
        rows.append(["anchors"])
        rows += [[TITLES[r[0]], *(_accuracy(summary, r, d) for d in columns)] for r in anchors]
    return ResultTable(
        file_name("table2", protocol),
        "Table 2. Test accuracy" + (", quick version" if protocol.budget == "quick" else ""),
        ["", *columns],
        rows,
        [
            *table2_notes(protocol),
            *_unsearched(summary),
            *_runs_per_row(summary, columns),
            *_fewer_runs(summary, columns),
        ],
    )


def table3(summary: Summary, protocol: Protocol) -> ResultTable:
    """Accuracies that others reported on the same data sets, beside ours of complex-order."""
    columns = list(DATASETS)
    known = paper.accuracies("table3")
    rows: list[list[Content]] = [["reported by others, from the paper's Table 3"]]
    for model in dict.fromkeys(model for model, _, _ in known):
        rows.append([model, *(known.get((model, "", d)) for d in columns)])
    rows.append(["complex-order"])
    for encoder in ENCODERS:
        row = (encoder, COMPLEX_ORDER, "paper")
        if row in summary.rows:
            rows.append([f"{encoder}, ours", *(_any_sst2(summary, row, d) for d in columns)])
    notes = [
        "Others trained on other splits and more text; their accuracies are context, not "
        "baselines.",
        *table2_notes(protocol),
    ]
    return ResultTable(
        file_name("table3", protocol), "Table 3. Context", ["", *columns], rows, notes
    )


def table2_columns(summary: Summary) -> list[str]:
    """The paper's data sets, and SST-2 sentences where more than Table 4 was run on them."""
    on_sentences = {row for row, dataset in summary.runs if dataset == SST2_SENTENCES}
    of_table4 = {("transformer", *row) for row in TABLE4}
    is_alone = summary.datasets == [SST2_SENTENCES]
    extra = [SST2_SENTENCES] if is_alone or on_sentences - of_table4 else []
    wanted = [d for d in DATASETS if d != "sst2" or d in summary.datasets or not extra]
    at = wanted.index("sst2") + 1 if "sst2" in wanted else len(wanted) - 1
    return [*wanted[:at], *extra, *wanted[at:]]


def compared_datasets(summary: Summary) -> list[str]:
    """As `table2_columns`, but SST-2 once: its phrases where there are runs on them."""
    columns = table2_columns(summary)
    return [d for d in columns if d != SST2_SENTENCES] if "sst2" in columns else columns


def compare_with_baselines(
    summary: Summary, encoder: str, dataset: str
) -> dict[str, PairedComparison]:
    """complex-order against the paper's four others on the same folds and seeds (Wilcoxon)."""
    baselines = {kind: summary.accuracies((encoder, kind, "paper"), dataset) for kind in MARKS}
    return compare_all(summary.accuracies((encoder, COMPLEX_ORDER, "paper"), dataset), baselines)


def mcnemar_with_baselines(summary: Summary, encoder: str, dataset: str) -> dict[str, McNemar]:
    """complex-order against the same four on the test examples of one run each (McNemar)."""
    baselines = {kind: summary.correct((encoder, kind, "paper"), dataset) for kind in MARKS}
    return mcnemar(summary.correct((encoder, COMPLEX_ORDER, "paper"), dataset), baselines)


def table2_notes(protocol: Protocol) -> list[str]:
    """How to read the accuracies and the marks."""
    return [
        "Mean over folds × seeds; in brackets or after a slash, the paper's accuracy. Files add "
        "the 95% confidence interval where there are three runs or more.",
        "§ † ‡ ∗: complex-order is significantly better than none, pe, tpe, complex-vanilla "
        "(two-sided Wilcoxon signed-rank over folds × seeds, Holm over the four, p < 0.05); "
        f"one test needs at least {MIN_PAIRS} pairs, four tests {MIN_PAIRS_OF_FOUR}.",
        *protocol_notes(protocol),
    ]


def significance_table(summary: Summary, protocol: Protocol) -> ResultTable:
    """Every comparison of complex-order with a baseline on the same folds and seeds."""
    rows: list[list[Content]] = []
    for encoder in ENCODERS:
        for dataset in table2_columns(summary):
            tests = mcnemar_with_baselines(summary, encoder, dataset)
            for baseline, found in compare_with_baselines(summary, encoder, dataset).items():
                p = None if found.p is None else f"{found.p:.2g}"
                effect = None if found.effect is None else f"{found.effect:+.2f}"
                row: list[Content] = [f"{encoder} on {dataset}", baseline, found.n]
                row += [f"{found.difference:+.4f}", p, effect]
                own = tests.get(baseline)
                row += [own.n, own.won, own.lost, f"{own.p:.2g}"] if own else [None] * 4
                rows.append(row)
    return ResultTable(
        file_name("table2-tests", protocol),
        "complex-order against each baseline",
        [
            *("cell", "baseline", "pairs", "difference", "Wilcoxon p", "effect size"),
            *("examples", "only ours correct", "only baseline correct", "McNemar p"),
        ],
        rows,
        [
            "Wilcoxon p: two-sided signed-rank test over pairs, Holm over the four baselines of a "
            "cell; effect size: rank-biserial correlation of the pairs.",
            "McNemar p: exact test on the examples that only one of two models classifies "
            "correctly, Holm over the baselines there, from one run per fold of each, the first "
            "for which all have predictions; it does not include the variance between seeds.",
        ],
    )


def _unsearched(summary: Summary) -> list[str]:
    """What the test examples that searches were validated on change."""
    found = [
        r["unsearched_accuracy"] - r["test_accuracy"]
        for runs in summary.runs.values()
        for r in runs
        if "unsearched_accuracy" in r
    ]
    if not found:
        return []
    return [
        "Fold 0's validation set, on which hyperparameters were searched, lies in the test sets of "
        f"the other folds. Without these examples, their accuracies change by {fmean(found):+.4f} "
        f"on average ({len(found)} runs)."
    ]


def _runs_per_row(summary: Summary, columns: list[str]) -> list[str]:
    found = []
    for dataset in columns:
        counts = {len(runs) for (_, d), runs in summary.runs.items() if d == dataset}
        if counts:
            low, high = min(counts), max(counts)
            found.append(f"{dataset} {low}" if low == high else f"{dataset} {low} to {high}")
    return ["Runs per row: " + ", ".join(found) + "."] if found else ["No runs yet."]


def _fewer_runs(summary: Summary, columns: list[str]) -> list[str]:
    """Rows whose means are not of the same folds and seeds as complex-order's."""
    found = []
    for encoder in ENCODERS:
        for row in _rows_of(encoder):
            full = [summary.accuracies((encoder, COMPLEX_ORDER, "paper"), d) for d in columns]
            own = [summary.accuracies(row, d) for d in columns]
            if any(own) and any(o.keys() < f.keys() for o, f in zip(own, full, strict=True)):
                found.append(f"{encoder} {_label(row)}")
    if not found:
        return []
    return [
        "Fewer runs than complex-order, so that means are not of the same folds and seeds: "
        + ", ".join(found)
        + "."
    ]


def _rows_of(encoder: str) -> Iterator[Row]:
    kinds = [k for k in COMPARED if goes_with(k, encoder)]
    yield from ((encoder, kind, "paper") for kind in kinds)
    yield from ((encoder, kind, "matched") for kind in kinds)
    yield from (row for row in TABLE2_VARIANTS if row[0] == encoder)


def _label(row: Row) -> str:
    if row[2] == "paper":
        return row[1]
    variant = "parameter-matched" if row[2] == "matched" else row[2].replace("-", " ")
    return f"{row[1]}, {variant}"


def _any_sst2(summary: Summary, row: Row, dataset: str) -> Score | None:
    """SST-2 sentences stand in where there is no run on its phrases; nothing is bold here."""
    found = _accuracy(summary, row, dataset)
    found = found or (_accuracy(summary, row, SST2_SENTENCES) if dataset == "sst2" else None)
    return found and replace(found, is_best=False)


def _accuracy(summary: Summary, row: Row, dataset: str) -> Score | None:
    values = list(summary.accuracies(row, dataset).values())
    mean = summary.mean(row, dataset)
    if mean is None:
        return None
    encoder, embedding, variant = row
    marks = ""
    if (embedding, variant) == (COMPLEX_ORDER, "paper"):
        results = compare_with_baselines(summary, encoder, dataset)
        marks = "".join(
            mark for kind, mark in MARKS.items() if kind in results and results[kind].is_better
        )
    return Score(
        mean,
        confidence_interval(values),
        len(values),
        marks,
        paper.accuracy(*row, dataset),
        is_best=row in _best_rows(summary, encoder, dataset),
    )


def _best_rows(summary: Summary, encoder: str, dataset: str) -> list[Row]:
    """The best of the paper's five, over the folds and seeds that all of them have."""
    kinds = (*MARKS, COMPLEX_ORDER) if encoder in ENCODERS else ()
    five: list[Row] = [(encoder, kind, "paper") for kind in kinds]
    there = [row for row in five if summary.accuracies(row, dataset)]
    means = summary.common_means(there, dataset) or []
    return [row for row, mean in zip(there, means, strict=False) if mean == max(means)]


def gains(summary: Summary) -> dict[tuple[str, str], tuple[float, float]]:
    """Percentage points over the mean of the real embeddings, ours and the paper's, by encoder and
    data set, over the folds and seeds that all four have."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for encoder in ENCODERS:
        for dataset in compared_datasets(summary):
            rows: list[Row] = [(encoder, k, "paper") for k in (COMPLEX_ORDER, *REAL_BASELINES)]
            ours = summary.common_means(rows, dataset)
            printed = [paper.accuracy(*row, dataset) for row in rows]
            if ours is not None:
                known = [value for value in printed if value is not None]
                found[encoder, dataset] = _gain(ours), _gain(known)
    return found


def _gain(values: list[float]) -> float:
    waves, *baselines = values
    return 100 * (waves - fmean(baselines))


def draw_gains(summary: Summary, path: Path, *, note: str = "") -> list[Path]:
    """One panel per encoder, one line per data set: a dot for ours, a ring for the paper's gain.

    Args:
        note: is added to the title.
    """
    found = gains(summary)
    encoders = [e for e in ENCODERS if any(e == encoder for encoder, _ in found)]
    datasets = [d for d in compared_datasets(summary) if any(d == dataset for _, dataset in found)]
    figure = new_figure(max(2.5 * len(encoders) + 1, 7.5), 0.34 * len(datasets) + 1.7)
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
    legend = dict(zip(labels, handles, strict=True))
    figure.legend(
        legend.values(), legend.keys(), loc="outside lower center", ncols=2, frameon=False
    )
    title = "Points of accuracy that complex-order adds to the mean of none, pe and tpe"
    counts = sorted({len(summary.accuracies((e, COMPLEX_ORDER, "paper"), d)) for e, d in found})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    figure.suptitle(f"{title}\n{runs} runs per row{note and f'; {note}'}", fontsize=11)
    return save_png_and_svg(figure, path)
