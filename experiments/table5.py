"""Table 5 of the paper: translation on Multi30k, at equal parameters and updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

from experiments import paper
from experiments.long_table import (
    CORE_MINUTES,
    LongCell,
    LongRecord,
    LongTable,
    Panel,
    draw_curves,
)
from experiments.statistics import bleu_counts, holm, paired_bootstrap
from wordwave.config_io import MOST_JSON, from_dict, parse_json, with_settings
from wordwave.embedding.config import EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.files import read_text
from wordwave.grid import Record
from wordwave.recipes import read_recipe
from wordwave.tables import Content, ResultTable
from wordwave.tasks.config import TranslationConfig

if TYPE_CHECKING:
    from wordwave.data.parallel import ParallelSplits
    from wordwave.tasks.translator import Translation
    from wordwave.training.loop import Training

Size = Literal["full", "cpu"]
ROWS: dict[str, tuple[str, EmbeddingKind]] = {
    "AED": ("translate-tiny-aed", "none"),
    "Transformer + tpe": ("translate-tiny-real", "tpe"),
    "Transformer + rope": ("translate-tiny-real", "rope"),
    "complex-vanilla": ("translate-tiny-complex", "complex-vanilla"),
    "complex-order": ("translate-tiny-complex", "complex-order"),
    "complex-order, chosen": ("translate-tiny-complex-chosen", "complex-order"),
    "complex-order, shared frequencies": ("translate-tiny-complex", "complex-order"),
    "Transformer + waves in attention": ("translate-tiny-real", "wave-attention"),
}
"""The recipe and the embedding of each row; parameters agree within one percent."""
ROW_SETTINGS: dict[str, dict[str, Any]] = {
    # One frequency per dimension leaves 0.8 of 2.6 million parameters to wider layers.
    "complex-order, shared frequencies": {
        "share_frequency": "word",
        "dim": 100,
        "feed_forward_dim": 192,
    },
    "Transformer + waves in attention": {"feed_forward_dim": 224},
}
"""What a row changes of its recipe."""
CHOSEN: dict[str, dict[str, Any]] = {}
"""Learning rates of size cpu that differ from `CPU`, selected by --choices."""
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 1.8)
"""Tried on the validation set by every finished row, with its own translations."""
CPU: dict[str, Any] = {
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
"""An hour per row on one core; the recipes train on eight times as many words."""
COLOURS = dict(
    zip(
        ROWS,
        ("#9aa0a6", "#555555", "#2f9e66", "#e0662f", "#2a6fdb", "#7a3fd1", "#00a0b0", "#b8860b"),
        strict=True,
    )
)
PUBLISHED = {
    "AED": 34.2,
    "Transformer + tpe": 34.5,
    "complex-vanilla": 34.7,
    "complex-order": 35.8,
}
"""The paper's BLEU, of full-size models."""
PUBLISHED_NOTE = (
    "The paper's BLEU is of full-size models: compare the order of rows only. It took those of AED "
    "(with BPE) and of the Transformer from others."
)
WAVE_ROWS = ("complex-order", "complex-order, chosen", "complex-order, shared frequencies")
COLUMNS = (
    *("row", "parameters", "updates", "seeds", "BLEU", "95%", "first release", "cased", "chrF"),
    "length penalty",
)


class _Metric(TypedDict):
    value: float
    signature: str
    interval: Annotated[list[float], lambda ends: len(ends) == 2]


class _Metrics(TypedDict):
    bleu: _Metric
    tokenised_bleu: _Metric
    chrf: _Metric


class _Point(TypedDict):
    step: int
    dev_likelihood: float
    dev_bleu: float | None


class _Optional(TypedDict, total=False):
    test_first_release: _Metrics
    length_penalty: float


class _Table5Record(LongRecord, _Optional):
    test: _Metrics
    bleu_counts: Annotated[
        list[Annotated[list[int], lambda counts: len(counts) == 10]],
        len,
    ]
    curve: list[_Point]


class _ChoiceRecord(LongRecord):
    dev_loss: float


@dataclass(frozen=True)
class Table5(LongTable):
    """The trainings of Table 5.

    Args:
        out: folder of the records, the run folders, the table and the curves.
        size: `"full"` for the recipes, `"cpu"` for shorter trainings on smaller batches.
        data: `"multi30k"`, or `"built-in"`, which needs no download.
        rows: which of `ROWS`.
        steps: updates of every row, instead of those of the size.
        seeds: number of seeds.
        changes: other settings for all rows, such as (("batch_size", 1024),).
    """

    size: Size = "full"
    data: str = "multi30k"
    rows: tuple[str, ...] = tuple(ROWS)
    steps: int | None = None
    seeds: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    config_type: ClassVar[type] = TranslationConfig
    record_type: ClassVar[type] = _Table5Record
    choice_record_type: ClassVar[type] = _ChoiceRecord

    def __post_init__(self) -> None:
        for row in self.rows:
            if row not in ROWS:
                raise WordwaveError(f"rows must be among {', '.join(ROWS)}, got {row!r}")
        if len(set(self.rows)) < max(len(self.rows), 1):
            raise WordwaveError(f"rows must name at least one, and each once, got {self.rows}")
        if self.seeds < 1:
            raise WordwaveError(f"seeds must be at least 1, got {self.seeds}")

    def cells(self) -> list[LongCell]:
        return [
            LongCell(row, seed, self.config(row, seed))
            for seed in range(self.seeds)
            for row in self.rows
        ]

    def config(self, row: str, seed: int = 0) -> TranslationConfig:
        """The configuration of a row."""
        recipe, embedding = ROWS[row]
        steps = {} if self.steps is None else {"max_steps": self.steps}
        settings: dict[str, Any] = {"data": self.data, "embedding": embedding, "seed": seed}
        if self.size == "cpu":
            settings |= CPU | CHOSEN.get(row, {})
        settings |= ROW_SETTINGS.get(row, {}) | dict(self.changes) | steps
        return with_settings(read_recipe(recipe, TranslationConfig), **settings)

    def configs(self) -> dict[str, TranslationConfig]:
        return {row: self.config(row) for row in self.rows}

    def training(self, row: str) -> Training:
        from wordwave.tasks.translation import TranslationJob

        job = TranslationJob(self.configs()[row])
        return job.prepare(job.load_data()).training()

    def tokens_per_step(self, row: str) -> int:
        training = self.configs()[row].training
        return training.batch_size * training.grad_accumulation

    def n_parameters(self, row: str) -> int:
        import torch

        from wordwave.models.encoder_decoder import translation_model
        from wordwave.models.utils import count_parameters

        config = self.configs()[row]
        with torch.device("meta"):  # shapes only, no memory
            return count_parameters(translation_model(config.model, config.text.bpe_size))

    def train(self, cell: LongCell) -> Record:
        from wordwave.data.parallel import load_pairs
        from wordwave.tasks.translation import score
        from wordwave.tasks.translator import Translator

        data = cell.config.data
        splits = load_pairs(data)
        assert splits.test is not None
        record = self.train_in_folder(cell, splits)
        folder = self.folder(cell)
        translator, translations = Translator.load(folder), read_translations(folder)
        target = translator.subwords.target
        references = [target.tokenised(text) for text in splits.test.targets]
        record["bleu_counts"] = bleu_counts([t.tokenised for t in translations], references)
        # Only the German sentences were released twice.
        first = first_release(data.data) if data.target_language == "de" else None
        if first is not None:
            record["test_first_release"] = score(translator, translations, first)
        return record

    def train_in_folder(self, cell: LongCell, splits: ParallelSplits) -> Record:
        """Train in the cell's run folder, resuming what is there."""
        import torch

        from wordwave.tasks.translation import TranslationJob
        from wordwave.training.run import read_metrics

        torch.set_num_threads(1)
        folder = self.folder(cell)
        job = TranslationJob(cell.config)
        job.length_penalties = LENGTH_PENALTIES
        job.check_config(folder)
        result = job.finished(folder) or job.prepare(splits).train(folder)
        names = ("step", "seconds", "dev_likelihood", "dev_bleu")
        metrics = read_metrics(folder / "metrics.jsonl")
        curve = [{name: r.get(name) for name in names} for r in metrics]
        return {**cell.key(), **result, "curve": curve, "torch": torch.__version__}


def read_translations(folder: Path) -> list[Translation]:
    """The translations of the test set that a finished run has kept."""
    from wordwave.tasks.translation import TRANSLATIONS
    from wordwave.tasks.translator import Translation

    path = folder / TRANSLATIONS
    lines = read_text(path, most=MOST_JSON).removesuffix("\n").split("\n")
    return [from_dict(Translation, parse_json(line), where=f"'{path}'") for line in lines]


def table5_tables(table: Table5) -> list[ResultTable]:
    """The table, and the rows with waves against every other one."""
    records = table.records()
    in_order = sorted(records, key=lambda r: int(r["seed"]))
    seconds = table.known_step_seconds()
    is_papers = table.data == "multi30k"
    rows: list[list[Content]] = []
    for row in table.rows:
        own = [r for r in in_order if r["row"] == row]
        if own:
            published = f"{PUBLISHED[row]:.1f}" if row in PUBLISHED else None
            rows.append([*_cells(row, own, seconds.get(row)), *([published] if is_papers else [])])
    if rows and is_papers:
        blank: list[Content] = [None] * len(COLUMNS)
        rows.append(["reported by others, from the paper's Table 5"])
        rows += [[name, *blank, value] for name, value in paper.reported("table5").items()]
    notes = [
        f"Test set of {table.data}, beam 5. BLEU: lowercased, tokenized; 95%: bootstrap over "
        "sentences, first seed. First release: the same against the German sentences as they were "
        "first released. Models are trained on lowercased text; cased BLEU and chrF are of "
        "translations whose capitals are restored by the spelling of words in the training set. "
        "Core minutes: updates times the CPU seconds of a step, all rows timed in turns. Length "
        f"penalty: the best of {', '.join(map(str, LENGTH_PENALTIES))} on the validation set; 1 "
        "where there is none.",
        *([PUBLISHED_NOTE] if is_papers else []),
        *sorted({s for r in records for s in _signatures(r["test"])}),
    ]
    main = ResultTable(
        "table5",
        "Table 5. Translation at equal parameters and updates",
        [*COLUMNS, CORE_MINUTES, *(["paper"] if is_papers else [])],
        rows,
        notes,
        only_in_files=frozenset(
            {"updates", "seeds", "first release", "cased", "length penalty", CORE_MINUTES}
        ),
    )
    tests = significance_table({r["row"]: r["bleu_counts"] for r in records if r["seed"] == 0})
    return [main, tests] if tests.rows else [main]


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
        " ".join(sorted({str(r["length_penalty"]) for r in same if "length_penalty" in r})) or None,
        None if step_seconds is None else f"{same[0]['steps'] * step_seconds / 60:.0f}",
    ]


def _mean(metrics: Sequence[dict[str, Any] | None], name: str) -> str | None:
    values = [m[name]["value"] for m in metrics if m]
    return f"{fmean(values):.2f}" if values else None


def _signatures(test: dict[str, Any]) -> list[str]:
    names = {"bleu": "Cased BLEU", "tokenised_bleu": "BLEU", "chrf": "chrF"}
    return [f"{title}: {test[name]['signature']}" for name, title in names.items()]


def significance_table(counts: dict[str, Any]) -> ResultTable:
    """Each row with waves against every other row: paired bootstrap over the test sentences."""
    rows: list[list[Content]] = []
    for ours in (row for row in WAVE_ROWS if row in counts):
        before = WAVE_ROWS[: WAVE_ROWS.index(ours) + 1]
        others = [row for row in counts if row not in before]
        found = {row: paired_bootstrap(counts[ours], counts[row]) for row in others}
        p = holm({row: comparison.p for row, comparison in found.items()})
        for row, comparison in found.items():
            low, high = comparison.interval
            difference, interval = f"{comparison.difference:+.2f}", f"{low:+.2f} to {high:+.2f}"
            rows.append([ours, row, difference, interval, f"{p[row]:.2g}"])
    return ResultTable(
        "table5-tests",
        "Rows with waves against each other row",
        ["row", "baseline", "BLEU difference", "95%", "p"],
        rows,
        [
            "Lowercased, tokenized, seed 0; paired bootstrap over sentences, Holm over the "
            "baselines of a row. It does not include the variance between seeds."
        ],
    )


def draw_table5(table: Table5) -> list[Path]:
    """Validation loss over updates and over minutes, and validation BLEU over updates."""
    loss = "validation: −log-probability of a subword"
    panels = [
        Panel(lambda point: -point["dev_likelihood"], loss),
        Panel(lambda point: -point["dev_likelihood"], loss, table.known_step_seconds()),
        Panel(lambda point: point["dev_bleu"], "validation: greedy BLEU, lowercased"),
    ]
    return draw_curves(table.records(), COLOURS, panels, table.out / "table5")


def first_release(name: str) -> list[str] | None:
    """The German test sentences as first released, which papers of 2016 to 2020 used, if they are
    in the data home: multi30k/paper/test.de.gz, which `data prepare` cannot download."""
    from wordwave.data.registry import data_home
    from wordwave.data.tables import read_texts

    file = data_home() / name / "paper" / "test.de.gz"
    return list(read_texts(file, form="txt")) if file.is_file() else None
