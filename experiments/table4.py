"""Table 4 of the paper: what each part of the waves does for a Transformer on SST-2."""

from __future__ import annotations

from statistics import fmean

from experiments import paper
from experiments.cells import SENTENCES, TABLE4
from experiments.protocol import Protocol
from experiments.statistics import Row, Summary, compared, interval, mcnemar, named, terms_of
from wordwave.tables import Content, Figure, Grid

FORMULAS = {
    "paper": "r[j,d] e^{i ω[j,d] pos}",
    "initial-phases": "r[j,d] e^{i(ω[j,d] pos + θ[j,d])}",
    "dimension-sharing-period": "r[j,d] e^{i ω[j] pos}",
    "word-sharing-period": "r[j,d] e^{i ω[d] pos}",
    "dimension-sharing-amplitude": "r[j] e^{i ω[j,d] pos}",
    "word-sharing-amplitude": "r[d] e^{i ω[j,d] pos}",
    "damping": "r[j,d] s[j,d]^pos e^{i ω[j,d] pos}",
}
COUNTS = (
    "Our parameter counts are of one layer for every row. The paper's real row fits one layer and "
    "a vocabulary of 13,941 or 13,942; its complex rows fit that only with two layers, so they "
    "were not of equal depth. Our vocabulary is that of the training texts, and sharing binds the "
    "feed-forward weights as well as those of attention. Attention scores are Re(q·k†) in all "
    "complex rows but “magnitude scores”, which has the paper's |q·k†|."
)


def table4(summary: Summary, protocol: Protocol) -> Grid:
    """Accuracy, parameters and Δ to complex-order, ours and the paper's."""
    dataset = dataset_of(summary)
    rows: list[list[Content]] = []
    whole: Row = ("transformer", "complex-order", "paper")
    ours = summary.scores(whole, dataset)
    paper_waves = paper.ablation()["complex-order", "paper"][0]
    rest: list[Row] = [("transformer", *row) for row in TABLE4]
    answers = {row: summary.answers(row, dataset) for row in rest if row != whole}
    by_example = mcnemar(summary.answers(whole, dataset), answers)
    for i, (embedding, variant) in enumerate(TABLE4):
        if i in _HEADINGS:
            rows.append([_HEADINGS[i]])
        row: Row = ("transformer", embedding, variant)
        printed = paper.ablation().get((embedding, variant))
        values = list(summary.scores(row, dataset).values())
        n = summary.parameters(row, dataset)
        gap = summary.common_means([row, whole], dataset)
        against = compared(summary.scores(row, dataset), {"waves": ours}).get("waves")
        own = by_example.get(row)
        figure = None
        if values:
            figure = Figure(
                fmean(values), interval(values), len(values), "", printed and printed[0]
            )
        rows.append(
            [
                _label(embedding, variant),
                formula(embedding, variant),
                _sharing(embedding, variant),
                None if n is None else f"{n / 1e6:.2f}M",
                None if printed is None else f"{printed[1]:.2f}M",
                figure,
                None if gap is None or row == whole else f"{gap[0] - gap[1]:+.3f}",
                None if printed is None else f"{printed[0] - paper_waves:+.3f}",
                None if own is None else own.lost,
                None if own is None else own.won,
                None if own is None else f"{own.p:.2g}",
                None if against is None or against.p is None or row == whole else against.p,
            ]
        )
    columns = ["row", "embedding", "shared", "params", "paper's params", "accuracy"]
    columns += ["Δ", "paper's Δ", "only row", "only waves", "p", "p over seeds"]
    notes = [
        f"{dataset}. " + COUNTS,
        "p: of the test sentences that only the row or only complex-order answers right, from one "
        "run of each (McNemar's exact test, Holm over the rows there). p over seeds: two-sided "
        "Wilcoxon signed-rank, uncorrected.",
    ]
    if dataset == SENTENCES:
        notes.append("Trained on the 6,920 whole sentences of SST-2, not on its 67,349 phrases.")
    notes += terms_of(protocol)
    return Grid(
        named("table4", protocol),
        "Table 4. Ablation of the Transformer",
        columns,
        rows,
        notes,
        only_in_files=_ONLY_IN_FILES,
    )


def dataset_of(summary: Summary) -> str:
    """Phrases of SST-2 where the ablation was run on them, else sentences."""
    extra: Row = ("transformer", "complex-order", "word-sharing-period")
    return "sst2" if summary.scores(extra, "sst2") else SENTENCES


_ONLY_IN_FILES = frozenset(
    {"embedding", "paper's params", "only row", "only waves", "p over seeds"}
)
_HEADINGS = {
    0: "A and B independent",
    7: "A and B shared",
    12: "real weights",
    13: "not in the paper",
}


def formula(embedding: str, variant: str) -> str:
    """How a word at a position becomes a number."""
    if embedding == "complex-vanilla":
        return "r[j,d] e^{i ω[j,d]}"
    if embedding == "tpe":
        return "WE[j,d] + PE[d]"
    return FORMULAS.get(variant.removesuffix("+tied"), FORMULAS["paper"])


def _label(embedding: str, variant: str) -> str:
    name = variant.removesuffix("+tied").replace("-", " ")
    if embedding == "tpe":
        return "tpe" if variant == "paper" else "tpe, as many parameters"
    return embedding if name in ("paper", "tied", "real") else name


def _sharing(embedding: str, variant: str) -> str:
    if embedding == "tpe":
        return "-"
    if variant == "real":
        return "B = 0"
    return "A = B" if variant.endswith("tied") else "no"
