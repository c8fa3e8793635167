"""Language models: a training step with waves beside a real one, and writing with a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from benchmarks.measure import Contender, Precision
from wordwave.data.characters import Alphabet, Text
from wordwave.models.classifier import count_parameters
from wordwave.models.transformer_xl import TransformerXL
from wordwave.models.xl_config import XLConfig
from wordwave.tasks.lm_config import LmConfig, LmTrainingSettings
from wordwave.tasks.sampling import Sampling
from wordwave.tasks.streams import StreamTask
from wordwave.tasks.writer import Writer, model_for
from wordwave.training.loop import Training
from wordwave.training.task import Step

CHARACTERS = "abcdefghijklmnopqrstuvwxyz "
BATCH, LENGTH = 8, 128
WRITTEN = 512


def real_config(dim: int) -> XLConfig:
    """Two layers of Transformer-XL."""
    return XLConfig(
        embedding="none",
        dim=dim,
        n_layers=2,
        n_heads=4,
        feed_forward_dim=4 * dim,
        segment_length=LENGTH,
        memory_length=LENGTH,
        evaluation_memory=WRITTEN,
    )


def with_waves(real: XLConfig) -> XLConfig:
    """As many parameters within a hundredth: complex layers are narrower by √2."""
    unit = 2 * real.n_heads
    dim = unit * max(round(real.dim / 2**0.5 / unit), 1)
    waves = replace(real, embedding="complex-order", dim=dim)
    base, more = (_size(replace(waves, feed_forward_dim=f)) for f in (1, 2))
    wanted = 1 + (_size(real) - base) / (more - base)
    return replace(waves, feed_forward_dim=8 * max(round(wanted / 8), 1))


def steps(dim: int, precision: Precision) -> list[Contender]:
    """Training steps at equal parameters: waves, the real model, and that with RoPE."""
    real = real_config(dim)
    configs = {
        "complex-order": with_waves(real),
        "real": real,
        "real + rope": replace(real, position="rope"),
    }
    return [_step(name, config, precision) for name, config in configs.items()]


def generation(dim: int) -> list[Contender]:
    """512 characters written with a memory, and with all that is there read anew each time."""
    torch.manual_seed(0)
    alphabet = Alphabet("char", CHARACTERS)
    config = with_waves(real_config(dim))
    writer = Writer(model_for(alphabet, config), alphabet, LmConfig(model=config))

    def write(cached: bool) -> None:
        said = "".join(writer.write("a", WRITTEN, Sampling(temperature=1.0), cached=cached))
        assert len(said) == WRITTEN

    return [
        Contender("with memory", _nothing, partial(write, True)),
        Contender("read anew", _nothing, partial(write, False)),
    ]


def _step(name: str, config: XLConfig, precision: Precision) -> Contender:
    torch.manual_seed(0)
    alphabet = Alphabet("char", CHARACTERS)
    drawn = np.random.default_rng(0).integers(len(CHARACTERS), size=50 * BATCH * LENGTH)
    symbols = np.frombuffer(CHARACTERS.encode(), np.uint8)[drawn]
    task = StreamTask(Text("noise", symbols), None, alphabet, length=LENGTH)
    settings = LmTrainingSettings(
        max_steps=100_000, judge_every=100_000, batch_size=BATCH, precision=precision
    )
    reports = Training(model_for(alphabet, config), task, settings).run()
    return Contender(name, _nothing, _next_step(reports), precision)


def _next_step(reports: Iterator[object]) -> Callable[[], None]:
    def step() -> None:
        while not isinstance(next(reports), Step):
            pass

    return step


def _nothing() -> None:
    pass


def _size(config: XLConfig) -> int:
    return count_parameters(TransformerXL(config, len(CHARACTERS) + 1))
