"""Translation: decoding with and without a cache, and training steps, complex and real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.measure import Contender, Precision
from wordwave.embedding import EmbeddingConfig
from wordwave.models.beam_search import beam_search
from wordwave.models.config import TranslationModelConfig
from wordwave.models.encoder_decoder import (
    EOS_ID,
    N_SPECIALS,
    DecoderState,
    EncoderDecoder,
    translation_model,
)
from wordwave.tasks.config import TranslationTrainingConfig
from wordwave.tasks.translation import SentencePairs, TranslationTask
from wordwave.text.batching import Sentences
from wordwave.training.loop import Step, Training

N_PIECES, BEAM, LENGTH, N_SOURCES = 10_004, 5, 50, 64
REAL = TranslationModelConfig(embedding=EmbeddingConfig("tpe"), dim=128, feed_forward_dim=256)
COMPLEX = TranslationModelConfig(dim=80, feed_forward_dim=144)


class Recomputed:
    """A decoder without a cache, which computes the whole target in each step: the baseline of the
    cached one, and the definition that it is tested against."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model

    def encode(self, source: Tensor) -> Prefix:
        return Prefix(self.model.encode(source), source.new_zeros(source.shape[0], 0))

    def step(self, state: Prefix, ids: Tensor) -> tuple[Tensor, Prefix]:
        target = torch.cat([state.target, ids.unsqueeze(1)], dim=1)
        hidden, _ = self.model.decode(target, state.encoded)
        return self.model.logits(hidden[:, -1]), Prefix(state.encoded, target)


@dataclass(frozen=True)
class Prefix:
    """The state of `Recomputed`: the sources, and the target so far."""

    encoded: DecoderState
    target: Tensor

    def select(self, rows: Tensor, sources: Tensor | None = None) -> Prefix:
        return Prefix(self.encoded.select(rows, sources), self.target[rows])


def decoding(config: TranslationModelConfig) -> list[Contender]:
    """Beam search over sentences that all reach the maximum length."""
    torch.manual_seed(0)
    model = translation_model(config, N_PIECES).eval()
    with torch.no_grad():  # the end is never likely
        model.embedding.vectors[EOS_ID] = 0
    source = torch.randint(N_SPECIALS, N_PIECES, (N_SOURCES, LENGTH // 2))

    def search(decoder: object) -> object:
        return beam_search(decoder, source, max_lengths=[LENGTH] * N_SOURCES, beam=BEAM)

    return [
        Contender("cached", lambda: None, partial(search, model)),
        Contender("recomputed", lambda: None, partial(search, Recomputed(model))),
    ]


def pairs_like_multi30k(n: int = 2000) -> SentencePairs:
    """Lengths as in Multi30k (mean 14), subwords by Zipf's law."""

    def side() -> Sentences:
        lengths = (torch.randn(n) * 4 + 14).clamp(4, 40).long()
        weights = 1 / torch.arange(N_PIECES).float()
        weights[:N_SPECIALS] = 0
        return Sentences(torch.multinomial(weights, int(lengths.sum()), replacement=True), lengths)

    return SentencePairs(side(), side())


def steps(name: str, config: TranslationModelConfig, precision: Precision) -> Contender:
    """Steps of the training loop on 1,024 words."""
    torch.manual_seed(0)
    settings = TranslationTrainingConfig(eval_every=10**9, max_steps=10**9, precision=precision)
    pairs = pairs_like_multi30k()
    model = translation_model(config, N_PIECES)
    reports = Training(model, TranslationTask(pairs, pairs, settings), settings).run()
    return Contender(name, lambda: None, partial(_one_step, reports), precision)


def _one_step(reports: Iterator[object]) -> None:
    while not isinstance(next(reports), Step):
        pass


def training(precision: Precision) -> list[Contender]:
    """complex-order and tpe with the same number of parameters."""
    return [
        steps("complex-order", COMPLEX, precision),
        steps("tpe", REAL, precision),
    ]


def builders() -> dict[str, Callable[[], list[Contender]]]:
    """By the name of the row; the training rows are for either precision."""
    return {
        "decode-complex": partial(decoding, COMPLEX),
        "decode-real": partial(decoding, REAL),
        "translate-step": partial(training, "fp32"),
        "translate-step-bf16": partial(training, "bf16"),
    }
