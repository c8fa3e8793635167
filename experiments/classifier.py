"""`python -m experiments classifier`: the default classifier beside TF-IDF and fastText, from 60
texts to all of a data set.

Every row is trained on the same draws of training texts, with default settings. Validation parts
are scored to choose defaults, on `CHOSEN_ON` only; test parts with `--score-test` only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict, cast

from experiments.pair_commands import ClassifierRow
from experiments.records import provenance
from experiments.statistics import confidence_interval
from wordwave.config_io import fits
from wordwave.data.examples import Examples
from wordwave.data.registry import data_home
from wordwave.data.splits import load_splits
from wordwave.data.tables import read_prepared
from wordwave.grid import Count, Grid, Record, Share, Store
from wordwave.search.baselines import SETTINGS, Baseline, fit_baseline
from wordwave.tables import Content, ResultTable, Score

if TYPE_CHECKING:
    from wordwave.sklearn import WaveClassifier

CHOSEN_ON = ("mr", "subj", "trec")
"""Data sets whose validation parts chose the defaults."""
DATA = (*CHOSEN_ON, "cr", "mpqa", "sst2-sentences", "imdb")
PRECEDENCE = "precedence"
"""A generated task that only word order decides; see `precedence`."""
SIZES = (60, 200, 600, 2000, 0)
"""Training texts; 0 for all."""
MANY_DRAWS, FEW_DRAWS = 10, 3
"""Draws of at most `SMALL` training texts, and of more; of all texts, seeds."""
SMALL = 600
MAX_TEST = 5000
"""Test texts: of more (IMDB), the same random ones for all rows."""
TITLES = {
    "waves": "wordwave",
    "waves-vectors": "wordwave, word2vec",
    "tfidf": "TF-IDF",
    "tfidf-char": "TF-IDF, characters",
    "fasttext-library": "fastText",
    "tpe": "sinusoids added",
    "none": "no positions",
}
SETTINGS_OF: dict[str, dict[str, Any]] = {
    "waves-vectors": {"vectors": "googlenews300"},
    "tpe": {"embedding": "tpe"},
    "none": {"embedding": "none"},
}
"""What differs from the defaults of `WaveClassifier`."""
RIVALS: tuple[ClassifierRow, ...] = ("tfidf", "fasttext-library")
MARGIN = 0.01
LAST = {0: 1 << 40, -1: 1 << 41}
"""Where all texts, and the mean over all sizes, stand among sizes."""
KEY = ("part", "data", "size", "draw", "row", "settings")


@dataclass(frozen=True)
class ClassifierCell:
    """One training."""

    data: str
    size: int
    draw: int
    row: ClassifierRow


class _ClassifierRecord(TypedDict):
    part: str
    data: str
    size: int
    draw: int
    row: str
    n_train: Count
    n_scored: Count
    accuracy: Share
    n_classes: Count
    n_predicted: Count
    """Classes that were predicted at least once."""
    seconds: float


@dataclass(frozen=True)
class ClassifierTable:
    """The trainings, and their accuracy.

    Args:
        out: the folder of records and tables.
        score_test: score test parts instead of validation parts.
    """

    out: Path
    rows: tuple[ClassifierRow, ...]
    data: tuple[str, ...] = DATA
    sizes: tuple[int, ...] = SIZES
    draws: int = MANY_DRAWS
    score_test: bool = False

    @property
    def part(self) -> str:
        return "test" if self.score_test else "validation"

    @property
    def grid(self) -> Grid[ClassifierCell]:
        store = Store(
            self.out / "records.jsonl", KEY, lambda record: fits(record, _ClassifierRecord)
        )
        cells = [
            ClassifierCell(data, size, draw, row)
            for size, draw, data, row in product(
                self.sizes, range(self.draws), self.data, self.rows
            )
            if draw < FEW_DRAWS or 0 < size <= SMALL
        ]
        return Grid(store, cells, self.key, self.run, "trainings")

    def key(self, cell: ClassifierCell) -> Record:
        settings = SETTINGS.get(cast("Baseline", cell.row), SETTINGS_OF.get(cell.row, {}))
        place = {"data": cell.data, "size": cell.size, "draw": cell.draw, "row": cell.row}
        return {"part": self.part, **place, "settings": settings}

    def run(self, cell: ClassifierCell) -> Record:
        """Train on one thread, and score."""
        import torch

        torch.set_num_threads(1)
        pool, scored = parts_of(cell.data, self.part)
        train = drawn(pool, cell.size, cell.draw)
        start = time.process_time()
        fitted: Any = (
            fit_baseline(cell.row, train, cell.draw)
            if cell.row in SETTINGS
            else self._fit(cell, train)
        )
        seconds = time.process_time() - start
        predicted = list(map(str, fitted.predict(scored.texts)))
        return {
            **self.key(cell),
            "n_train": len(train),
            "n_scored": len(scored),
            "accuracy": fmean(map(str.__eq__, predicted, scored.labels)),
            "n_classes": len(set(train.labels)),
            "n_predicted": len(set(predicted)),
            "seconds": round(seconds, 2),
            **provenance(),
        }

    def _fit(self, cell: ClassifierCell, train: Examples) -> WaveClassifier:
        from wordwave.sklearn import WaveClassifier

        estimator = WaveClassifier(random_state=cell.draw, **SETTINGS_OF.get(cell.row, {}))
        return estimator.fit(train.texts, train.labels)

    def tables(self, records: Sequence[Record], note: str = "") -> list[ResultTable]:
        """Accuracies of each data set and size, and differences to the better rival."""
        of_cell: dict[tuple[str, int], dict[str, dict[int, Record]]] = {}
        for r in records:
            of_row = of_cell.setdefault((r["data"], r["size"]), {})
            of_row.setdefault(r["row"], {})[r["draw"]] = r
        rows = [row for row in TITLES if any(row in found for found in of_cell.values())]
        columns = ["data", "texts", *(TITLES[row] for row in rows), "difference", "draws"]
        lines: list[list[Content]] = []
        means: dict[int, dict[str, list[float]]] = {}
        below = single = 0
        for (data, size), found in sorted(of_cell.items(), key=_order):
            of_size = means.setdefault(size, {row: [] for row in rows})
            line: list[Content] = [data, _first(found)["n_train"]]
            for row in rows:
                accuracies = [r["accuracy"] for r in found.get(row, {}).values()]
                line.append(_score(accuracies))
                of_size[row] += [fmean(accuracies)] if accuracies else []
            difference = _difference(found)
            below += difference is not None and _is_below(difference)
            single += _collapsed(found)
            line += [difference, len(found.get("waves", {}))]
            lines.append(line)
        means[-1] = {row: [x for m in means.values() for x in m[row]] for row in rows}
        for size, of_size in sorted(means.items(), key=lambda item: LAST.get(item[0], item[0])):
            name = {0: "all", -1: "all sizes"}.get(size, f"{size:,}")
            n = max(map(len, of_size.values()))
            overall: list[Content] = [
                fmean(of_size[row]) if len(of_size[row]) == n else None for row in rows
            ]
            lines.append(["mean", name, *overall, None, None])
        notes = [
            f"Accuracy on {self.part} texts, ± half of the 95% interval of the mean over draws of "
            "training texts, which are the same for all rows. TF-IDF: words and bigrams, logistic "
            "regression with C = 10; characters: 2- to 5-grams within words; fastText: bigrams, 25 "
            "epochs. All at their defaults.",
            "Difference: ours minus the better of TF-IDF (words) and fastText, draw by draw, ± "
            "half of its 95% interval.",
            f"Cells whose interval lies below −{MARGIN}: {below}. Trainings of ours that predict a "
            f"single class where a rival predicts more: {single}.",
            *_gains(of_cell),
            *([note] if note else []),
        ]
        title = "The default classifier beside TF-IDF and fastText"
        name = "classifier" if self.score_test else "classifier-validation"
        if self.data == (PRECEDENCE,):
            lines, name, title = lines[:1], PRECEDENCE, "Which of two words comes first"
            notes = [notes[0], PRECEDENCE_NOTE]
        return [ResultTable(name, title, columns, lines, notes=notes)]


def _order(item: tuple[tuple[str, int], Any]) -> tuple[int, float]:
    (data, size), _ = item
    return (*DATA, PRECEDENCE).index(data), size or float("inf")


def _first(found: dict[str, dict[int, Record]]) -> Record:
    return next(iter(next(iter(found.values())).values()))


def _score(values: Sequence[float]) -> Score | None:
    return Score(fmean(values), confidence_interval(values), len(values)) if values else None


def _difference(found: dict[str, dict[int, Record]]) -> Score | None:
    """To the rival with the higher mean, over the draws that all three have."""
    if not {"waves", *RIVALS} <= found.keys():
        return None
    draws = set.intersection(*(set(found[row]) for row in ("waves", *RIVALS)))
    accuracy = {row: [found[row][d]["accuracy"] for d in sorted(draws)] for row in found
                if row in ("waves", *RIVALS)}  # fmt: skip
    if not draws:
        return None
    better = max(RIVALS, key=lambda row: fmean(accuracy[row]))
    return _score([a - b for a, b in zip(accuracy["waves"], accuracy[better], strict=True)])


def _gains(of_cell: dict[tuple[str, int], dict[str, dict[int, Record]]]) -> list[str]:
    """What pretrained vectors add to the default, draw by draw, where there are enough draws."""
    gains = []
    for (data, size), found in sorted(of_cell.items(), key=_order):
        ours, theirs = found.get("waves", {}), found.get("waves-vectors", {})
        draws = sorted(ours.keys() & theirs.keys())
        gain = _score([theirs[d]["accuracy"] - ours[d]["accuracy"] for d in draws])
        if gain is not None and len(draws) >= FEW_DRAWS:
            half = "" if gain.half is None else f" ± {gain.half:.3f}"
            where = f"{data}, {f'{size:,}' if size else 'all'} texts"
            gains.append(f"{where}: {gain.mean:+.3f}{half} ({len(draws)} draws)")
    if not gains:
        return []
    return [f"Gain from word2vec, ± half of its 95% interval: {'; '.join(gains)}."]


def _is_below(difference: Score) -> bool:
    return difference.mean + (difference.half or 0.0) < -MARGIN


def _collapsed(found: dict[str, dict[int, Record]]) -> int:
    """Trainings of ours that predict one class where a rival predicts more."""
    rivals = [found.get(row, {}) for row in RIVALS]
    return sum(
        record["n_predicted"] == 1
        and any(rival[d]["n_predicted"] > 1 for rival in rivals if d in rival)
        for d, record in found.get("waves", {}).items()
    )


@cache
def parts_of(data: str, part: str) -> tuple[Examples, Examples]:
    """Training texts to draw from, and texts to score."""
    if data == PRECEDENCE:
        return precedence(N_PAIRS, seed=1), precedence(1000, seed=2)
    if part == "validation" and data not in CHOSEN_ON:
        raise ValueError(f"validation parts are those of {CHOSEN_ON}, got {data!r}")
    if data == "imdb":
        train, test = (read_prepared(data_home() / f"imdb.{p}.tsv.gz") for p in ("train", "test"))
        rows = sorted(random.Random(0).sample(range(len(test)), min(len(test), MAX_TEST)))
        return train, test.subset(rows)
    if data == "sst2-sentences":
        parts = load_splits("sst2")
        assert parts.test is not None
        names = {"0": "negative", "1": "positive"}
        train = read_prepared(data_home() / "sst2.sentences.train.tsv.gz")
        labels = [names.get(label, label) for label in train.labels]
        return Examples(train.texts, labels, "sst2 sentences"), parts.test
    parts = load_splits(data)
    assert parts.dev is not None
    assert parts.test is not None
    if part == "validation":
        return parts.train, parts.dev
    whole = Examples(
        [*parts.train.texts, *parts.dev.texts], [*parts.train.labels, *parts.dev.labels], data
    )
    return whole, parts.test


N_MARKERS, N_FILLERS, N_PAIRS = 10, 180, 8000
PRECEDENCE_NOTE = (
    f"Sentences of 10 to 20 words with two of {N_MARKERS} markers among {N_FILLERS} others, in "
    f"minimal pairs: the class is whether the marker of the lower number comes first. {N_PAIRS:,} "
    "pairs for training, 1,000 others that are scored. Draws are orders of the training texts, and "
    "seeds."
)


def precedence(n_pairs: int, seed: int) -> Examples:
    """Minimal pairs of sentences, in which two markers are exchanged."""
    rng, texts = random.Random(seed), list[str]()
    for _ in range(n_pairs):
        words = [f"filler{rng.randrange(N_FILLERS)}" for _ in range(rng.randint(10, 20))]
        first, second = sorted(rng.sample(range(len(words)), 2))
        for pair in (markers := sorted(rng.sample(range(N_MARKERS), 2)), markers[::-1]):
            words[first], words[second] = (f"marker{number}" for number in pair)
            texts.append(" ".join(words))
    return Examples(texts, ["in order", "reversed"] * n_pairs, PRECEDENCE)


def drawn(pool: Examples, size: int, draw: int) -> Examples:
    """A random subset of the training texts, in random order; 0 for all."""
    rng = random.Random(draw)
    rows = sorted(range(len(pool)), key=lambda _: rng.random())
    return pool.subset(rows[: size or len(rows)])
