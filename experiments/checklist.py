"""`python -m experiments checklist`: negation and word order, learnt from SST-2's phrases.

Each row is trained on the phrases with default settings, and predicts the texts of the checklist
(wordwave.tasks.checklist). Templates and words that are held out are scored with `--score-held-out`
only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, TypedDict, cast, get_args

from experiments.pair_commands import ChecklistRow
from experiments.records import provenance
from experiments.sentence_rows import mean_score
from wordwave.config_io import fits, to_dict, with_settings
from wordwave.data.splits import Splits, load_splits
from wordwave.grid import Count, Grid, Record, Share, Store
from wordwave.search.baselines import SETTINGS, Baseline, fit_baseline
from wordwave.tables import Content, ResultTable
from wordwave.tasks.checklist import PARTS, Checklist, builtin_templates, builtin_words
from wordwave.tasks.config import ClassificationConfig

CHECKLIST_ROWS: tuple[ChecklistRow, ...] = get_args(ChecklistRow)
SETTINGS_OF: dict[ChecklistRow, dict[str, Any]] = {
    "waves": {},
    "waves-context": {"views": ("start", "context"), "share_frequency": "word"},
    "none": {"embedding": "none"},
    "cnn": {"encoder": "cnn"},
}
"""What differs from the default settings of a classifier."""
TITLES = {
    "waves": "waves",
    "waves-context": "waves, context",
    "none": "no waves",
    "cnn": "CNN",
    "tfidf": "TF-IDF",
    "fasttext-library": "fastText",
}
"""Waves and no waves are bags; TF-IDF and fastText have bigrams."""
DATA, NEGATIVE, POSITIVE = "sst2", "negative", "positive"
KEY = ("row", "seed", "held_out", "config", "n_phrases")


@dataclass(frozen=True)
class ChecklistCell:
    """One training."""

    row: ChecklistRow
    seed: int = 0


class _TemplateScores(TypedDict):
    template: str
    words: Annotated[str, PARTS.__contains__]
    n_pairs: Count
    texts: Share
    pairs: Share


class _NegatedScores(TypedDict):
    """Of "not" + the words of a class: the share that is predicted as the opposite class."""

    words: Annotated[str, PARTS.__contains__]
    label: str
    seen: bool
    """Whether "not" + the word is in the training phrases."""
    n: Count
    share: Share


class _ChecklistRecord(TypedDict):
    row: Annotated[str, CHECKLIST_ROWS.__contains__]
    seed: int
    held_out: bool
    n_phrases: Count
    dev_accuracy: Share
    seconds: float
    templates: list[_TemplateScores]
    negated: list[_NegatedScores]


@dataclass(frozen=True)
class ChecklistTable:
    """The trainings, and what they predict.

    Args:
        out: the folder of records and tables.
        held_out: score the held-out templates and words as well.
        n_phrases: training phrases, a random sample; 0 for all.
        epochs: of the models that are ours; `None` for the default.
    """

    out: Path
    rows: tuple[ChecklistRow, ...] = CHECKLIST_ROWS
    seeds: int = 3
    held_out: bool = False
    n_phrases: int = 0
    epochs: int | None = None

    @property
    def grid(self) -> Grid[ChecklistCell]:
        store = Store(
            self.out / "records.jsonl", KEY, lambda record: fits(record, _ChecklistRecord)
        )
        cells = [
            ChecklistCell(row, seed)
            for seed, row in product(range(self.seeds), self.rows)
            if seed == 0 or row != "tfidf"
        ]
        return Grid(store, cells, self.key, self.run, "trainings")

    def config(self, cell: ChecklistCell) -> ClassificationConfig:
        more = {} if self.epochs is None else {"epochs": self.epochs}
        settings = {**SETTINGS_OF[cell.row], "data": DATA, "seed": cell.seed, **more}
        return with_settings(ClassificationConfig(), **settings)

    def key(self, cell: ChecklistCell) -> Record:
        baseline = SETTINGS.get(cast("Baseline", cell.row))
        return {
            "row": cell.row,
            "seed": cell.seed,
            "held_out": self.held_out,
            "config": to_dict(self.config(cell)) if baseline is None else baseline,
            "n_phrases": len(phrases(self.n_phrases).train),
        }

    def run(self, cell: ChecklistCell) -> Record:
        """Train on one thread, and score the checklist."""
        import torch

        from wordwave.tasks.classification_job import ClassificationJob

        torch.set_num_threads(1)
        parts, start = phrases(self.n_phrases), time.process_time()
        assert parts.dev is not None
        if cell.row in SETTINGS:
            predict = fit_baseline(cell.row, parts.train, cell.seed).predict
        else:
            job = ClassificationJob(self.config(cell)).prepare(parts)
            for _ in job.run(job.training()):
                pass
            predict = job.text_model.predict
        seconds = time.process_time() - start
        predicted = predict(list(parts.dev.texts))
        return {
            **self.key(cell),
            "dev_accuracy": fmean(map(str.__eq__, predicted, parts.dev.labels)),
            "seconds": round(seconds, 1),
            **self._scores(predict, parts),
            **provenance(),
        }

    def _scores(self, predict: Any, parts: Splits) -> Record:
        """What is predicted for the open templates and words, or for all."""
        scored = PARTS if self.held_out else ("open",)
        tokens = map(str.split, parts.train.texts)
        seen = {b for words in tokens for a, b in pairwise(words) if a == "not"}
        templates: list[_TemplateScores] = []
        negated: list[_NegatedScores] = []
        for part in scored:
            words = builtin_words(part)
            made = Checklist((NEGATIVE, POSITIVE), words, builtin_templates(*scored))
            scores = made.evaluate(predict)
            for one in scores.by_template():
                shares = {name: one[name] for name in ("template", "n_pairs", "texts", "pairs")}
                templates.append(cast("_TemplateScores", {**shares, "words": part}))
            for label, own, is_seen in _groups(made):
                some = [word for word in own if (word in seen) == is_seen]
                if (share := scores.negated(label, some)) is not None:
                    negated.append(
                        {"words": part, "label": label, "seen": is_seen, "n": len(some),
                         "share": share}
                    )  # fmt: skip
        return {"templates": templates, "negated": negated}

    def tables(self, records: Sequence[Record], note: str = "") -> list[ResultTable]:
        """The rows with the figures that sum them up, and the pairs of each template."""
        notes = [
            "Trained on SST-2's phrases with default settings; mean ± standard deviation over "
            "seeds. Validation: accuracy on SST-2's validation sentences.",
            'Not good: the share of "not" + a positive word that is predicted as negative. Not '
            'bad: that of "not" + a negative word that is predicted as positive. Seen: open words '
            "of which this is a bigram of the training phrases; open: those of which it is not; "
            "held-out: words that never have not, n't or never among the three words before them.",
            "Pairs: minimal pairs of which both texts are right, mean over templates, open ones "
            "with open words and held-out ones with held-out words, which were fixed before any "
            "model was scored. Seconds: CPU time of the training.",
            *([note] if note else []),
        ]
        rows = [row for row in CHECKLIST_ROWS if any(r["row"] == row for r in records)]
        of_row = {row: [r for r in records if r["row"] == row] for row in rows}
        return [_summary(of_row, notes), _by_template(of_row, notes)]


def _groups(made: Checklist) -> Iterator[tuple[str, Sequence[str], bool]]:
    for label, words in zip(made.classes, made.words, strict=True):
        for is_seen in (True, False):
            yield label, words, is_seen


def _summary(of_row: dict[ChecklistRow, list[Record]], notes: list[str]) -> ResultTable:
    groups = [("open", True), ("open", False), ("held-out", False)]
    names = ["seen", "open", "held-out"]
    columns = ["model", "validation", *(f"not good: {name}" for name in names)]
    columns += [
        *(f"not bad: {name}" for name in names),
        "pairs: open",
        "pairs: held-out",
        "seconds",
    ]
    lines: list[list[Content]] = []
    for row, records in of_row.items():
        line: list[Content] = [TITLES[row], mean_score([r["dev_accuracy"] for r in records])]
        for label, (words, seen) in product((POSITIVE, NEGATIVE), groups):
            wanted = {"label": label, "words": words, "seen": seen}
            negated = [n for r in records for n in r["negated"] if wanted.items() <= n.items()]
            line.append(mean_score([n["share"] for n in negated]))
        for part in PARTS:
            names_of_part = {template.name for template in builtin_templates(part)}
            means = [
                fmean(found)
                for r in records
                if (found := [
                    t["pairs"]
                    for t in r["templates"]
                    if t["words"] == part and t["template"] in names_of_part
                ])
            ]  # fmt: skip
            line.append(mean_score(means))
        lines.append([*line, round(fmean(r["seconds"] for r in records))])
    hidden = frozenset({"not good: seen", "not bad: seen", "seconds"})
    return ResultTable(
        "checklist", "Negation and word order", columns, lines, notes=notes, only_in_files=hidden
    )


def _by_template(of_row: dict[ChecklistRow, list[Record]], notes: list[str]) -> ResultTable:
    lines: list[list[Content]] = []
    for template in builtin_templates():
        scores: list[Content] = []
        for records in of_row.values():
            found = [
                fmean(t["pairs"] for t in r["templates"] if t["template"] == template.name)
                for r in records
                if any(t["template"] == template.name for t in r["templates"])
            ]
            scores.append(fmean(found) if found else None)
        if [template.kind] not in lines:
            lines.append([template.kind])
        mark = " †" if template.part == "held-out" else ""
        lines.append([f"{template.same} / {template.opposite}{mark}", *scores])
    title = "Pairs of each template of which both texts are right"
    columns = ["template", *(TITLES[row] for row in of_row)]
    notes = [notes[0], "† Held-out template. All words that were scored.", *notes[3:]]
    return ResultTable("checklist-templates", title, columns, lines, notes=notes)


@cache
def phrases(n: int) -> Splits:
    """SST-2's training phrases, all or a random sample, and its validation sentences; no test
    sentences."""
    parts = load_splits(DATA)
    train = parts.train
    if n and n < len(train):
        train = train.subset(sorted(random.Random(0).sample(range(len(train)), n)))
    return Splits(train, parts.dev, None)
