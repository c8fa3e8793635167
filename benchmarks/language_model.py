"""Language models: a training step with waves beside a real one, and writing with a memory."""

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
from wordwave.tasks.language_modelling import prepare
from wordwave.training.loop import Training
from wordwave.training.task import Step

CHARACTERS = "abcdefghijklmnopqrstuvwxyz "
N_READ, WRITTEN = 100_000, 512


def steps(precision: Precision) -> list[Contender]:
    """Training steps of small rows of Table 6, which have as many parameters; waves first."""
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
    """512 characters written with a memory, and with all that is there read anew each time."""
    torch.manual_seed(0)
    alphabet = Alphabet("char", CHARACTERS)
    config = row_configs("small")["complex-order"]
    model = replace(config.model, eval_memory_length=WRITTEN)
    writer = LanguageModel(model_for(alphabet, model), alphabet, replace(config, model=model))

    def write(cached: bool) -> None:
        said = "".join(writer.write("a", WRITTEN, Sampling(temperature=1.0), cached=cached))
        assert len(said) == WRITTEN

    return [
        Contender("with memory", _nothing, partial(write, True)),
        Contender("read anew", _nothing, partial(write, False)),
    ]


def _step(name: str, config: LanguageModelConfig, precision: Precision) -> Contender:
    drawn = np.random.default_rng(0).integers(len(CHARACTERS), size=N_READ)
    text = Text("noise", np.frombuffer(CHARACTERS.encode(), np.uint8)[drawn])
    endless = replace(config.training, max_steps=10**6, eval_every=10**6, precision=precision)
    config = replace(config, training=endless)
    prepared = prepare(config, TextSplits(text, text, text, "char"))
    reports = Training(prepared.writer.model, prepared.task, endless).run()
    return Contender(name, _nothing, _next_step(reports), precision)


def _next_step(reports: Iterator[object]) -> Callable[[], None]:
    def step() -> None:
        while not isinstance(next(reports), Step):
            pass

    return step


def _nothing() -> None:
    pass
