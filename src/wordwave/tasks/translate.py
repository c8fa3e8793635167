"""Translation from pairs of sentences to a run folder: data + model + loss + figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

import torch

from wordwave.data.parallel_text import Pairs, ParallelParts
from wordwave.files import read_text, write_text
from wordwave.models.classifier import count_parameters
from wordwave.models.translation import translation_model
from wordwave.plain import MOST_JSON, from_plain, parse_json
from wordwave.tasks.footprint import check_training_fits
from wordwave.tasks.pair_task import PairTask, SentencePairs, Weights
from wordwave.tasks.pieces import Pieces, learn_pieces, texts_of
from wordwave.tasks.prepared import Prepared
from wordwave.tasks.run_folder import check_same
from wordwave.tasks.translate_config import TranslateConfig
from wordwave.tasks.translation_scores import (
    TranslationScores,
    score_translations,
    tokenised_bleu,
)
from wordwave.tasks.translator import Search, Translation, Translator
from wordwave.text.sentences import Sentences
from wordwave.training.loop import Training
from wordwave.training.positions import check_reach

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
    task: PairTask
    test: Pairs | None
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


def prepare(config: TranslateConfig, parts: ParallelParts) -> PreparedTranslator:
    """Make pieces, model and ids; only the training part is looked at for the first two.

    The model depends on the config and the data alone, not on the global random state.
    """
    source, target = texts_of(config)

    def tokenised(pairs: Pairs) -> Pairs:
        sides = (
            [source.tokenised(t) for t in pairs.sources],
            [target.tokenised(t) for t in pairs.targets],
        )
        return Pairs(*sides, pairs.name)

    train, dev = tokenised(parts.train), tokenised(parts.dev)
    pieces = learn_pieces(config, [*train.sources, *train.targets], parts.train.targets)
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
    task = PairTask(encoded(train, pieces, notes), encoded(dev, pieces, notes), config.training)
    check_reach(
        config.training.random_positions,
        int(task.train.lengths.max()),
        "pieces of the longest sentence",
        config.model.max_length + 1 if config.model.embedding == "pe" else None,
    )
    n = config.training.judge_bleu
    if n:
        texts, wanted = parts.dev.sources[:n], [t.lower() for t in dev.targets[:n]]

        def bleu() -> float:
            said = translator.translations(texts, GREEDY)[0]
            return tokenised_bleu([best[0].tokenised for best in said], wanted)

        task.bleu = bleu
    return PreparedTranslator(translator, task, parts.test, notes, parts.fingerprint())


def encoded(pairs: Pairs, pieces: Pieces, notes: list[str]) -> SentencePairs:
    """Pairs as ids, without those of which one side is too long."""
    sources, targets = pieces.encode(pairs.sources)[0], pieces.encode(pairs.targets)[0]
    fits = torch.maximum(sources.lengths, targets.lengths) <= pieces.max_length
    if not fits.all():
        notes.append(
            f"{int((~fits).sum()):,} of {len(pairs):,} pairs of {pairs.name} have more than "
            f"{pieces.max_length} pieces and were left out (--max-length)"
        )
    if not fits.any():
        raise ValueError(
            f"{pairs.name} must hold a pair of at most {pieces.max_length} pieces a side "
            "(--max-length), got none"
        )

    def kept(sentences: Sentences) -> Sentences:
        ids = sentences.ids[fits.repeat_interleave(sentences.lengths)]
        return Sentences(ids, sentences.lengths[fits])

    return SentencePairs(kept(sources), kept(targets))


def check_same_run(config: TranslateConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    check_same(folder, Translator.task, config)


def prefer_average(translator: Translator, task: PairTask) -> bool:
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
    translator: Translator, pairs: Pairs, search: Search | None = None
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
    return [from_plain(Translation, parse_json(line), where=f"'{path}'") for line in lines]
