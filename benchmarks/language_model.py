"""Language models: training steps, complex and real, and generation with and without a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from benchmarks.measure import Contender, Precision
from experiments.table6 import row_configs
from wordwave.data.characters import Alphabet, Text
from wordwave.data.corpora import TextSplits
from wordwave.tasks.config import LanguageModelConfig, Sampling
from wordwave.tasks.language_model import LanguageModel, model_for
from wordwave.tasks.language_modelling import LanguageModelJob
from wordwave.training.loop import Step

CHARACTERS = "abcdefghijklmnopqrstuvwxyz "
N_READ, WRITTEN = 100_000, 512


def steps(precision: Precision) -> list[Contender]:
    """Training steps of the small, parameter-matched rows of Table 6; complex-order first."""
    rows = row_configs("small")
    names = {
        "complex-order": "complex-order",
        "real": "transformer-xl",
        "real + rope": "transformer-xl + rope",
        "real + tpe": "transformer-xl + tpe",
        "complex-vanilla": "complex-vanilla",
    }
    return [_step(name, rows[row], precision) for name, row in names.items()]


def generation() -> list[Contender]:
    """512 characters, generated with a cache, and recomputing the whole context each time."""
    torch.manual_seed(0)
    alphabet = Alphabet("char", CHARACTERS)
    config = row_configs("small")["complex-order"]
    model = replace(config.model, eval_memory_length=WRITTEN)
    writer = LanguageModel(model_for(alphabet, model), alphabet, replace(config, model=model))

    def write(cached: bool) -> None:
        text = writer.generate("a", WRITTEN, sampling=Sampling(temperature=1.0), cached=cached)
        assert len(text) == WRITTEN

    return [
        Contender("cached", _nothing, partial(write, True)),
        Contender("recomputed", _nothing, partial(write, False)),
    ]


def _step(name: str, config: LanguageModelConfig, precision: Precision) -> Contender:
    drawn = np.random.default_rng(0).integers(len(CHARACTERS), size=N_READ)
    text = Text("noise", np.frombuffer(CHARACTERS.encode(), np.uint8)[drawn])
    endless = replace(config.training, max_steps=10**6, eval_every=10**6, precision=precision)
    config = replace(config, training=endless)
    reports = (
        LanguageModelJob(config).prepare(TextSplits(text, text, text, "char")).training().run()
    )
    return Contender(name, _nothing, _next_step(reports), precision)


def _next_step(reports: Iterator[object]) -> Callable[[], None]:
    def step() -> None:
        while not isinstance(next(reports), Step):
            pass

    return step


def _nothing() -> None:
    pass
