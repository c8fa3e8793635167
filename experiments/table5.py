"""Whether one translator is better than another: paired bootstrap over sentences (Koehn, 2004).

Works on what each sentence brings to BLEU, so that a table needs neither translations nor
references once they are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

import numpy as np

from experiments.long_table import (
    MINUTES,
    Choices,
    LongCell,
    LongRecord,
    LongTable,
    Panel,
    changed,
    draw_curves,
    named,
)
from experiments.statistics import holm
from wordwave.errors import WordwaveError
from wordwave.grid import Record
from wordwave.models.config import EmbeddingKind
from wordwave.recipes import read_recipe
from wordwave.tables import Content, Grid
from wordwave.tasks.config import TranslationConfig

if TYPE_CHECKING:
    from wordwave.data.parallel import ParallelSplits
    from wordwave.training.loop import Training


N_SAMPLES = 2000
Counts = Sequence[Sequence[int]]
"""Of each sentence: its length, that of its reference, right n-grams (4), all n-grams (4)."""


@dataclass(frozen=True)
class Gap:
    """How much better the first translator is."""

    difference: float
    interval: tuple[float, float]
    """95%, over samples of sentences."""
    p: float
    """Two-sided."""


def bleu_of(sums: Any) -> Any:
    """BLEU of summed counts. Shape: (..., 10) -> (...)"""
    sums = np.asarray(sums, dtype=float)
    said, wanted, right, tried = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(right / tried).mean(-1))
        brevity = np.exp(np.minimum(1 - wanted / said, 0))
    return 100 * np.nan_to_num(brevity * precision)


def paired_bootstrap(ours: Counts, theirs: Counts, *, seed: int = 0) -> Gap:
    """Compare two translations of the same sentences, sampled with the same draws.

    Shape: (N, 10) each
    """
    one, other = np.asarray(ours), np.asarray(theirs)
    if one.shape != other.shape:
        raise WordwaveError(f"both must be of the same sentences, got {len(one)} and {len(other)}")
    draws = np.random.default_rng(seed).multinomial(
        len(one), np.full(len(one), 1 / len(one)), size=N_SAMPLES
    )
    gaps = bleu_of(draws @ one) - bleu_of(draws @ other)
    low, high = np.quantile(gaps, [0.025, 0.975])
    against = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    p = min(1.0, 2 * (against + 1) / (N_SAMPLES + 1))
    difference = float(bleu_of(one.sum(0)) - bleu_of(other.sum(0)))
    return Gap(difference, (float(low), float(high)), p)


Size = Literal["full", "cpu"]
ROWS: dict[str, tuple[str, EmbeddingKind]] = {
    "AED": ("translate-tiny-aed", "none"),
    "Transformer + tpe": ("translate-tiny-real", "tpe"),
    "Transformer + rope": ("translate-tiny-real", "rope"),
    "complex-vanilla": ("translate-tiny-complex", "complex-vanilla"),
    "complex-order": ("translate-tiny-complex", "complex-order"),
    "complex-order, chosen": ("translate-tiny-complex-chosen", "complex-order"),
}
"""The recipe and the embedding of each row; all have as many parameters within a hundredth."""


CPU = {
    "max_steps": 8000,
    "batch_size": 1024,
    "grad_accumulation": 1,
    "learning_rate": 0.003,
    "schedule": "one-cycle",
    "warmup_fraction": 0.1,
    "beta2": 0.98,
    "dropout": 0.15,
    "eval_every": 400,
    "average": 5,
}
"""What one core can do in an hour a row; the recipes read eight times as many words."""


class _Score(TypedDict):
    value: float
    signature: str
    interval: Annotated[list[float], lambda ends: len(ends) == 2]


class _Scores(TypedDict):
    bleu: _Score
    tokenised_bleu: _Score
    chrf: _Score


class _Point(TypedDict):
    step: int
    dev_likelihood: float
    dev_bleu: float | None


class _FirstRelease(TypedDict, total=False):
    test_first_release: _Scores


class _Table5Record(LongRecord, _FirstRelease):
    test: _Scores
    bleu_counts: Annotated[
        list[Annotated[list[int], lambda counts: len(counts) == 10]],
        len,
    ]
    curve: list[_Point]


class _ChoiceRecord(LongRecord):
    dev_surprise: float


@dataclass(frozen=True)
class Table5(LongTable):
    """What is run and where.

    Args:
        out: gets the records, the run folders, the table and the curves.
        size: `"full"` for the recipes, `"cpu"` for shorter trainings on smaller batches.
        data: `"multi30k"`, or `"built-in"` to try it without a download.
        rows: which of `ROWS`.
        steps: updates of every row instead of the recipe's.
        seeds: how many.
        changes: other training or model settings for all rows, such as {"batch_size": 1024}.
    """

    size: Size = "full"
    data: str = "multi30k"
    rows: tuple[str, ...] = tuple(ROWS)
    steps: int | None = None
    seeds: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    figures: ClassVar[type] = _Table5Record
    choice_figures: ClassVar[type] = _ChoiceRecord

    def __post_init__(self) -> None:
        for row in self.rows:
            if row not in ROWS:
                raise WordwaveError(f"rows must be among {', '.join(ROWS)}, got {row!r}")
        if len(set(self.rows)) < max(len(self.rows), 1):
            raise WordwaveError(f"rows must name at least one, and each once, got {self.rows}")
        if self.seeds < 1:
            raise WordwaveError(f"seeds must be at least 1, got {self.seeds}")

    def cells(self) -> list[LongCell]:
        """All trainings."""
        return [
            LongCell(row, seed, self.config(row, seed))
            for seed in range(self.seeds)
            for row in self.rows
        ]

    def config(self, row: str, seed: int = 0) -> TranslationConfig:
        """The settings of a row."""
        recipe, embedding = ROWS[row]
        config = read_recipe(recipe, TranslationConfig)
        changes = {**(CPU if self.size == "cpu" else {}), **dict(self.changes)}
        if self.steps is not None:
            changes["max_steps"] = self.steps
        of_model = {k: changes.pop(k) for k in list(changes) if hasattr(config.model, k)}
        of_text = {k: changes.pop(k) for k in list(changes) if hasattr(config.text, k)}
        return TranslationConfig(
            replace(config.data, data=self.data),
            replace(config.text, **of_text),
            replace(config.model, embedding=embedding, **of_model),
            replace(config.training, seed=seed, **changes),
        )

    def configs(self) -> dict[str, TranslationConfig]:
        return {row: self.config(row) for row in self.rows}

    def training(self, row: str) -> Training:
        from wordwave.tasks.config import load_pairs
        from wordwave.tasks.translation import prepare
        from wordwave.training.loop import Training

        config = self.configs()[row]
        prepared = prepare(config, load_pairs(config.data))
        return Training(prepared.translator.model, prepared.task, config.training)

    def words_per_step(self, row: str) -> int:
        training = self.configs()[row].training
        return training.batch_size * training.grad_accumulation

    def n_parameters(self, row: str) -> int:
        import torch

        from wordwave.models.classifier import count_parameters
        from wordwave.models.lstm_decoder import translation_model

        config = self.configs()[row]
        with torch.device("meta"):  # shapes alone, no memory
            return count_parameters(translation_model(config.model, config.text.bpe_size))

    def train(self, cell: LongCell) -> Record:
        from wordwave.tasks.bleu import bleu_counts
        from wordwave.tasks.config import first_release_targets, load_pairs
        from wordwave.tasks.translation import read_said, scored
        from wordwave.tasks.translator import Translator

        pairs = load_pairs(cell.config.data)
        assert pairs.test is not None
        record = self.trained(cell, pairs)
        translator, said = Translator.load(self.folder(cell)), read_said(self.folder(cell))
        target = translator.pieces.target
        wanted = [target.tokenised(text) for text in pairs.test.targets]
        record["bleu_counts"] = bleu_counts([s.tokenised for s in said], wanted)
        first = first_release_targets(cell.config.data)
        if first is not None:
            record["test_first_release"] = scored(translator, said, first).plain()
        return record

    def trained(self, cell: LongCell, pairs: ParallelSplits) -> Record:
        """Train in a run folder of its own, so that it goes on where it was."""
        import torch

        from wordwave.tasks.run import finished, train
        from wordwave.tasks.translation import Result, check_same_run, prepare
        from wordwave.training.run import read_metrics

        torch.set_num_threads(1)
        folder = self.folder(cell)
        check_same_run(cell.config, folder)
        result = finished(folder, Result) or train(prepare(cell.config, pairs), folder)
        names = ("step", "seconds", "dev_likelihood", "dev_bleu")
        journal = read_metrics(folder / "metrics.jsonl")
        curve = [{name: r.get(name) for name in names} for r in journal]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}


COLOURS = dict(
    zip(ROWS, ("#9aa0a6", "#555555", "#2f9e66", "#e0662f", "#2a6fdb", "#7a3fd1"), strict=True)
)
PUBLISHED = {
    "AED": 34.2,
    "Transformer + tpe": 34.5,
    "complex-vanilla": 34.7,
    "complex-order": 35.8,
}
"""The paper's figures, for models of full size; those of AED (with BPE) and of the Transformer it
took from others."""
OF_THE_PAPER = (
    "The paper's figures are of models of full size and compare only in their order; those of AED "
    "(with BPE) and of the Transformer it took from others."
)
WAVES = ("complex-order", "complex-order, chosen")
COLUMNS = ("row", "parameters", "updates", "seeds", "BLEU", "95%", "first release", "cased", "chrF")


def table5_grids(table: Table5) -> list[Grid]:
    """The table, and the rows with waves against every other one."""
    records = table.records()
    in_order = sorted(records, key=lambda r: int(r["seed"]))
    seconds = table.known_step_seconds()
    is_papers = table.data == "multi30k"
    own = {row: [r for r in in_order if r["row"] == row] for row in table.rows}
    notes = [
        f"Test part of {table.data}, beam 5. BLEU: small letters, tokenised; 95%: bootstrap over "
        "sentences, of the first seed. First release: the same against the German sentences as "
        "they first came out. Models learn from small letters; cased BLEU and chrF are of "
        "translations with capitals put back by how words were spelled in training. Core minutes: "
        "updates times the CPU seconds of a step, all rows measured in turns.",
        *([OF_THE_PAPER] if is_papers else []),
        *sorted({s for r in records for s in _signatures(r["test"])}),
    ]
    whole = Grid(
        "table5",
        "Table 5. Translation at equal parameters and updates",
        [*COLUMNS, MINUTES, *(["paper"] if is_papers else [])],
        [
            [*_cells(row, same, seconds.get(row)), *([_published(row)] if is_papers else [])]
            for row, same in own.items()
            if same
        ],
        notes,
        only_in_files=frozenset({"updates", "seeds", "first release", "cased", MINUTES}),
    )
    tests = _against({r["row"]: r["bleu_counts"] for r in records if r["seed"] == 0})
    return [whole, tests] if tests.rows else [whole]


def _cells(row: str, same: list[Record], step_seconds: float | None) -> list[Content]:
    test = [r["test"] for r in same]
    low, high = test[0]["tokenised_bleu"]["interval"]
    return [
        row,
        same[0]["parameters"],
        same[0]["steps"],
        len(same),
        _mean(test, "tokenised_bleu"),
        f"{low:.2f} to {high:.2f}",
        _mean([r.get("test_first_release") for r in same], "tokenised_bleu"),
        _mean(test, "bleu"),
        _mean(test, "chrf"),
        None if step_seconds is None else f"{same[0]['steps'] * step_seconds / 60:.0f}",
    ]


def _published(row: str) -> str | None:
    return f"{PUBLISHED[row]:.1f}" if row in PUBLISHED else None


def _mean(scores: list[dict[str, Any] | None], name: str) -> str | None:
    values = [s[name]["value"] for s in scores if s]
    return f"{fmean(values):.2f}" if values else None


def _signatures(test: dict[str, Any]) -> list[str]:
    names = {"bleu": "Cased BLEU", "tokenised_bleu": "BLEU", "chrf": "chrF"}
    return [f"{title}: {test[name]['signature']}" for name, title in names.items()]


def _against(counts: dict[str, Any]) -> Grid:
    """Each row with waves against every other row: paired bootstrap over the test sentences."""
    rows: list[list[Content]] = []
    for ours in (row for row in WAVES if row in counts):
        before = WAVES[: WAVES.index(ours) + 1]
        rivals = [row for row in counts if row not in before]
        gaps = {row: paired_bootstrap(counts[ours], counts[row]) for row in rivals}
        p = holm({row: gap.p for row, gap in gaps.items()})
        for row, gap in gaps.items():
            low, high = gap.interval
            between = f"{low:+.2f} to {high:+.2f}"
            rows.append([ours, row, f"{gap.difference:+.2f}", between, f"{p[row]:.2g}"])
    return Grid(
        "table5-tests",
        "Rows with waves against each other row",
        ["row", "against", "BLEU", "95%", "p"],
        rows,
        [
            "Small letters, tokenised, seed 0; paired bootstrap over sentences, Holm over the "
            "rows that one is held against. It knows nothing of what another seed would have done."
        ],
    )


def draw_table5(table: Table5) -> list[Path]:
    """Dev likelihood over updates and over minutes, and dev BLEU over updates."""
    likelihood = "dev: −log-probability of a piece"
    panels = [
        Panel(lambda point: -point["dev_likelihood"], likelihood),
        Panel(lambda point: -point["dev_likelihood"], likelihood, table.known_step_seconds()),
        Panel(lambda point: point["dev_bleu"], "dev: greedy BLEU, small letters"),
    ]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table5")


STEPS = 800
WAVE_CHOICES, CHOSEN = "complex-order", "complex-order, chosen"
SLOWER: dict[str, Any] = {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.01)}
FULL_RATE: dict[str, Any] = {"frequency_lr_scale": 1.0}
WIDER: dict[str, Any] = {"share": "real", "dim": 96, "feed_forward_dim": 144}
"""Real weights that act on both parts of complex numbers, and so may be more."""
CHOICES: dict[str, dict[str, Any]] = {
    "slow waves": {"frequency_init": "log-spaced", "frequency_range": (1e-4, 0.1)},
    "slower waves": SLOWER,
    "frequencies as they start": {"freeze_frequency": True},
    "frequencies at the full rate": FULL_RATE,
    "slower waves, real weights, wider": SLOWER | WIDER,
    "frequencies at the full rate, real weights, wider": FULL_RATE | WIDER,
    "slower waves at the full rate, real weights, wider": SLOWER | FULL_RATE | WIDER,
}
"""What each changes of the complex-order model or of its training."""


@dataclass(frozen=True)
class Table5Choices(Choices, Table5):
    """As Table 5, with choices for rows; the test part is not even translated."""

    title: ClassVar[str] = "What might help the waves of a translation model"
    figure: ClassVar[str] = "dev_surprise"

    def configs(self) -> dict[str, TranslationConfig]:
        found: dict[str, TranslationConfig] = {}
        for row in self.rows:
            if row == CHOSEN:
                continue  # one of the choices
            config = self.config(row)
            training = replace(config.training, max_steps=self.steps or STEPS)
            found[named(row)] = replace(config, training=training)
        waves = found.get(named(WAVE_CHOICES))
        if waves is not None:
            found |= {named(WAVE_CHOICES, name): changed(waves, c) for name, c in CHOICES.items()}
        return found

    def train(self, cell: LongCell) -> Record:
        from wordwave.tasks.config import load_pairs

        pairs = replace(load_pairs(cell.config.data), test=None)
        record = self.trained(cell, pairs)
        return {**record, "dev_surprise": -record["dev_likelihood"]}

    def notes(self, records: Sequence[Record]) -> list[str]:
        return [
            f"{records[0]['steps']:,} steps each on {self.data}, mean −log-probability of a piece "
            "of dev. Each choice changes its row as it was at first."
        ]
