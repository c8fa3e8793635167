"""Machine translation: the training task, its scores, and the job."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.parallel import ParallelSentences, ParallelSplits, load_pairs, read_pairs
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, translation_model
from wordwave.models.utils import eval_mode
from wordwave.progress import track
from wordwave.tasks.bleu import TranslationScores, score_translations, tokenised_bleu
from wordwave.tasks.config import TranslationConfig, TranslationTrainingConfig
from wordwave.tasks.run import Evaluation, Job
from wordwave.tasks.translator import (
    BeamConfig,
    SubwordEncoder,
    Translation,
    Translator,
    texts_of,
)
from wordwave.tensor_files import check_like
from wordwave.text.batching import Sentences, by_length, token_batches
from wordwave.text.tokenizers import Casing, train_bpe
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID
from wordwave.training.loop import Positions, Training
from wordwave.training.positions import check_random_positions

Weights = dict[str, Tensor]

BATCH_WORDS = 2048
"""Words in a batch of the validation set."""
GREEDY = BeamConfig(beam=1)
TRANSLATIONS = "test.jsonl"
"""The file in a run folder with the translations of the test set."""


@dataclass(frozen=True)
class SentencePairs:
    """Ids of source and target sentences, without start and end."""

    sources: Sentences
    targets: Sentences

    @property
    def lengths(self) -> Tensor:
        """Length of the longer side, including the end of the target. Shape: (N,)"""
        return torch.maximum(self.sources.lengths, self.targets.lengths + 1)

    def batch(self, rows: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the encoder, the input of the decoder, and its targets.

        Shape: rows (B,) -> (B, S), (B, T + 1), (B, T + 1)
        """
        source, target = self.sources.padded(rows), self.targets.padded(rows)
        before = F.pad(target, (1, 0), value=BOS_ID)
        after = F.pad(target, (0, 1), value=PADDING_ID)
        after[torch.arange(len(rows)), self.targets.lengths[rows]] = EOS_ID
        # The decoder has as many inputs as targets: none after the last word.
        before = before.masked_fill(after == PADDING_ID, PADDING_ID)
        return source.to(device), before.to(device), after.to(device)


@dataclass
class TranslationTask:
    """Predict the next subword of a translation."""

    train: SentencePairs
    dev: SentencePairs
    """The validation set."""
    settings: TranslationTrainingConfig
    bleu: Callable[[], float] | None = None
    """Computes BLEU on a part of the validation set."""
    recent: deque[Weights] = field(init=False)
    """The weights at the last evaluations, the latest ones last."""

    def __post_init__(self) -> None:
        self.recent = deque(maxlen=self.settings.average)

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return token_batches(self.train.lengths, size, generator=generator)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        source, before, after = self.train.batch(rows, device)
        drawn = positions(source != PADDING_ID), positions(before != PADDING_ID)
        total = model(
            self._dropped(source),
            self._dropped(before),
            *drawn,
            labels=after,
            label_smoothing=self.settings.label_smoothing,
        )
        n = int((after != PADDING_ID).sum())
        return total, n, n + int((source != PADDING_ID).sum())

    def _dropped(self, ids: Tensor) -> Tensor:
        """With some words replaced by the unknown word. Shape: (B, L) -> (B, L)"""
        share = self.settings.word_dropout
        if not share:
            return ids
        dropped = (torch.rand(ids.shape, device=ids.device) < share) & (ids > EOS_ID)
        return ids.masked_fill(dropped, UNKNOWN_ID)

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.settings.average:
            self.recent.append(_copied(model))
        return self.metrics(model)

    def metrics(self, model: nn.Module) -> dict[str, float]:
        """Metrics on the validation set, the one that selects first."""
        scores = {"likelihood": likelihood(model, self.dev)}
        if not math.isfinite(scores["likelihood"]):
            raise WordwaveError(
                f"the likelihood of the validation set is {scores['likelihood']}: lower "
                f"learning_rate, got {self.settings.learning_rate}"
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
        found: dict[int, Weights] = {}
        for name, value in state.items():
            number, _, key = name.partition(".")
            found.setdefault(int(number), {})[key] = value
        self.recent = deque((found[i] for i in sorted(found)), maxlen=self.settings.average)

    def averaged(self) -> Weights:
        """The mean of the weights at the last evaluations."""
        return {k: torch.stack([w[k] for w in self.recent]).mean(0) for k in self.recent[0]}

    def average_if_better(self, model: nn.Module) -> bool:
        """Load the mean of the last weights if it scores higher on the validation set."""
        if len(self.recent) < 2:
            return False
        best, before = _copied(model), next(iter(self.metrics(model).values()))
        model.load_state_dict(self.averaged())
        if next(iter(self.metrics(model).values())) > before:
            return True
        model.load_state_dict(best)
        return False


def _copied(model: nn.Module) -> Weights:
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def likelihood(model: nn.Module, pairs: SentencePairs) -> float:
    """The mean log-probability of a subword of the reference translations."""
    total, n = 0.0, 0
    with eval_mode(model) as device:
        batches = by_length(pairs.lengths, BATCH_WORDS)
        for rows in track(batches, "scoring validation sentences", len(batches)):
            source, before, after = pairs.batch(rows, device)
            total += float(model(source, before, labels=after))
            n += int((after != PADDING_ID).sum())
    return -total / n


class _Optional(TypedDict, total=False):
    dev_bleu: float
    length_penalty: float


class _Result(_Optional):
    test: TranslationScores | None
    dev_likelihood: float
    averaged: bool
    steps: int
    parameters: int
    words_per_second: float | None


class TranslationJob(Job[TranslationConfig, ParallelSplits]):
    """Train or evaluate a translation model."""

    model_class, result_schema = Translator, _Result
    next_command = 'echo "a sentence" | wordwave translate {run}'
    config: TranslationConfig
    text_model: Translator
    task: TranslationTask
    dev: ParallelSentences
    test: ParallelSentences | None
    length_penalties: tuple[float, ...] = ()
    """Tried on the validation set after training; the best one translates the test set. Without
    any it is that of `BeamConfig`."""

    def load_data(self) -> ParallelSplits:
        return load_pairs(self.config.data)

    def prepare(self, data: ParallelSplits) -> TranslationJob:
        config, (source, target) = self.config, texts_of(self.config)

        def tokenised(pairs: ParallelSentences) -> ParallelSentences:
            sides = (source, pairs.sources), (target, pairs.targets)
            texts = ((side.tokenised, text) for side, texts in sides for text in texts)
            both = track(texts, f"tokenizing {pairs.name}", 2 * len(pairs))
            tokenised = [split(text) for split, text in both]
            sources, targets = tokenised[: len(pairs)], tokenised[len(pairs) :]
            return ParallelSentences(sources, targets, pairs.name)

        train, dev = tokenised(data.train), tokenised(data.dev)
        words = track([*train.sources, *train.targets], "learning subwords", 2 * len(train))
        tokenizer = train_bpe(words, config.text.bpe_size)
        casing = Casing.learn(data.train.targets) if config.text.lower_case else None
        subwords = SubwordEncoder(tokenizer, config, casing)
        self.notes = [f"{len(train):,} pairs, {len(subwords):,} subwords for both languages"]
        model = self.built(
            lambda: translation_model(config.model, len(subwords)),
            "fewer or narrower layers (--dim, --feed-forward-dim, --encoder-layers, "
            "--decoder-layers), or fewer subwords (--bpe-size)",
        )
        self.text_model = translator = Translator(model, subwords, config)
        self.task = TranslationTask(self._encoded(train), self._encoded(dev), config.training)
        check_random_positions(
            config.training.random_positions,
            int(self.task.train.lengths.max()),
            "subwords of the longest sentence",
            config.model.max_length + 1 if config.model.embedding.kind == "pe" else None,
        )
        if n := config.training.eval_bleu:
            texts, references = data.dev.sources[:n], [t.lower() for t in dev.targets[:n]]

            def bleu() -> float:
                found = translator.translations(texts, GREEDY)[0]
                return tokenised_bleu([best[0].tokenised for best in found], references)

            self.task.bleu = bleu
        self.dev, self.test, self.fingerprint = data.dev, data.test, data.fingerprint()
        return self

    def _encoded(self, pairs: ParallelSentences) -> SentencePairs:
        """Pairs as ids, without those of which one side is too long."""
        subwords = self.text_model.subwords
        what = f"encoding {pairs.name}"
        sides = [
            subwords.encode(track(side, what, len(pairs)))[0]
            for side in (pairs.sources, pairs.targets)
        ]
        fits = torch.maximum(sides[0].lengths, sides[1].lengths) <= subwords.max_length
        if not fits.all():
            self.notes.append(
                f"{int((~fits).sum()):,} of {len(pairs):,} pairs of {pairs.name} have more than "
                f"{subwords.max_length} subwords and were left out (--max-length)"
            )
        if not fits.any():
            raise WordwaveError(
                f"{pairs.name} must have a pair of at most {subwords.max_length} subwords a side "
                "(--max-length), got none"
            )
        kept = (
            Sentences(side.ids[fits.repeat_interleave(side.lengths)], side.lengths[fits])
            for side in sides
        )
        return SentencePairs(*kept)

    @property
    def scored_at_end(self) -> str:
        return "" if self.test is None else f"{len(self.test):,} translations of the test set"

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        model = self.text_model.model
        averaged = self.task.average_if_better(model)
        n_truncated, test = 0, None
        tuned: dict[str, Any] = {}
        if self.test is not None:
            beam = BeamConfig()
            if self.length_penalties:
                beam = self._tuned_beam()
                tuned = {"length_penalty": beam.length_penalty}
            found, n_truncated, test = self._scored(self.test, beam)
            lines = (json.dumps(t.plain(), ensure_ascii=False) + "\n" for t in found)
            write_text(folder / TRANSLATIONS, "".join(lines))
        return {
            "test": test,
            "test_sentences_cut": n_truncated,
            **tuned,
            **{f"dev_{name}": value for name, value in self.task.metrics(model).items()},
            "averaged": averaged,
        }

    def _tuned_beam(self) -> BeamConfig:
        """With the length penalty of the highest BLEU on the validation set."""

        def bleu(beam: BeamConfig) -> float:
            return self._scored(self.dev, beam)[2]["tokenised_bleu"]["value"]

        return max((BeamConfig(length_penalty=p) for p in self.length_penalties), key=bleu)

    def _scored(
        self, pairs: ParallelSentences, beam: BeamConfig | None = None
    ) -> tuple[list[Translation], int, TranslationScores]:
        """The best translations, the number of sentences that were truncated, and the scores."""
        found, n_truncated = self.text_model.translations(pairs.sources, beam)
        best = [translations[0] for translations in found]
        return best, n_truncated, score(self.text_model, best, pairs.targets)

    @property
    def run_name(self) -> str:
        model = self.config.model
        return f"{self.config.data.name}-{model.architecture}-{model.embedding.kind}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        weights = "averaged weights" if result["averaged"] else "weights of one evaluation"
        bleu = f", BLEU {result['dev_bleu']:.1f}" if "dev_bleu" in result else ""
        return [
            f"validation likelihood {result['dev_likelihood']:.4f}{bleu} "
            f"({weights}, {result['steps']:,} steps)",
            *(score_lines(result["test"]) if result["test"] is not None else ()),
        ]

    def read_data(self, **files: Any) -> ParallelSentences:
        """Args: source, target: files of sentences and their translations."""
        return read_pairs(files["source"], files["target"])

    def test_part(self, data: ParallelSplits, folder: Path) -> ParallelSentences:
        if data.test is None:
            raise WordwaveError(f"'{folder}' has no test set: name one with --source and --target")
        return data.test

    def evaluate(self, data: ParallelSentences, **options: Any) -> Evaluation:
        """Args: beam, length_penalty: as in `BeamConfig`."""
        _, n_truncated, scores = self._scored(data, BeamConfig(**options))
        lines = [f"{data.name}:", *score_lines(scores)]
        if n_truncated:
            lines.append(
                f"{n_truncated:,} of {len(data):,} sentences were truncated to "
                f"{self.text_model.subwords.max_length} subwords"
            )
        return Evaluation({**scores}, lines)


def score(
    translator: Translator, translations: list[Translation], references: list[str]
) -> TranslationScores:
    """BLEU and chrF of translations."""
    moses = translator.config.text.words == "moses"
    return score_translations(
        [t.text for t in translations],
        references,
        language=translator.config.data.target_language,
        tokenised=[t.tokenised for t in translations] if moses else None,
    )


def score_lines(scores: Mapping[str, Any]) -> list[str]:
    """Each score with its interval and signature."""
    names = {"bleu": "BLEU", "tokenised_bleu": "BLEU, lower-case tokens", "chrf": "chrF"}
    lines = []
    for key, name in names.items():
        one = scores[key]
        low, high = one["interval"]
        lines.append(
            f"{name} {one['value']:.2f} [{low:.2f}, {high:.2f}] on {scores['n']:,} sentences, "
            f"{one['signature']}"
        )
    return lines
