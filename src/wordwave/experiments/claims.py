"""What the paper claims of accuracy, and whether it holds under the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from wordwave.experiments import paper
from wordwave.experiments.anchors import ANCHORS, TITLES
from wordwave.experiments.answers import McNemar, mcnemar
from wordwave.experiments.cells import WAVES
from wordwave.experiments.gains import gains
from wordwave.experiments.significance import (
    MARKS,
    Paired,
    compared,
)
from wordwave.experiments.summary import Row, Summary
from wordwave.experiments.table2 import against_rivals, judged_columns, mcnemar_of_rivals
from wordwave.experiments.verdicts import Claim, counted, judged
from wordwave.models.config import ENCODERS, IN_ATTENTION


def places(summary: Summary) -> list[tuple[str, str]]:
    """Encoder and data set of every cell of complex-order that has a run."""
    return [
        (encoder, dataset)
        for encoder in ENCODERS
        for dataset in judged_columns(summary)
        if summary.scores((encoder, WAVES, "paper"), dataset)
    ]


def beats_all(summary: Summary) -> Claim:
    """Complex-order against each rival, in how many cells and how surely."""
    says = "Complex-order embeddings outperform all other variations at all times (Table 2)."
    evidence, best_in, complete = [], 0, 0
    results = {place: against_rivals(summary, *place) for place in places(summary)}
    tests = {place: mcnemar_of_rivals(summary, *place) for place in places(summary)}
    for found in results.values():
        complete += len(found) == len(MARKS)
        best_in += len(found) == len(MARKS) and all(r.difference > 0 for r in found.values())
    if not complete:
        return Claim(says, "not measured")
    evidence.append(f"It has the highest mean in {best_in} of {complete} cells.")
    over_cells = compared(*_cell_means(summary))
    for kind in MARKS:
        own = [found[kind] for found in results.values() if kind in found]
        by_example = [found[kind] for found in tests.values() if kind in found]
        line = f"Against {kind}: {counted(own, by_example)}"
        if kind in over_cells:
            r = over_cells[kind]
            line += f"; mean difference over cells {r.difference:+.4f}"
            if r.p is not None:
                line += f", Wilcoxon over cells with Holm p {r.p:.2g}"
            if r.effect is not None:
                line += f", rank-biserial {r.effect:+.2f}"
        evidence.append(line + ".")
    return judged(says, best_in, complete, evidence)


def _cell_means(summary: Summary) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Differences per cell against each rival, as means over the pairs that both have."""
    ours: dict[str, float] = {}
    theirs: dict[str, dict[str, float]] = {kind: {} for kind in MARKS}
    for encoder, dataset in places(summary):
        name = f"{encoder} {dataset}"
        ours[name] = 0.0
        for kind in MARKS:
            rows: tuple[Row, Row] = (encoder, WAVES, "paper"), (encoder, kind, "paper")
            means = summary.common_means(rows, dataset)
            if means is not None:
                theirs[kind][name] = means[1] - means[0]
    return ours, theirs


def reaches_the_paper(summary: Summary) -> Claim:
    """Our complex-order beside the paper's, cell by cell."""
    says = "The accuracies of complex-order that Table 2 prints can be had without test data."
    lines, reached, n = [], 0, 0
    for encoder, dataset in places(summary):
        mean = summary.mean((encoder, WAVES, "paper"), dataset)
        printed = paper.accuracy(encoder, WAVES, "paper", dataset)
        if mean is None or printed is None:
            continue
        n += 1
        reached += round(mean, 3) >= printed
        if round(mean, 3) < printed:
            lines.append(f"{encoder} on {dataset}: {mean:.3f}, the paper {printed:.3f}")
    if not n:
        return Claim(says, "not measured")
    evidence = [f"At least the paper's figure in {reached} of {n} cells."]
    if lines:
        evidence.append("Below it: " + "; ".join(lines) + ".")
    return judged(says, reached, n, evidence)


def cnn_is_best(summary: Summary) -> Claim:
    """Which encoder is best under complex-order."""
    says = "CNNs are the best encoder."
    winners = []
    for dataset in judged_columns(summary):
        means = summary.common_means([(e, WAVES, "paper") for e in ENCODERS], dataset)
        if means is not None:
            winners.append((dataset, ENCODERS[means.index(max(means))]))
    if not winners:
        return Claim(says, "not measured")
    won = sum(encoder == "cnn" for _, encoder in winners)
    shown = ", ".join(f"{dataset} {encoder}" for dataset, encoder in winners)
    return judged(says, won, len(winners), [f"Best under complex-order: {shown}."])


def transformer_gains_most(summary: Summary) -> Claim:
    """Gain over the real embeddings, by encoder."""
    says = "Transformers gain most from complex-order embeddings."
    found = gains(summary)
    # Encoders are compared on the same data sets.
    common = [d for d in judged_columns(summary) if all((e, d) in found for e in ENCODERS)]
    if not common:
        return Claim(says, "not measured")
    means = {e: fmean(found[e, d][0] for d in common) for e in ENCODERS}
    shown = ", ".join(f"{encoder} {mean:+.2f}" for encoder, mean in means.items())
    holds = max(means, key=lambda e: means[e]) == "transformer" and means["transformer"] > 0
    line = f"Mean gain over the mean of none, pe and tpe, in points: {shown}."
    return Claim(says, "holds" if holds else "does not hold", [line], f"{len(common)} data sets")


def beats_equal_size(summary: Summary) -> Claim:
    """Against real models of as many parameters."""
    says = "Complex-order beats real models of as many parameters (the paper did not test this)."
    return _against(summary, says, ("none", "pe", "tpe", *IN_ATTENTION), "matched")


def beats_later_encodings(summary: Summary) -> Claim:
    """Against RoPE and ALiBi, under the Transformer."""
    says = "Complex-order beats RoPE and ALiBi, which came after the paper."
    return _against(summary, says, IN_ATTENTION, "paper")


def _against(summary: Summary, says: str, kinds: Sequence[str], variant: str) -> Claim:
    found: dict[str, list[Paired]] = {}
    by_example: dict[str, list[McNemar]] = {}
    for encoder, dataset in places(summary):
        ours, rivals = (encoder, WAVES, "paper"), {kind: (encoder, kind, variant) for kind in kinds}
        scores = {kind: summary.scores(row, dataset) for kind, row in rivals.items()}
        for kind, result in compared(summary.scores(ours, dataset), scores).items():
            found.setdefault(kind, []).append(result)
        answers = {kind: summary.answers(row, dataset) for kind, row in rivals.items()}
        for kind, own in mcnemar(summary.answers(ours, dataset), answers).items():
            by_example.setdefault(kind, []).append(own)
    if not found:
        return Claim(says, "not measured")
    results = [r for own in found.values() for r in own]
    evidence = [
        f"Against {kind}: {counted(r, by_example.get(kind, []))}." for kind, r in found.items()
    ]
    return judged(says, sum(r.difference > 0 for r in results), len(results), evidence)


def beats_anchors(summary: Summary) -> Claim:
    """The encoder that dev prefers under complex-order, beside linear models and fastText."""
    says = "Complex-order models are better than simple ones (the paper did not test this)."
    evidence, better, n = [], 0, 0
    for name in ANCHORS:
        won, seen = [], 0
        for dataset in judged_columns(summary):
            rows: list[Row] = [(e, WAVES, "paper") for e in ENCODERS]
            preferred = max(rows, key=lambda row: summary.dev_mean(row, dataset))
            means = summary.common_means([preferred, (name, "none", "paper")], dataset)
            if means is not None:
                seen += 1
                won += [dataset] if means[0] > means[1] else []
        if seen:
            n, better = n + seen, better + len(won)
            evidence.append(
                f"The encoder that dev prefers is better than {TITLES[name]} on {len(won)} of "
                f"{seen} data sets."
            )
    return judged(says, better, n, evidence)
