"""Sentences and their translations, as the training loop wants them."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.config_io import MOST_JSON, from_dict, parse_json
from wordwave.data.parallel import ParallelSentences, ParallelSplits
from wordwave.errors import WordwaveError
from wordwave.files import read_text, write_text
from wordwave.memory import check_training_fits
from wordwave.models.classifier import count_parameters
from wordwave.models.encoder_decoder import END, PADDING, START, UNKNOWN
from wordwave.models.eval_mode import eval_mode
from wordwave.models.lstm_decoder import translation_model
from wordwave.tasks.bleu import TranslationScores, score_translations, tokenised_bleu
from wordwave.tasks.config import TranslationConfig, TranslationTrainingConfig
from wordwave.tasks.run import Prepared, check_same
from wordwave.tasks.translator import (
    Search,
    SubwordEncoder,
    Translation,
    Translator,
    texts_of,
    train_subwords,
)
from wordwave.tensor_files import check_like
from wordwave.text.batching import Sentences, by_length, token_batches
from wordwave.training.loop import Training
from wordwave.training.positions import check_reach
from wordwave.training.task import Positions

Weights = dict[str, Tensor]

BATCH_WORDS = 2048
"""Words scored at once."""


@dataclass(frozen=True)
class SentencePairs:
    """Source and target ids, one for one, without start and end."""

    sources: Sentences
    targets: Sentences

    @property
    def lengths(self) -> Tensor:
        """Words of the longer side, the end of the target counted. Shape: (N,)"""
        return torch.maximum(self.sources.lengths, self.targets.lengths + 1)

    def batch(self, rows: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """What is read, what has been written, and what is to be written next.

        Shape: rows (B,) -> (B, S), (B, T + 1), (B, T + 1)
        """
        source, target = self.sources.padded(rows), self.targets.padded(rows)
        before = F.pad(target, (1, 0), value=START)
        after = F.pad(target, (0, 1), value=PADDING)
        after[torch.arange(len(rows)), self.targets.lengths[rows]] = END
        # Nothing is read after the last word, so the words before are as many as those to write.
        before = before.masked_fill(after == PADDING, PADDING)
        return source.to(device), before.to(device), after.to(device)


@dataclass
class TranslationTask:
    """Say the next word of a translation.

    Args:
        train: what is learnt from.
        dev: what selects the best weights.
        settings: label smoothing, word dropout, and how many looks' weights are remembered.
        bleu: BLEU on a part of dev, or `None`.
    """

    train: SentencePairs
    dev: SentencePairs
    settings: TranslationTrainingConfig
    bleu: Callable[[], float] | None = None
    recent: deque[Weights] = field(init=False)
    """The weights at the last looks, the latest one last."""

    def __post_init__(self) -> None:
        self.recent = deque(maxlen=self.settings.average)

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return token_batches(self.train.lengths, size, generator=generator)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        source, before, after = self.train.batch(rows, device)
        places = positions(source != PADDING), positions(before != PADDING)
        total = model(
            self._dropped(source),
            self._dropped(before),
            *places,
            wanted=after,
            label_smoothing=self.settings.label_smoothing,
        )
        n = int((after != PADDING).sum())
        return total, n, n + int((source != PADDING).sum())

    def _dropped(self, ids: Tensor) -> Tensor:
        """With some words taken for unknown ones. Shape: (B, L) -> (B, L)"""
        share = self.settings.word_dropout
        if not share:
            return ids
        dropped = (torch.rand(ids.shape, device=ids.device) < share) & (ids > END)
        return ids.masked_fill(dropped, UNKNOWN)

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.settings.average:
            weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            self.recent.append(weights)
        return self.figures(model)

    def figures(self, model: nn.Module) -> dict[str, float]:
        """How good a model is on dev, what selects first."""
        scores = {"likelihood": likelihood(model, self.dev)}
        if not math.isfinite(scores["likelihood"]):
            raise WordwaveError(
                f"the likelihood of dev is {scores['likelihood']}: lower learning_rate, "
                f"got {self.settings.learning_rate}"
            )
        if self.bleu is not None:
            scores["bleu"] = self.bleu()
        select = self.settings.select
        return {select: scores.pop(select), **scores}

    def state(self) -> Weights:
        return {f"{i}.{k}": v for i, weights in enumerate(self.recent) for k, v in weights.items()}

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        weights = model.state_dict()
        n = min(-(-len(state) // len(weights)), self.settings.average)
        check_like(state, {f"{i}.{k}": v for i in range(n) for k, v in weights.items()})

    def load_state(self, state: Weights) -> None:
        by_look: dict[int, Weights] = {}
        for name, value in state.items():
            look, _, key = name.partition(".")
            by_look.setdefault(int(look), {})[key] = value
        self.recent = deque((by_look[i] for i in sorted(by_look)), maxlen=self.settings.average)

    def averaged(self) -> Weights:
        """The mean of the weights at the last looks; empty if none are remembered."""
        if not self.recent:
            return {}
        return {k: torch.stack([w[k] for w in self.recent]).mean(0) for k in self.recent[0]}


def likelihood(model: nn.Module, pairs: SentencePairs) -> float:
    """The mean log-probability of a piece of the true translations."""
    total, n = 0.0, 0
    with eval_mode(model) as device:
        for rows in by_length(pairs.lengths, BATCH_WORDS):
            source, before, after = pairs.batch(rows, device)
            total += float(model(source, before, wanted=after))
            n += int((after != PADDING).sum())
    return -total / n


GREEDY = Search(beam=1)
SAID = "test.jsonl"
"""The file in a run folder with the translations of the test part."""


class TestFigure(TypedDict):
    """What is shown of `Figure`."""

    value: float
    interval: tuple[float, float]
    signature: str


class TestScores(TypedDict):
    """What is shown of `TranslationScores`."""

    n: int
    bleu: TestFigure
    tokenised_bleu: TestFigure
    chrf: TestFigure


class _MayHave(TypedDict, total=False):
    dev_bleu: float


class Result(_MayHave):
    """What is shown of result.json."""

    test: TestScores | None
    dev_likelihood: float
    averaged: bool
    steps: int
    parameters: int
    words_per_second: float | None
    seconds: float


@dataclass(frozen=True)
class PreparedTranslator(Prepared):
    """A translator before its training."""

    translator: Translator
    task: TranslationTask
    test: ParallelSentences | None
    notes: list[str]
    fingerprint: str

    @property
    def trained(self) -> Translator:
        return self.translator

    @property
    def to_score(self) -> str:
        return "" if self.test is None else f"{len(self.test):,} translations of the test part"

    def result(
        self, training: Training, journal: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        model = self.translator.model
        averaged = prefer_average(self.translator, self.task)
        test, n_cut = None, 0
        if self.test is not None:
            said, n_cut = best_of(self.translator, self.test.sources)
            test = scored(self.translator, said, self.test.targets).plain()
            write_said(said, folder)
        return {
            "test": test,
            "test_sentences_cut": n_cut,
            "examples": self.fingerprint,
            **{f"dev_{name}": value for name, value in self.task.figures(model).items()},
            "averaged": averaged,
            "best_step": training.progress.best_step,
            "steps": training.progress.step,
            "parameters": count_parameters(model),
            "words_per_second": median(r["words_per_second"] for r in journal) if journal else None,
            "seconds": round(sum(r["seconds"] for r in journal), 1),
        }


def prepare(config: TranslationConfig, parts: ParallelSplits) -> PreparedTranslator:
    """Make pieces, model and ids; only the training part is looked at for the first two.

    The model depends on the config and the data alone, not on the global random state.
    """
    source, target = texts_of(config)

    def tokenised(pairs: ParallelSentences) -> ParallelSentences:
        sides = (
            [source.tokenised(t) for t in pairs.sources],
            [target.tokenised(t) for t in pairs.targets],
        )
        return ParallelSentences(*sides, pairs.name)

    train, dev = tokenised(parts.train), tokenised(parts.dev)
    pieces = train_subwords(config, [*train.sources, *train.targets], parts.train.targets)
    notes = [f"{len(train):,} pairs, {len(pieces):,} pieces of words for both languages"]
    check_training_fits(
        lambda: translation_model(config.model, len(pieces)),
        "fewer or narrower layers (--dim, --feed-forward-dim, --encoder-layers, --decoder-layers), "
        "or fewer pieces of words (--bpe-size)",
        row_sparse=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = translation_model(config.model, len(pieces))
    translator = Translator(model, pieces, config)
    task = TranslationTask(
        encoded(train, pieces, notes), encoded(dev, pieces, notes), config.training
    )
    check_reach(
        config.training.random_positions,
        int(task.train.lengths.max()),
        "pieces of the longest sentence",
        config.model.max_length + 1 if config.model.embedding == "pe" else None,
    )
    n = config.training.eval_bleu
    if n:
        texts, wanted = parts.dev.sources[:n], [t.lower() for t in dev.targets[:n]]

        def bleu() -> float:
            said = translator.translations(texts, GREEDY)[0]
            return tokenised_bleu([best[0].tokenised for best in said], wanted)

        task.bleu = bleu
    return PreparedTranslator(translator, task, parts.test, notes, parts.fingerprint())


def encoded(pairs: ParallelSentences, pieces: SubwordEncoder, notes: list[str]) -> SentencePairs:
    """ParallelSentences as ids, without those of which one side is too long."""
    sources, targets = pieces.encode(pairs.sources)[0], pieces.encode(pairs.targets)[0]
    fits = torch.maximum(sources.lengths, targets.lengths) <= pieces.max_length
    if not fits.all():
        notes.append(
            f"{int((~fits).sum()):,} of {len(pairs):,} pairs of {pairs.name} have more than "
            f"{pieces.max_length} pieces and were left out (--max-length)"
        )
    if not fits.any():
        raise WordwaveError(
            f"{pairs.name} must hold a pair of at most {pieces.max_length} pieces a side "
            "(--max-length), got none"
        )

    def kept(sentences: Sentences) -> Sentences:
        ids = sentences.ids[fits.repeat_interleave(sentences.lengths)]
        return Sentences(ids, sentences.lengths[fits])

    return SentencePairs(kept(sources), kept(targets))


def check_same_run(config: TranslationConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    check_same(folder, Translator.task, config)


def prefer_average(translator: Translator, task: TranslationTask) -> bool:
    """Take the average of the last looks' weights if dev likes it better; whether it did."""
    if len(task.recent) < 2:
        return False
    model = translator.model
    best: Weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
    before = next(iter(task.figures(model).values()))
    model.load_state_dict(task.averaged())
    if next(iter(task.figures(model).values())) > before:
        return True
    model.load_state_dict(best)
    return False


def evaluate(
    translator: Translator, pairs: ParallelSentences, search: Search | None = None
) -> TranslationScores:
    """How good a translator is on pairs of sentences."""
    return scored(translator, best_of(translator, pairs.sources, search)[0], pairs.targets)


def best_of(
    translator: Translator, texts: list[str], search: Search | None = None
) -> tuple[list[Translation], int]:
    """The best translation of each text, and how many texts were cut to the greatest length."""
    found, n_cut = translator.translations(texts, search)
    return [best[0] for best in found], n_cut


def scored(
    translator: Translator, said: list[Translation], references: list[str]
) -> TranslationScores:
    """How good translations are."""
    moses = translator.config.text.words == "moses"
    return score_translations(
        [t.text for t in said],
        references,
        language=translator.config.data.target_language,
        tokenised=[t.tokenised for t in said] if moses else None,
    )


def write_said(said: list[Translation], folder: Path) -> None:
    """Keep the translations of the test part, for other references and other scorers."""
    lines = (json.dumps(t.plain(), ensure_ascii=False) + "\n" for t in said)
    write_text(folder / SAID, "".join(lines))


def read_said(folder: Path) -> list[Translation]:
    """What `write_said` wrote."""
    path = folder / SAID
    lines = read_text(path, most=MOST_JSON).removesuffix("\n").split("\n")
    return [from_dict(Translation, parse_json(line), where=f"'{path}'") for line in lines]
