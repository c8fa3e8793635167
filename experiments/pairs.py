"""`python -m experiments pairs`: what a sentence vector keeps of the order of words.

Rows are ways to turn a sentence into a vector; the head that compares two of them is the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import combinations, product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.outside import OUTSIDE, Cosines, numbered
from experiments.sentence_rows import ROWS, VIEWS, RowTable, mean_score
from wordwave.config_io import with_settings
from wordwave.data.pairs import PairSplits, TextPairs, hold_out, load_part
from wordwave.grid import Record
from wordwave.models.classifier import PairNetwork
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import IN_MEMORY, MatchingConfig
from wordwave.tasks.matcher import pair_logits
from wordwave.tasks.matching import MatchingJob, metrics

if TYPE_CHECKING:
    from experiments.pair_commands import PairSet

VALIDATION_SHARE = 0.1875
"""1,500 of the 8,000 pairs of PAWS-Wiki's validation part, and as many of PAWS-QQP."""
SEARCH: dict[str, tuple[Any, Any]] = {
    "word_renaming": (0.5, 0.0),
    "learning_rate": (2e-3, 1e-3),
    "dim": (256, 128),
}
ABLATION: dict[str, dict[str, Any]] = {
    "3 views and context": {},
    "start": {"views": ("start",)},
    "end": {"views": ("end",)},
    "relative": {"views": ("relative",)},
    "start, end": {"views": ("start", "end")},
    "start, relative": {"views": ("start", "relative")},
    "3 views": {"views": VIEWS},
    "relative ×3": {"views": ("relative",) * 3},
    "start, context": {"views": ("start", "context")},
    "start, frequencies per word": {"views": ("start",), "share_frequency": None},
    "3 views, frequencies per word": {"views": VIEWS, "share_frequency": None},
    "start, damped": {"views": ("start",), "damping": True},
    "start, phases": {"views": ("start",), "phase": True},
    "start, phases, |z|": {"views": ("start",), "phase": True, "readout": "magnitude"},
    "frequencies not trained": {"freeze_frequency": True},
    "no word renaming": {"word_renaming": 0.0},
    "word renaming 0.8": {"word_renaming": 0.8},
    "one vector for unknown words": {"unknown_words": "shared"},
    "no hidden layer": {"hidden_dim": 0},
    "BPE tokens": {"tokenizer": "bpe"},
    "trained on PAWS-QQP too": {},
    "24 epochs": {"epochs": 24},
    "implied pairs": {},
    "implied pairs, 24 epochs": {"epochs": 24},
}
"""One change at a time of the best bag of waves, on the validation pairs."""


@dataclass(frozen=True)
class PairCell:
    """One training."""

    data: PairSet
    row: str
    seed: int = 0
    word_renaming: float = SEARCH["word_renaming"][0]
    learning_rate: float = SEARCH["learning_rate"][0]
    dim: int = SEARCH["dim"][0]
    """Of vectors from elsewhere, the units of the hidden layer."""
    change: str = ""
    """A key of `ABLATION`."""

    @property
    def name(self) -> str:
        return "-".join(str(value).replace(" ", "_") for value in asdict(self).values())

    def config(self) -> MatchingConfig:
        searched = {name: getattr(self, name) for name in SEARCH}
        fixed = {"epochs": 12, "precision": "fp32", "seed": self.seed}
        sizes = {"n_filters": self.dim // 2, "feed_forward_dim": 2 * self.dim}
        if ROWS[self.row].outside:
            sizes = {"hidden_dim": self.dim}
        of_data = {"data": IN_MEMORY, "similarity": "score" if has_scores(self.data) else None}
        settings = {**of_data, **fixed, **sizes, **searched, **ROWS[self.row].settings}
        return with_settings(MatchingConfig(), **settings | ABLATION.get(self.change, {}))


def has_scores(data: PairSet) -> bool:
    """Whether pairs have a similarity, not a class."""
    return data in ("sts-b", "sick")


def load_splits(data: PairSet, *, with_test: bool = False, with_qqp: bool = False) -> PairSplits:
    """Training and validation pairs, and the test pairs if asked for; none share a sentence.

    PAWS-Wiki's training part is not at hand: training pairs are those of its validation part that
    are not held out. The test pairs of PAWS-QQP are its validation part; training pairs that share
    a sentence with it are left out.
    """
    train, dev = load_part(data, "dev" if data == "paws-wiki" else "train"), None
    test = load_part(data, "dev" if data == "paws-qqp" else "test") if with_test else None
    if data == "paws-qqp":
        held = test or load_part(data, "dev")
        groups = train.joined(held).groups()
        shared = set(groups[len(train) :])
        rows = [row for row in range(len(train)) if groups[row] not in shared]
        train = train.subset(rows, train.name)
    if has_scores(data):
        dev = load_part(data, "dev")
    else:
        train, dev = hold_out(train, share=VALIDATION_SHARE)
    if with_qqp and data == "paws-wiki":
        train = train.joined(load_part("paws-qqp", "train"))
    return PairSplits(train, dev, test)


def implied_pairs(pairs: TextPairs) -> TextPairs:
    """Further pairs that follow from labels of equal meaning, the second class: sentences that mean
    the same as a third one, and those of which one means the same as a sentence that differs."""
    different, same = sorted(set(pairs.labels))
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while (above := parent.setdefault(text, text)) != text:
            text = above
        return text

    rows = list(zip(pairs.first, pairs.second, pairs.labels, strict=True))
    for one, other, label in rows:
        if label == same:
            parent[root(one)] = root(other)
    members: dict[str, list[str]] = {}
    for text in dict.fromkeys((*pairs.first, *pairs.second)):
        members.setdefault(root(text), []).append(text)
    known = {frozenset(row[:2]) for row in rows}
    found = [(a, b, same) for group in members.values() for a, b in combinations(group, 2)]
    for one, other, label in rows:
        if label == different and root(one) != root(other):
            both = product(members[root(one)], members[root(other)])
            found += [(a, b, different) for a, b in both]
    new = list(
        {frozenset(row[:2]): row for row in found if frozenset(row[:2]) not in known}.values()
    )
    first, second, labels = ([row[i] for row in new] for i in range(3))
    return TextPairs(first, second, labels, "implied pairs")


class PairTable(RowTable[PairCell]):
    """The trainings of a data set of sentence pairs."""

    key = tuple(asdict(PairCell("paws-wiki", "")))
    data: PairSet

    @property
    def search(self) -> dict[str, tuple[Any, Any]]:
        """On other sets than PAWS-Wiki, whose validation pairs chose the first width for every row,
        the width is not searched."""
        searched = (
            SEARCH if self.data == "paws-wiki" else {k: SEARCH[k] for k in SEARCH if k != "dim"}
        )
        return dict(searched)

    @property
    def test_split(self) -> str:
        return "dev" if self.data == "paws-qqp" else "test"

    @property
    def cosines(self) -> Cosines:
        return Cosines(self.data, self.out, self.weights)

    def first_cell(self, row: str) -> PairCell:
        if ROWS[row].outside:  # a sentence is a single vector: there are no words to be renamed
            return PairCell(self.data, row, word_renaming=0.0)
        return PairCell(self.data, row)

    def prepared(self, cell: PairCell, *, with_test: bool = False) -> MatchingJob:
        with_qqp = cell.change == "trained on PAWS-QQP too"
        data = load_splits(cell.data, with_test=with_test, with_qqp=with_qqp)
        if cell.change.startswith("implied"):
            data = replace(data, train=data.train.joined(implied_pairs(data.train)))
        config, row = cell.config(), ROWS[cell.row]
        if row.outside:
            data, path = numbered(row.outside, data, self.weights)
            config = with_settings(config, vectors=str(path), freeze_vectors=True)
        job = MatchingJob(config)
        job.network_class = row.network(PairNetwork)
        return job.prepare(data)

    def more(self, job: MatchingJob) -> Record:
        return {"pairs": len(job.task.train.targets)}

    def test_scores(self, job: MatchingJob, record: Record) -> dict[str, float]:
        assert job.test is not None
        logits = pair_logits(job.text_model.model, job.test.first, job.test.second)
        return metrics(logits, job.test.targets, job.text_model.labels)

    def score_cosines(self, part: str) -> None:
        """Score the cosines of the models from elsewhere that are among the rows."""
        names = [name for row in self.rows if (name := ROWS[row].outside)]
        if names:
            data = load_splits(self.data, with_test=part == "test")
            for name in names:
                self.cosines.score(name, data, part, is_similarity=has_scores(self.data))

    def table(self) -> ResultTable:
        """A line for each row: validation and test scores, size and training time."""
        names = ("spearman", "pearson") if has_scores(self.data) else ("auc", "accuracy")
        lines, records = self.lines(names), self.cosines.store.records()
        found = {(r["model"], r["part"]): r["scores"] for r in records if r["data"] == self.data}
        for model in OUTSIDE:
            if (validation := found.get((model, "validation"))) is not None:
                test = found.get((model, "test"), {})
                scores = [validation[names[0]], *(test.get(name) for name in names)]
                lines.append([f"{model}, cosine", *scores, *[None] * (len(self.search) + 3)])
        columns = ["sentence vector", f"validation {names[0]}", *(f"test {n}" for n in names)]
        named = {"word_renaming": "renaming", "learning_rate": "learning rate", "dim": "width"}
        columns += [named[name] for name in self.search]
        columns += ["best epoch", "parameters", "CPU seconds"]
        notes = [_NOTES[self.data]]
        if any(ROWS[str(line[0])].outside for line in lines if line[0] in ROWS):
            notes.append(_FROZEN)
        return ResultTable(self.data, f"Sentence pairs: {self.data}", columns, lines, notes=notes)

    def ablation(self) -> ResultTable:
        """What each part of the best bag brings, on the validation pairs."""
        rows: list[list[Content]] = []
        for change in ABLATION:
            found = [
                r for r in self.store.records() if (r["data"], r["change"]) == (self.data, change)
            ]
            if found:
                seconds = round(fmean(r["seconds"] for r in found))
                rows.append([change, mean_score([r["score"] for r in found]), seconds])
        name = "spearman" if has_scores(self.data) else "auc"
        columns = ["bag of waves", f"validation {name}", "CPU seconds"]
        return ResultTable(f"{self.data}-ablation", f"Bags of waves: {self.data}", columns, rows)


_SEARCHED = (
    "Mean and standard deviation over seeds. Of each row, word renaming, learning rate and width "
    "were chosen one after the other on the validation pairs, the epoch too."
)
_WITHOUT_WIDTH = (
    "Mean and standard deviation over seeds. Of each row, word renaming and learning rate were "
    "chosen one after the other on the validation pairs, the epoch too; the width is 256, which "
    "PAWS-Wiki's validation pairs chose for every row."
)
_FROZEN = (
    "Models from elsewhere: their cosine, without training on these pairs, and the same head as "
    "that of the other rows on their frozen vectors, whose width is that of its hidden layer."
)
_NOTES: dict[str, str] = {
    "paws-wiki": "Trained on 6,500 pairs of PAWS-Wiki's validation part; the 1,500 validation "
    "pairs are the rest of it and share no sentence with them. " + _SEARCHED,
    "paws-qqp": "Trained without the pairs that share a sentence with the test pairs, which are "
    "PAWS-QQP's validation part. " + _WITHOUT_WIDTH,
    "sts-b": _WITHOUT_WIDTH,
    "sick": _WITHOUT_WIDTH,
}
