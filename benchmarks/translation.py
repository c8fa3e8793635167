"""Translation: decoding with and without a cache, and training steps, complex and real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from benchmarks.measure import Contender, Precision
from wordwave.embedding import EmbeddingConfig
from wordwave.models.beam_search import Recomputed, beam_search
from wordwave.models.config import TranslationModelConfig
from wordwave.models.encoder_decoder import EOS_ID, N_SPECIALS, translation_model
from wordwave.tasks.config import TranslationTrainingConfig
from wordwave.tasks.translation import SentencePairs, TranslationTask
from wordwave.text.batching import Sentences
from wordwave.training.loop import Step, Training

N_PIECES, BEAM, LENGTH, N_SOURCES = 10_004, 5, 50, 64
REAL = TranslationModelConfig(embedding=EmbeddingConfig("tpe"), dim=128, feed_forward_dim=256)
COMPLEX = TranslationModelConfig(dim=80, feed_forward_dim=144)


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
