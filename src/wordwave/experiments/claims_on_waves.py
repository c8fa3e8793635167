"""What the paper claims of the parts of a wave, of δ and of its cost, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from wordwave.experiments import paper
from wordwave.experiments.answers import mcnemar
from wordwave.experiments.cells import WAVES
from wordwave.experiments.epoch_timing import epoch_seconds
from wordwave.experiments.sensitive_words import Sensitivity
from wordwave.experiments.significance import LEVEL
from wordwave.experiments.store import Record
from wordwave.experiments.summary import Row, Summary
from wordwave.experiments.table4 import dataset_of
from wordwave.experiments.verdicts import Claim, Verdict, judged
from wordwave.models.config import ENCODERS

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
