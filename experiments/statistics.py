"""How sure a difference is: paired Wilcoxon tests, Holm's correction, intervals, effect sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

from experiments.cells import Cell
from experiments.protocol import Protocol
from wordwave.grid import Record

LEVEL = 0.05
FEWEST_PAIRS = 6
"""With fewer pairs a two-sided signed-rank test cannot come out below 0.05."""
FEWEST_PAIRS_OF_FOUR = 8
"""The same for each of four tests with Holm's correction."""
MARKS = {"none": "§", "pe": "†", "tpe": "‡", "complex-vanilla": "∗"}
"""The paper's signs for a significant improvement over each baseline."""

Name = TypeVar("Name")


@dataclass(frozen=True)
class Paired:
    """A comparison over the pairs that both sides have."""

    n: int
    difference: float
    """Mean over pairs."""
    p: float | None
    """Two-sided Wilcoxon signed-rank; `None` with too few pairs for any verdict."""
    effect: float | None
    """Matched-pairs rank-biserial correlation, from −1 to 1."""


def interval(values: Sequence[float]) -> float | None:
    """Half of the 95% confidence interval of the mean (Student's).

    `None` for two values or fewer: two that happen to be equal would look certain.
    """
    from scipy.stats import t

    if len(values) < 3:
        return None
    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


def paired(ours: Mapping[Name, float], theirs: Mapping[Name, float]) -> Paired | None:
    """Compare what has the same name on both sides (a fold and seed, or a cell)."""
    common = [name for name in ours if name in theirs]
    if not common:
        return None
    differences = [ours[name] - theirs[name] for name in common]
    effect = rank_biserial(differences)
    p: float | None = None
    if len(common) >= FEWEST_PAIRS:
        p = signed_rank(differences)
    return Paired(len(common), fmean(differences), p, effect)


def signed_rank(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test, exact also with ties; zeros are left out.

    Accuracies are counts, so ties are the rule. scipy then draws permutations, seconds a test, or
    falls back on a normal curve; here the 2^n signs are counted by their rank sums.
    """
    import numpy as np
    from scipy.stats import rankdata

    moved = np.array([d for d in _rounded(differences) if d])
    if not len(moved):
        return 1.0
    ranks = np.round(2 * rankdata(np.abs(moved))).astype(int)  # a shared rank may be a half
    share = np.zeros(ranks.sum() + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] = (share[rank:] + share[: len(share) - rank]) / 2
        share[:rank] /= 2
    gains = ranks[moved > 0].sum()
    return float(min(1.0, 2 * min(share[: gains + 1].sum(), share[gains:].sum())))


def rank_biserial(differences: Sequence[float]) -> float | None:
    """(W₊ − W₋) / (W₊ + W₋), where W are the rank sums of gains and losses."""
    from scipy.stats import rankdata

    moved = [d for d in _rounded(differences) if d]
    if not moved:
        return None
    ranks = rankdata([abs(d) for d in moved])
    gains = sum(rank for rank, d in zip(ranks, moved, strict=True) if d > 0)
    return float(2 * gains / sum(ranks) - 1)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's correction of a family of tests."""
    corrected: dict[Name, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        corrected[name] = highest
    return corrected


def compared(
    ours: Mapping[Name, float], rivals: Mapping[str, Mapping[Name, float]]
) -> dict[str, Paired]:
    """Against each rival, with Holm's correction over all of them."""
    found = {name: result for name, r in rivals.items() if (result := paired(ours, r))}
    p = holm({name: result.p for name, result in found.items() if result.p is not None})
    return {
        name: Paired(result.n, result.difference, p.get(name), result.effect)
        for name, result in found.items()
    }


def is_better(result: Paired) -> bool:
    """Whether an improvement is significant."""
    return result.p is not None and result.p < LEVEL and result.difference > 0


def is_worse(result: Paired) -> bool:
    return result.p is not None and result.p < LEVEL and result.difference < 0


def _rounded(differences: Sequence[float]) -> list[float]:
    # 0.8 − 0.7 and 0.9 − 0.8 are the same difference, and share a rank.
    return [round(d, 12) for d in differences]


Answers = Mapping[tuple[int, int], list[bool]]
"""Whether each example was answered right, by fold and seed."""


def packed(right: Sequence[bool]) -> str:
    """Hexadecimal digits, four examples each."""
    bits = "".join("1" if r else "0" for r in right)
    return "".join(f"{int(bits[i : i + 4].ljust(4, '0'), 2):x}" for i in range(0, len(bits), 4))


def unpacked(digits: str, n: int) -> list[bool]:
    """The n answers that `packed` packed."""
    bits = "".join(f"{int(digit, 16):04b}" for digit in digits)
    return [bit == "1" for bit in bits[:n]]


@dataclass(frozen=True)
class McNemar:
    """Two models on the same examples."""

    n: int
    """Examples that both answered."""
    won: int
    """Only ours is right."""
    lost: int
    """Only theirs is right."""
    p: float
    """Two-sided, of as uneven a split by chance (McNemar's exact test), Holm-corrected."""


def mcnemar(ours: Answers, rivals: Mapping[Name, Answers]) -> dict[Name, McNemar]:
    """Against each rival that has answers, with Holm's correction over these.

    Of each fold counts the first seed whose answers all of them have kept: no example counts
    twice, and all rivals are held against the same models.
    """
    there = {name: answers for name, answers in rivals.items() if answers}
    common = [run for run in sorted(ours) if all(_alike(ours, r, run) for r in there.values())]
    runs = list({fold: (fold, seed) for fold, seed in reversed(common)}.values())
    if not runs:
        return {}
    found = {name: _compared(ours, theirs, runs) for name, theirs in there.items()}
    p = holm({name: test.p for name, test in found.items()})
    return {name: replace(test, p=p[name]) for name, test in found.items()}


def _alike(ours: Answers, theirs: Answers, run: tuple[int, int]) -> bool:
    """Whether both answered the same examples; data that was prepared anew may have others."""
    return run in theirs and len(ours[run]) == len(theirs[run])


def _compared(ours: Answers, theirs: Answers, runs: Sequence[tuple[int, int]]) -> McNemar:
    pairs = [pair for run in runs for pair in zip(ours[run], theirs[run], strict=True)]
    won, lost = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    return McNemar(len(pairs), won, lost, sign_test(won, lost))


def sign_test(won: int, lost: int) -> float:
    """Two-sided p of as uneven a split if each side were as likely."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


Row = tuple[str, str, str]
"""Encoder, embedding and variant."""
Scores = dict[tuple[int, int], float]
"""Test accuracy by fold and seed."""


@dataclass(frozen=True)
class Summary:
    """The runs that a protocol would make: none with other settings, whatever the store holds."""

    runs: Mapping[tuple[Row, str], list[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record], protocol: Protocol) -> Summary:
        """The records of kind "run" that were made under the protocol."""
        runs: dict[tuple[Row, str], list[Record]] = {}
        for record in records:
            if record.get("kind") == "run" and made_under(protocol, record):
                row = (record["encoder"], record["embedding"], record["variant"])
                runs.setdefault((row, record["dataset"]), []).append(record)
        return cls(runs)

    def scores(self, row: Row, dataset: str) -> Scores:
        return {
            (r["fold"], r["seed"]): r["test_accuracy"] for r in self.runs.get((row, dataset), [])
        }

    def answers(self, row: Row, dataset: str) -> Answers:
        """Which test examples were answered right, of runs that kept it."""
        return {
            (r["fold"], r["seed"]): unpacked(r["right"], r["n_test"])
            for r in self.runs.get((row, dataset), [])
            if "right" in r
        }

    def mean(self, row: Row, dataset: str) -> float | None:
        found = self.scores(row, dataset)
        return fmean(found.values()) if found else None

    def common_means(self, rows: Sequence[Row], dataset: str) -> list[float] | None:
        """The mean of each row over the folds and seeds that all of them have."""
        scores = [self.scores(row, dataset) for row in rows]
        common = set.intersection(*map(set, scores)) if scores else set()
        if not common:
            return None
        return [fmean(own[k] for k in sorted(common)) for own in scores]

    def dev_mean(self, row: Row, dataset: str) -> float:
        """Mean accuracy on dev, to choose by; 0 for a row without runs."""
        found = [r["dev_accuracy"] for r in self.runs.get((row, dataset), [])]
        return fmean(found) if found else 0.0

    def parameters(self, row: Row, dataset: str) -> float | None:
        """Mean over folds, whose vocabularies differ a little."""
        counts = [r["parameters"] for r in self.runs.get((row, dataset), []) if "parameters" in r]
        return fmean(counts) if counts else None

    @property
    def rows(self) -> list[Row]:
        return list(dict.fromkeys(row for row, _ in self.runs))

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(dataset for _, dataset in self.runs))


def made_under(protocol: Protocol, record: Record) -> bool:
    """Whether the protocol would make this very training."""
    cell = cell_of(record)
    return protocol.knows(cell) and all(
        record[name] == value for name, value in protocol.key(cell, record["kind"]).items()
    )


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    names = ("dataset", "encoder", "embedding", "variant", "fold", "seed")
    return Cell(*(record[name] for name in names))


def named(table: str, protocol: Protocol) -> str:
    """The name of a table's files."""
    quick = "-quick" if protocol.budget == "quick" else ""
    search = ""
    if protocol.search is not None:
        search = f"-search{protocol.search.trials}"
        search += "" if protocol.search.pool == "narrow" else f"-{protocol.search.pool}"
        search += f"-on-{protocol.search.on}" if protocol.search.on else ""
    return f"{table}{quick}{search}"


def terms_of(protocol: Protocol) -> list[str]:
    """Where settings come from, and whether it is the quick version."""
    if protocol.search is None:
        notes = ["Settings: the recipes as they are, the same for every embedding; no search."]
    else:
        terms = protocol.search
        where = f"on {terms.on}, for all data sets" if terms.on else "on each data set's fold 0"
        notes = [
            f"Settings: the best of {terms.trials} trials for each encoder and embedding, pool "
            f"“{terms.pool}”, by dev accuracy {where}, fixed for all folds and seeds; where dev "
            "cannot tell trials apart (one standard error), the one with the best mean over the "
            "five embeddings. Rows of as many parameters and variants take those of their "
            "embedding; anchors have their own."
        ]
    if protocol.budget == "quick":
        notes.append(
            "QUICK: 1 fold, 1 seed, few epochs, SST-2 from whole sentences. It shows that all "
            "works, not how good a row is."
        )
    return notes
