"""The paper's claims, each with a verdict and the evidence for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from experiments import paper
from experiments.anchors import ANCHORS, TITLES
from experiments.cells import COMPLEX_ORDER
from experiments.sensitive_words import Sensitivity
from experiments.statistics import LEVEL, McNemar, PairedComparison, compare_all, mcnemar
from experiments.summary import Row, Summary
from experiments.table2 import (
    MARKS,
    REAL_BASELINES,
    compare_with_baselines,
    compared_datasets,
    gains,
    mcnemar_with_baselines,
)
from experiments.table4 import table4_dataset
from experiments.timing import epoch_seconds
from wordwave.embedding.config import EmbeddingKind
from wordwave.grid import Record
from wordwave.models.config import ENCODERS

Verdict = Literal["holds", "holds in part", "does not hold", "not measured"]
LATER: tuple[EmbeddingKind, ...] = ("rope", "alibi")
"""Encodings that came after the paper."""
NEGLIGIBLE = 1.1
"""A cost below ten percent."""


@dataclass(frozen=True)
class Claim:
    """A claim, whether it holds here, and why."""

    text: str
    verdict: Verdict
    evidence: Sequence[str] = ()
    basis: str = ""
    """In how many cases of how many, where cases are counted."""


def claim_by_count(text: str, n: int, of: int, evidence: Sequence[str]) -> Claim:
    """A claim that holds in n of so many cases: holds in all, in part in more than half."""
    if not of:
        return Claim(text, "not measured", evidence)
    verdict: Verdict = "holds" if n == of else "holds in part" if 2 * n > of else "does not hold"
    return Claim(text, verdict, evidence, f"{n} of {of}")


def counts(results: Sequence[PairedComparison], tests: Sequence[McNemar]) -> str:
    """In how many comparisons complex-order is better and worse, and significantly so."""
    better, worse = (sum(sign * r.difference > 0 for r in results) for sign in (1, -1))
    line = f"better in {better} and worse in {worse} of {len(results)} cells"
    tested = [r for r in results if r.p is not None]
    if tested:
        line += (
            f"; of the {len(tested)} with enough runs for a signed-rank test, significantly "
            f"better in {sum(r.is_better for r in tested)} and worse in "
            f"{sum(r.is_worse for r in tested)}"
        )
    else:
        line += ", none of which has enough runs for a signed-rank test"
    if tests:
        won = sum(t.p < LEVEL and t.won > t.lost for t in tests)
        lost = sum(t.p < LEVEL and t.lost > t.won for t in tests)
        line += (
            f"; by McNemar's test on one run of each, significantly better in {won} and worse in "
            f"{lost} of the {len(tests)} whose predictions were recorded"
        )
    return line


def measured_cells(summary: Summary) -> list[tuple[str, str]]:
    """Encoder and data set of every cell of complex-order that has a run."""
    return [
        (encoder, dataset)
        for encoder in ENCODERS
        for dataset in compared_datasets(summary)
        if summary.accuracies((encoder, COMPLEX_ORDER, "paper"), dataset)
    ]


def beats_all(summary: Summary) -> Claim:
    """Complex-order against each baseline: in how many cells, and how significantly."""
    text = "Complex-order embeddings outperform all other variations at all times (Table 2)."
    cells = measured_cells(summary)
    results = {cell: compare_with_baselines(summary, *cell) for cell in cells}
    tests = {cell: mcnemar_with_baselines(summary, *cell) for cell in cells}
    complete = [found for found in results.values() if len(found) == len(MARKS)]
    best_in = sum(all(r.difference > 0 for r in found.values()) for found in complete)
    if not complete:
        return Claim(text, "not measured")
    evidence = [f"It has the highest mean in {best_in} of {len(complete)} cells."]
    over_cells = compare_all(*_cell_differences(summary))
    for kind in MARKS:
        own = [found[kind] for found in results.values() if kind in found]
        own_tests = [found[kind] for found in tests.values() if kind in found]
        line = f"Against {kind}: {counts(own, own_tests)}"
        if kind in over_cells:
            r = over_cells[kind]
            line += f"; mean difference over cells {r.difference:+.4f}"
            if r.p is not None:
                line += f", Wilcoxon over cells with Holm p {r.p:.2g}"
            if r.effect is not None:
                line += f", rank-biserial {r.effect:+.2f}"
        evidence.append(line + ".")
    return claim_by_count(text, best_in, len(complete), evidence)


def _cell_differences(summary: Summary) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Zero for complex-order, and each baseline's mean difference to it, by cell."""
    ours: dict[str, float] = {}
    theirs: dict[str, dict[str, float]] = {kind: {} for kind in MARKS}
    for encoder, dataset in measured_cells(summary):
        name = f"{encoder} {dataset}"
        ours[name] = 0.0
        for kind in MARKS:
            rows: tuple[Row, Row] = (encoder, COMPLEX_ORDER, "paper"), (encoder, kind, "paper")
            means = summary.common_means(rows, dataset)
            if means is not None:
                theirs[kind][name] = means[1] - means[0]
    return ours, theirs


def reaches_the_paper(summary: Summary) -> Claim:
    """Our complex-order beside the paper's, cell by cell."""
    text = "Table 2's accuracies of complex-order are reached without selecting on test data."
    below, n = [], 0
    for encoder, dataset in measured_cells(summary):
        mean = summary.mean((encoder, COMPLEX_ORDER, "paper"), dataset)
        printed = paper.accuracy(encoder, COMPLEX_ORDER, "paper", dataset)
        if mean is None or printed is None:
            continue
        n += 1
        if round(mean, 3) < printed:
            below.append(f"{encoder} on {dataset}: {mean:.3f}, the paper {printed:.3f}")
    if not n:
        return Claim(text, "not measured")
    evidence = [f"At least the paper's accuracy in {n - len(below)} of {n} cells."]
    if below:
        evidence.append("Below it: " + "; ".join(below) + ".")
    return claim_by_count(text, n - len(below), n, evidence)


def cnn_is_best(summary: Summary) -> Claim:
    """Which encoder is best with complex-order."""
    text = "CNNs are the best encoder."
    best = {}
    for dataset in compared_datasets(summary):
        means = summary.common_means([(e, COMPLEX_ORDER, "paper") for e in ENCODERS], dataset)
        if means is not None:
            best[dataset] = ENCODERS[means.index(max(means))]
    if not best:
        return Claim(text, "not measured")
    shown = ", ".join(f"{dataset} {encoder}" for dataset, encoder in best.items())
    won = list(best.values()).count("cnn")
    return claim_by_count(text, won, len(best), [f"Best with complex-order: {shown}."])


def transformer_gains_most(summary: Summary) -> Claim:
    """Gain over the real embeddings, by encoder."""
    text = "Transformers gain most from complex-order embeddings."
    found = gains(summary)
    # Encoders are compared on the same data sets.
    common = [d for d in compared_datasets(summary) if all((e, d) in found for e in ENCODERS)]
    if not common:
        return Claim(text, "not measured")
    means = {e: fmean(found[e, d][0] for d in common) for e in ENCODERS}
    shown = ", ".join(f"{encoder} {mean:+.2f}" for encoder, mean in means.items())
    holds = max(means, key=lambda e: means[e]) == "transformer" and means["transformer"] > 0
    line = f"Mean gain over the mean of none, pe and tpe, in percentage points: {shown}."
    return Claim(text, "holds" if holds else "does not hold", [line], f"{len(common)} data sets")


def beats_equal_size(summary: Summary) -> Claim:
    """Against parameter-matched real models."""
    text = "Complex-order beats parameter-matched real models (the paper did not test this)."
    return _against(summary, text, (*REAL_BASELINES, *LATER), "matched")


def beats_later_encodings(summary: Summary) -> Claim:
    """Against RoPE and ALiBi, in the Transformer."""
    text = "Complex-order beats RoPE and ALiBi, which came after the paper."
    return _against(summary, text, LATER, "paper")


def _against(summary: Summary, text: str, kinds: Sequence[str], variant: str) -> Claim:
    results: dict[str, list[PairedComparison]] = {}
    tests: dict[str, list[McNemar]] = {}
    for encoder, dataset in measured_cells(summary):
        ours: Row = (encoder, COMPLEX_ORDER, "paper")
        rows: dict[str, Row] = {kind: (encoder, kind, variant) for kind in kinds}
        accuracies = {kind: summary.accuracies(row, dataset) for kind, row in rows.items()}
        for kind, r in compare_all(summary.accuracies(ours, dataset), accuracies).items():
            results.setdefault(kind, []).append(r)
        correct = {kind: summary.correct(row, dataset) for kind, row in rows.items()}
        for kind, test in mcnemar(summary.correct(ours, dataset), correct).items():
            tests.setdefault(kind, []).append(test)
    if not results:
        return Claim(text, "not measured")
    evidence = [f"Against {kind}: {counts(r, tests.get(kind, []))}." for kind, r in results.items()]
    everything = [r for own in results.values() for r in own]
    better = sum(r.difference > 0 for r in everything)
    return claim_by_count(text, better, len(everything), evidence)


def beats_anchors(summary: Summary) -> Claim:
    """The encoder that is best on the validation set, beside linear models and fastText."""
    text = "Complex-order models are better than simple ones (the paper did not test this)."
    evidence, better, n = [], 0, 0
    for name in ANCHORS:
        won, seen = 0, 0
        for dataset in compared_datasets(summary):
            rows: list[Row] = [(e, COMPLEX_ORDER, "paper") for e in ENCODERS]
            selected = max(rows, key=lambda row: summary.dev_mean(row, dataset))
            means = summary.common_means([selected, (name, "none", "paper")], dataset)
            if means is not None:
                seen += 1
                won += means[0] > means[1]
        if seen:
            n, better = n + seen, better + won
            evidence.append(
                f"The encoder that is best on the validation set is better than {TITLES[name]} on "
                f"{won} of {seen} data sets."
            )
    return claim_by_count(text, better, n, evidence)


def sharing_costs_little(summary: Summary) -> Claim:
    """Table 4: sharing schemes and initial phases."""
    text = (
        "Every change to complex-order costs accuracy: sharing a little, initial phases more, "
        "removing positions most (Table 4)."
    )
    dataset, full = table4_dataset(summary), ("transformer", COMPLEX_ORDER, "paper")
    rows: list[Row] = [("transformer", *row) for row in paper.ablation()]
    correct = {row: summary.correct(row, dataset) for row in rows if row != full}
    tests = mcnemar(summary.correct(full, dataset), correct)
    differences: dict[tuple[str, str], float] = {}
    evidence = []
    for row in correct:
        _, embedding, variant = row
        means = summary.common_means([row, full], dataset)
        if means is None:
            continue
        difference = differences[embedding, variant] = means[0] - means[1]
        printed = paper.ablation()[embedding, variant][0]
        printed -= paper.ablation()[COMPLEX_ORDER, "paper"][0]
        p = f", p {tests[row].p:.2g}" if row in tests else ""
        evidence.append(f"{embedding}, {variant}: {difference:+.3f}{p}; the paper {printed:+.3f}.")
    if not differences:
        return Claim(text, "not measured")
    below = sum(difference < 0 for difference in differences.values())
    sharing = [d for (_, variant), d in differences.items() if "sharing" in variant]
    phases = differences.get((COMPLEX_ORDER, "initial-phases"))
    vanilla = differences.get(("complex-vanilla", "paper"))
    in_order = False
    if sharing and phases is not None and vanilla is not None:
        in_order = fmean(sharing) > phases > vanilla
    significant = sum(t.p < LEVEL for t in tests.values())
    evidence[:0] = [
        f"Below complex-order, as in the paper: {below} of {len(differences)} rows.",
        f"In the paper's order: {'yes' if in_order else 'no'}.",
        f"On {dataset}; significantly different from complex-order by McNemar's test on one run of "
        f"each: {significant} of {len(tests)} rows.",
    ]
    in_part = below > len(differences) / 2
    verdict: Verdict = "holds in part" if in_part else "does not hold"
    if below == len(differences) and in_order:
        verdict = "holds"
    return Claim(text, verdict, evidence)


def sentiment_is_sensitive(records: Sequence[Record]) -> Claim:
    """Table 7, with a lexicon instead of labels by hand."""
    text = "Strong sentiment words are more frequent among words of greatest δ than of smallest."
    evidence, n = [f"Counted where Fisher's p is below {LEVEL}."] if records else [], 0
    for record in records:
        found = Sensitivity(record)
        high, low = found.strong_counts()
        n += high > low and found.fisher() < LEVEL
        line = f"{record['encoder']}: {high} of 50 against {low} of 50"
        evidence.append(f"{line}; {found.tests()}.")
    return claim_by_count(text, n, len(records), evidence)


def cost_is_negligible(record: Record | None) -> Claim:
    """Fig. 5: the seconds of complex-order as a multiple of those without positions."""
    text = "The gain comes at a negligible or no cost in efficiency (Fig. 5)."
    seconds = {} if record is None else epoch_seconds(record)
    ratios = {
        encoder: seconds[encoder, COMPLEX_ORDER][0] / seconds[encoder, "none"][0]
        for encoder in ENCODERS
        if (encoder, COMPLEX_ORDER) in seconds and (encoder, "none") in seconds
    }
    if not ratios:
        return Claim(text, "not measured")
    shown = ", ".join(f"{encoder} {ratio:.2f}" for encoder, ratio in ratios.items())
    cheap = sum(ratio < NEGLIGIBLE for ratio in ratios.values())
    line = f"Seconds per epoch, as a multiple of none: {shown}; negligible: below {NEGLIGIBLE}."
    return claim_by_count(text, cheap, len(ratios), [line])
