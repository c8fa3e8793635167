"""Verdicts on claims, and on what they rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from experiments import paper
from experiments.anchors import ANCHORS, TITLES
from experiments.cells import WAVES
from experiments.epoch_timing import epoch_seconds
from experiments.sensitive_words import Sensitivity
from experiments.statistics import (
    LEVEL,
    MARKS,
    McNemar,
    Paired,
    Row,
    Summary,
    compared,
    is_better,
    is_worse,
    mcnemar,
)
from experiments.table2 import against_rivals, gains, judged_columns, mcnemar_of_rivals
from experiments.table4 import dataset_of
from wordwave.grid import Record
from wordwave.models.config import ENCODERS, IN_ATTENTION

Verdict = Literal["holds", "holds in part", "does not hold", "not measured"]


@dataclass(frozen=True)
class Claim:
    """What the paper says, whether it is so, and why we think so."""

    says: str
    verdict: Verdict
    evidence: Sequence[str] = ()
    basis: str = ""
    """In how many cases of how many, where it is a matter of counting."""


def judged(says: str, n: int, of: int, evidence: Sequence[str]) -> Claim:
    """A claim that holds in n of so many cases."""
    if not of:
        return Claim(says, "not measured", evidence)
    found: Verdict = "holds" if n == of else "holds in part" if 2 * n > of else "does not hold"
    return Claim(says, found, evidence, f"{n} of {of}")


def counted(results: Sequence[Paired], by_example: Sequence[McNemar]) -> str:
    """In how many comparisons complex-order is better and worse, and how surely."""
    better, worse = (sum(sign * r.difference > 0 for r in results) for sign in (1, -1))
    line = f"better in {better} and worse in {worse} of {len(results)} cells"
    tested = [r for r in results if r.p is not None]
    if tested:
        surely, surely_worse = sum(map(is_better, tested)), sum(map(is_worse, tested))
        line += (
            f"; of the {len(tested)} with enough runs for a signed-rank test, significantly "
            f"better in {surely} and worse in {surely_worse}"
        )
    else:
        line += ", none of which has enough runs for a signed-rank test"
    if by_example:
        won = sum(t.p < LEVEL and t.won > t.lost for t in by_example)
        lost = sum(t.p < LEVEL and t.lost > t.won for t in by_example)
        line += (
            f"; by the examples that one run of each answers differently, significantly better in "
            f"{won} and worse in {lost} of the {len(by_example)} whose answers were kept"
        )
    return line


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


NEGLIGIBLE = 1.1
"""A cost of less than a tenth."""


def sharing_costs_little(summary: Summary) -> Claim:
    """Table 4: schemas of sharing, and initial phases."""
    says = (
        "Whatever is changed about complex-order costs accuracy: sharing a little, initial phases "
        "more, leaving positions out most (Table 4)."
    )
    dataset, whole = dataset_of(summary), ("transformer", WAVES, "paper")
    rows: list[Row] = [("transformer", *row) for row in paper.ablation()]
    others = {row: summary.answers(row, dataset) for row in rows if row != whole}
    by_example = mcnemar(summary.answers(whole, dataset), others)
    gaps: dict[tuple[str, str], float] = {}
    evidence = []
    for row in others:
        _, embedding, variant = row
        means = summary.common_means([row, whole], dataset)
        if means is None:
            continue
        gaps[embedding, variant] = means[0] - means[1]
        printed = paper.ablation()[embedding, variant][0] - paper.ablation()[WAVES, "paper"][0]
        p = f", p {by_example[row].p:.2g}" if row in by_example else ""
        evidence.append(
            f"{embedding}, {variant}: {means[0] - means[1]:+.3f}{p}; the paper {printed:+.3f}."
        )
    if not gaps:
        return Claim(says, "not measured")
    below = sum(gap < 0 for gap in gaps.values())
    sharing = [gap for (_, variant), gap in gaps.items() if "sharing" in variant]
    phases = gaps.get((WAVES, "initial-phases"))
    nowhere = gaps.get(("complex-vanilla", "paper"))
    in_order = bool(sharing) and None not in (phases, nowhere)
    if in_order:
        in_order = fmean(sharing) > phases > nowhere  # type: ignore[operator]
    surely = sum(t.p < LEVEL for t in by_example.values())
    evidence[:0] = [
        f"Below complex-order, as in the paper: {below} of {len(gaps)} rows.",
        f"In the paper's order: {'yes' if in_order else 'no'}.",
        f"On {dataset}; told apart from complex-order by the test sentences that one run of each "
        f"answers differently: {surely} of {len(by_example)} rows.",
    ]
    whole_claim = below == len(gaps) and in_order
    in_part = below > len(gaps) / 2
    found: Verdict = "holds" if whole_claim else "holds in part" if in_part else "does not hold"
    return Claim(says, found, evidence)


def sentiment_is_sensitive(records: Sequence[Record]) -> Claim:
    """Table 7, with a lexicon in the place of marks by hand."""
    says = "Strong sentiment words are more frequent among words of greatest δ than of smallest."
    evidence, right = [f"Counted where Fisher's p is below {LEVEL}."] if records else [], 0
    for record in records:
        found = Sensitivity(record)
        high, low = found.strong_counts()
        right += high > low and found.fisher() < LEVEL
        line = f"{record['encoder']}: {high} of 50 against {low} of 50"
        evidence.append(f"{line}; {found.tests()}.")
    return judged(says, right, len(records), evidence)


def cost_is_negligible(record: Record | None) -> Claim:
    """Fig. 5: the seconds of complex-order as a multiple of those without positions."""
    says = "The gain comes at a negligible or no cost in efficiency (Fig. 5)."
    if record is None:
        return Claim(says, "not measured")
    seconds = epoch_seconds(record)
    ratios = {
        encoder: seconds[encoder, WAVES][0] / seconds[encoder, "none"][0]
        for encoder in ENCODERS
        if (encoder, WAVES) in seconds and (encoder, "none") in seconds
    }
    if not ratios:
        return Claim(says, "not measured")
    shown = ", ".join(f"{encoder} {ratio:.2f}" for encoder, ratio in ratios.items())
    cheap = sum(ratio < NEGLIGIBLE for ratio in ratios.values())
    line = f"Seconds an epoch, as a multiple of none: {shown}; negligible: below {NEGLIGIBLE}."
    return judged(says, cheap, len(ratios), [line])
