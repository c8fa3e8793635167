"""Table 7: the words of greatest and smallest δ (position sensitivity), and their sentiment.

δ of a word is its mean |ω|. Strong sentiment words are those of VADER's lexicon, rated by people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from experiments import paper
from experiments.cells import TrainingCell
from experiments.protocol import Protocol, load_cell_splits
from experiments.summary import file_name, protocol_notes
from wordwave.errors import WordwaveError
from wordwave.grid import Record
from wordwave.tables import Content, ResultTable

if TYPE_CHECKING:
    from wordwave.tasks.classifier import TextClassifier


STRONG = 1.5
"""Minimum |valence| of a strong word; ratings go from −4 to 4."""
N_WORDS = 50
MIN_COUNT = 5
"""Minimum count of a word whose δ depends on training more than on its initialization."""
_WORDS_FIELDS = ("words", "counts", "delta", "untrained_delta", "waves")


@cache
def valences() -> dict[str, float]:
    """Mean rating of each word."""
    try:
        text = (files("vaderSentiment") / "vader_lexicon.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        raise WordwaveError(
            "counting sentiment words needs a lexicon: pip install 'wordwave[lexicon]'"
        ) from None
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) > 1}


def is_strong(word: str) -> bool:
    return abs(valences().get(word, 0.0)) >= STRONG


@dataclass(frozen=True)
class WordsRun:
    """Trains a cell in a worker process, and records δ of all words."""

    protocol: Protocol

    def key(self, cell: TrainingCell) -> Record:
        return self.protocol.key(cell, kind="words")

    def __call__(self, cell: TrainingCell) -> Record:
        from experiments.training_runs import run_model

        record, classifier = run_model(self.protocol, cell)
        texts = load_cell_splits(cell.dataset).train.texts
        return {**record, **self.key(cell), **_words_of(classifier, texts)}


def as_run(record: Record) -> Record:
    """The same training as a record of Table 2."""
    return {**{k: v for k, v in record.items() if k not in _WORDS_FIELDS}, "kind": "run"}


def _words_of(classifier: TextClassifier, texts: Sequence[str]) -> Record:
    from wordwave.embedding import WaveEmbedding

    encoder, embedding = classifier.encoder, classifier.model.embedding
    counts = Counter(word for text in texts for word in encoder.tokenizer(text))
    assert isinstance(embedding, WaveEmbedding)
    delta = embedding.sensitivity().tolist()
    numbered = list(enumerate(encoder.vocabulary.words))[2:]
    unseen = [delta[i] for i, word in numbered if word not in counts]
    seen = [(word, counts[word], delta[i]) for i, word in numbered if word in counts]
    return {
        "words": [word for word, _, _ in seen],
        "counts": [count for _, count, _ in seen],
        "delta": [round(d, 6) for _, _, d in seen],
        "untrained_delta": round(sum(unseen) / len(unseen), 6) if unseen else None,
        "waves": _waves(embedding, {word: i for i, word in numbered}, seen),
    }


def _waves(embedding: Any, ids: dict[str, int], seen: list[tuple[str, int, float]]) -> Record:
    """Three dimensions each of the frequent words of greatest, median and smallest δ."""
    ranked = sorted(seen, key=lambda w: w[2])
    often = [w for w in ranked if w[1] >= 4 * MIN_COUNT] or ranked
    amplitude, frequency = embedding.amplitude.full(), embedding.frequency.full()
    waves = {}
    for word, _, delta in (often[-1], often[len(often) // 2], often[0]):
        height = amplitude[ids[word]].expand(embedding.dim).detach()
        turn = frequency[ids[word]].expand(embedding.dim).detach()
        # A wave of period 4 to 48 is visible in a sentence; among those, the largest amplitudes.
        visible = (turn.abs() > 0.13) & (turn.abs() < 1.57)
        order = (height.abs() * (1 + 1e6 * visible)).argsort(descending=True)[:3]
        waves[word] = {
            "delta": round(delta, 6),
            "amplitude": [round(v, 6) for v in height[order].tolist()],
            "frequency": [round(v, 6) for v in turn[order].tolist()],
        }
    return waves


@dataclass(frozen=True)
class Sensitivity:
    """δ of the words of one trained model, and its relation to sentiment."""

    record: Record

    @property
    def ranked(self) -> list[tuple[str, float, int]]:
        """Word, δ and count, the greatest δ first."""
        r = self.record
        rows = list(zip(r["words"], r["delta"], r["counts"], strict=True))
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    @property
    def greatest(self) -> list[str]:
        return [word for word, _, _ in self.ranked[:N_WORDS]]

    @property
    def smallest(self) -> list[str]:
        return [word for word, _, _ in self.ranked[::-1][:N_WORDS]]

    def strong_counts(self) -> tuple[int, int]:
        """Strong sentiment words among the greatest and among the smallest."""
        return sum(map(is_strong, self.greatest)), sum(map(is_strong, self.smallest))

    def fisher(self) -> float:
        """p of Fisher's exact test on the counts of strong words."""
        from scipy.stats import fisher_exact

        n = min(N_WORDS, len(self.ranked))
        a, b = self.strong_counts()
        return float(fisher_exact([[a, n - a], [b, n - b]]).pvalue)

    def auc(self) -> tuple[float, float] | None:
        """The probability that a strong word has a greater δ than another, and p (Mann-Whitney),
        among words that are frequent enough."""
        from scipy.stats import mannwhitneyu

        often = [(is_strong(w), d) for w, d, n in self.ranked if n >= MIN_COUNT]
        strong, others = [d for s, d in often if s], [d for s, d in often if not s]
        if not strong or not others:
            return None
        test = mannwhitneyu(strong, others)
        return float(test.statistic) / (len(strong) * len(others)), float(test.pvalue)

    def auc_within_frequency(self) -> float | None:
        """The same among words of similar frequency, which alone may change δ."""
        bands: dict[int, tuple[list[float], list[float]]] = {}
        for word, delta, count in self.ranked:
            if count >= MIN_COUNT:
                bands.setdefault(count.bit_length(), ([], []))[not is_strong(word)].append(delta)
        won = pairs = 0.0
        for strong, others in bands.values():
            won += sum((a > b) + (a == b) / 2 for a in strong for b in others)
            pairs += len(strong) * len(others)
        return won / pairs if pairs else None

    def tests(self) -> str:
        """All statistics in one line."""
        delta, untrained = self.record["delta"], self.record["untrained_delta"]
        found = [f"Fisher's p {self.fisher():.2g}"]
        auc, within = self.auc(), self.auc_within_frequency()
        if auc is not None and within is not None:
            found.append(f"AUC of strong words {auc[0]:.3f} (p {auc[1]:.2g})")
            found.append(f"among words of similar frequency {within:.3f}")
        found.append(f"δ and count: Spearman {self.count_correlation():+.2f}")
        before = "" if untrained is None else f", {untrained:.4f} before training"
        found.append(f"δ from {min(delta):.4f} to {max(delta):.4f}{before}")
        return "; ".join(found)

    def count_correlation(self) -> float:
        """Spearman correlation of δ and frequency."""
        from scipy.stats import spearmanr

        return float(spearmanr(self.record["delta"], self.record["counts"]).statistic)


def table7(records: Sequence[Record], protocol: Protocol) -> ResultTable:
    """The 50 words of greatest and smallest δ of each model, strong ones in capitals."""
    rows: list[list[Content]] = []
    for record in records:
        found = Sensitivity(record)
        high, low = found.strong_counts()
        rows.append([record["encoder"]])
        rows.append(["greatest", high, _listed(found.greatest)])
        rows.append(["smallest", low, _listed(found.smallest)])
        rows.append(["tests", None, found.tests()])
    rows.append(["the paper's words"])
    for side in ("greatest", "smallest"):
        words = paper.sensitive_words(side)
        rows.append([side, sum(map(is_strong, words)), _listed(words)])
    notes = [
        f"CAPITALS: strong sentiment words, VADER's |valence| ≥ {STRONG}. The paper's own words "
        f"are counted by the same lexicon; by hand it marked {paper.SENTIMENT_WORDS[0]} and "
        f"{paper.SENTIMENT_WORDS[1]} of them.",
        f"AUC: the probability that a strong word has the greater δ, among words seen {MIN_COUNT} "
        "times or more; 0.5 means no relation.",
        "Trained on " + ", ".join(sorted({r["dataset"] for r in records})) + ".",
        *protocol_notes(protocol),
    ]
    title = "Table 7. Words by δ" + (", quick version" if protocol.budget == "quick" else "")
    return ResultTable(
        file_name("table7", protocol),
        title,
        ["δ", "strong", "words"],
        rows,
        notes,
        texts=frozenset({"words"}),
    )


def _listed(words: Sequence[str]) -> str:
    return " ".join(word.upper() if is_strong(word) else word for word in words)
