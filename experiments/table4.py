"""Table 4 of the paper: ablation of complex-order in a Transformer on SST-2."""

from __future__ import annotations

from statistics import fmean

from experiments import paper
from experiments.cells import COMPLEX_ORDER, SST2_SENTENCES, TABLE4
from experiments.protocol import Protocol
from experiments.statistics import compare_all, confidence_interval, mcnemar
from experiments.summary import Row, Summary, file_name, protocol_notes
from wordwave.tables import Content, ResultTable, Score

FORMULAS = {
    "paper": "r[j,d] e^{i ω[j,d] pos}",
    "initial-phases": "r[j,d] e^{i(ω[j,d] pos + θ[j,d])}",
    "dimension-sharing-period": "r[j,d] e^{i ω[j] pos}",
    "word-sharing-period": "r[j,d] e^{i ω[d] pos}",
    "dimension-sharing-amplitude": "r[j] e^{i ω[j,d] pos}",
    "word-sharing-amplitude": "r[d] e^{i ω[j,d] pos}",
    "damping": "r[j,d] s[j,d]^pos e^{i ω[j,d] pos}",
}
PARAMETER_COUNTS = (
    "Our parameter counts are of one layer for every row. The paper's real row fits one layer and "
    "a vocabulary of 13,941 or 13,942; its complex rows fit that only with two layers, so they "
    "were not of equal depth. Our vocabulary is that of the training texts, and sharing ties the "
    "feed-forward weights as well as those of attention. Attention scores are Re(q·k†) in all "
    "complex rows but “magnitude scores”, which has the paper's |q·k†|."
)
_FULL: Row = ("transformer", COMPLEX_ORDER, "paper")
_ONLY_IN_FILES = frozenset(
    {
        "embedding",
        "paper's params",
        "only row correct",
        "only complex-order correct",
        "Wilcoxon p",
    }
)
_HEADINGS = {
    0: "A and B independent",
    7: "A and B shared",
    12: "real weights",
    13: "not in the paper",
}


def table4(summary: Summary, protocol: Protocol) -> ResultTable:
    """Accuracy, parameters and the difference to complex-order, ours and the paper's."""
    dataset = table4_dataset(summary)
    rows: list[list[Content]] = []
    all_rows: list[Row] = [("transformer", *row) for row in TABLE4]
    correct = {row: summary.correct(row, dataset) for row in all_rows if row != _FULL}
    tests = mcnemar(summary.correct(_FULL, dataset), correct)
    for i, row in enumerate(all_rows):
        if i in _HEADINGS:
            rows.append([_HEADINGS[i]])
        _, embedding, variant = row
        printed = paper.ablation().get((embedding, variant))
        accuracies = summary.accuracies(row, dataset)
        n = summary.parameters(row, dataset)
        means = summary.common_means([row, _FULL], dataset)
        paired = compare_all(accuracies, {"full": summary.accuracies(_FULL, dataset)}).get("full")
        test = tests.get(row)
        values = list(accuracies.values())
        accuracy = None
        if values:
            half = confidence_interval(values)
            accuracy = Score(fmean(values), half, len(values), "", printed and printed[0])
        rows.append(
            [
                _label(embedding, variant),
                formula(embedding, variant),
                _weights(embedding, variant),
                None if n is None else f"{n / 1e6:.2f}M",
                None if printed is None else f"{printed[1]:.2f}M",
                accuracy,
                None if means is None or row == _FULL else f"{means[0] - means[1]:+.3f}",
                None if printed is None else f"{printed[0] - _paper_accuracy():+.3f}",
                None if test is None else test.lost,
                None if test is None else test.won,
                None if test is None else f"{test.p:.2g}",
                None if paired is None or row == _FULL else paired.p,
            ]
        )
    columns = ["row", "embedding", "shared", "params", "paper's params", "accuracy"]
    columns += ["Δ", "paper's Δ", "only row correct", "only complex-order correct", "McNemar p"]
    columns += ["Wilcoxon p"]
    notes = [
        f"{dataset}. " + PARAMETER_COUNTS,
        "McNemar p: exact test on the test sentences that only the row or only complex-order "
        "classifies correctly, from one run of each, Holm over the rows there. Wilcoxon p: "
        "two-sided signed-rank test over seeds, uncorrected.",
    ]
    if dataset == SST2_SENTENCES:
        notes.append("Trained on the 6,920 whole sentences of SST-2, not on its 67,349 phrases.")
    return ResultTable(
        file_name("table4", protocol),
        "Table 4. Ablation of the Transformer",
        columns,
        rows,
        [*notes, *protocol_notes(protocol)],
        only_in_files=_ONLY_IN_FILES,
    )


def table4_dataset(summary: Summary) -> str:
    """The phrases of SST-2 where the ablation was run on them, else its sentences."""
    variant: Row = ("transformer", COMPLEX_ORDER, "word-sharing-period")
    return "sst2" if summary.accuracies(variant, "sst2") else SST2_SENTENCES


def formula(embedding: str, variant: str) -> str:
    """The embedding of word j at position pos in dimension d."""
    if embedding == "complex-vanilla":
        return "r[j,d] e^{i ω[j,d]}"
    if embedding == "tpe":
        return "WE[j,d] + PE[d]"
    return FORMULAS.get(variant.removesuffix("+tied"), FORMULAS["paper"])


def _paper_accuracy() -> float:
    return paper.ablation()[COMPLEX_ORDER, "paper"][0]


def _label(embedding: str, variant: str) -> str:
    name = variant.removesuffix("+tied").replace("-", " ")
    if embedding == "tpe":
        return "tpe" if variant == "paper" else "tpe, parameter-matched"
    return embedding if name in ("paper", "tied", "real") else name


def _weights(embedding: str, variant: str) -> str:
    """How real and imaginary weights A and B are shared."""
    if embedding == "tpe":
        return "-"
    if variant == "real":
        return "B = 0"
    return "A = B" if variant.endswith("tied") else "no"
